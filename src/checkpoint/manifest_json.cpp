// Serializes manifests to JSON, and parses them with validation of every size.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/manifest.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // small objects only: lookup is linear

constexpr std::string_view format_name = "trireme-checkpoint";
constexpr int format_version = 1;

// The text ends with: ,\n"xxh3":"0123456789abcdef"}\n
constexpr std::string_view tail_begin = ",\n\"xxh3\":\"";
constexpr std::string_view tail_end = "\"}\n";
constexpr std::size_t tail_size = tail_begin.size() + 16 + tail_end.size();

constexpr std::int64_t max_block_bytes = std::int64_t{64} << 20;
constexpr std::int64_t max_elements = std::int64_t{1} << 56;

Json shape_to_json(const Shape& shape) {
  return Json(std::vector(shape.begin(), shape.end()));
}

// JSON has no infinities or NaN; they are written as strings.
Json number_to_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from_json(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  return (json == "-inf" ? -1 : 1) * std::numeric_limits<double>::infinity();
}

OrderedJson state_to_json(const CheckpointState& state) {
  Json numbers = Json::object();
  for (const auto& [name, value] : state.numbers) numbers[name] = number_to_json(value);
  return {{"step", state.step},
          {"consumed_samples", state.consumed_samples},
          {"consumed_tokens", state.consumed_tokens},
          {"counters", state.counters},
          {"numbers", numbers},
          {"texts", state.texts},
          {"config_toml", state.config_toml}};
}

OrderedJson slice_to_json(const StoredSlice& slice) {
  OrderedJson json{{"shard", slice.shard},
                   {"key", slice.key},
                   {"offset", shape_to_json(slice.region.offset)},
                   {"shape", shape_to_json(slice.region.shape)}};
  if (!slice.region.is_full_rectangle()) json["range"] = {slice.region.begin, slice.region.end};
  OrderedJson& checksums = json["xxh3"] = OrderedJson::array();
  for (const std::uint64_t checksum : slice.checksums) checksums.push_back(hash_to_text(checksum));
  return json;
}

std::string tensor_to_text(const StoredTensor& tensor) {
  OrderedJson slices = OrderedJson::array();
  for (const StoredSlice& slice : tensor.slices) slices.push_back(slice_to_json(slice));
  const OrderedJson json{{"dtype", name_of(tensor.dtype)},
                         {"shape", shape_to_json(tensor.shape)},
                         {"slices", std::move(slices)}};
  return Json(tensor.name).dump() + ":" + json.dump();
}

// Rewords nlohmann's "[...] key 'step' not found" and "[...] type must be number, but is string".
std::string missing_or_wrong(std::string_view library_words) {
  const std::size_t begin = library_words.find("] ") + 2;
  const std::string_view words = library_words.substr(begin);
  if (words.starts_with("key ")) return fmt::format("it lacks the {}", words);
  return fmt::format("one of its values has the wrong type: the {}", words);
}

// Parses one manifest; every error message names it.
class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  Manifest parse(std::string_view text) {
    check_tail(text);
    const Json json = parse_json(text, [&](const JsonFault& fault) {
      refuse(fmt::format("line {}, column {}: {}", fault.line, fault.column, fault.what));
    });
    try {
      if (json.at("format") != format_name) refuse("it is not a checkpoint's manifest");
      if (json.at("version") != format_version) {
        refuse(fmt::format("its format version is {}, this program reads {}",
                           json.at("version").dump(), format_version));
      }
      return from_json(json);
    } catch (const nlohmann::json::exception& error) {
      refuse(missing_or_wrong(error.what()));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail_input("'{}' is damaged: {}", name_, why);
  }

  void check_tail(std::string_view text) const {
    if (text.size() < tail_size) refuse("it is cut off");
    const std::string_view body = text.substr(0, text.size() - tail_size);
    const std::string_view tail = text.substr(body.size());
    if (!tail.starts_with(tail_begin) || !tail.ends_with(tail_end)) refuse("it is cut off");
    if (tail.substr(tail_begin.size(), 16) != hash_to_text(hash64(body))) {
      refuse("its text does not match its checksum");
    }
  }

  Manifest from_json(const Json& json) {
    Manifest out;
    out.program = json.at("program");
    out.block_bytes = json.at("block_bytes");
    if (out.block_bytes < 64 || out.block_bytes > max_block_bytes || out.block_bytes % 8 != 0) {
      refuse(fmt::format("its block size is {}", out.block_bytes));
    }
    out.state = state_from_json(json.at("state"));
    for (const Json& shard : json.at("shards")) out.shards.push_back(shard_from_json(shard));
    for (const auto& [name, tensor] : json.at("tensors").items()) {
      out.tensors.push_back(tensor_from_json(name, tensor, out));
    }
    return out;
  }

  static CheckpointState state_from_json(const Json& json) {
    CheckpointState state;
    state.step = json.at("step");
    state.consumed_samples = json.at("consumed_samples");
    state.consumed_tokens = json.at("consumed_tokens");
    state.counters = json.at("counters");
    for (const auto& [name, value] : json.at("numbers").items()) {
      state.numbers[name] = number_from_json(value);
    }
    state.texts = json.at("texts");
    state.config_toml = json.at("config_toml");
    return state;
  }

  StoredShard shard_from_json(const Json& json) const {
    StoredShard shard{json.at("file"), json.at("bytes"), checksum(json.at("header_xxh3"))};
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    if (!shard.file.starts_with("shard-") || !shard.file.ends_with(".safetensors") ||
        shard.file.find_first_not_of(allowed) != std::string::npos) {
      refuse(fmt::format("'{}' is not the name of a shard", shard.file));
    }
    return shard;
  }

  StoredTensor tensor_from_json(const std::string& name, const Json& json, const Manifest& out) {
    StoredTensor tensor{name, dtype(json.at("dtype")), shape(json.at("shape"))};
    for (const Json& part : json.at("slices")) {
      StoredSlice slice;
      slice.shard = part.at("shard");
      slice.key = part.at("key");
      slice.region = Region::rectangle(shape(part.at("offset")), shape(part.at("shape")));
      if (part.contains("range")) {
        slice.region.begin = part.at("range").at(0);
        slice.region.end = part.at("range").at(1);
      }
      if (slice.shard >= out.shards.size()) {
        refuse(fmt::format("tensor '{}' lies in shard {}, but there are {}", name, slice.shard,
                           out.shards.size()));
      }
      if (const auto fault = region_fault(tensor.shape, slice.region); !fault.empty()) {
        refuse(fmt::format("the slice {} of tensor '{}' {}", slice.region.text(), name, fault));
      }
      for (const Json& text : part.at("xxh3")) slice.checksums.push_back(checksum(text));
      const std::int64_t bytes = slice.region.count() * size_of(tensor.dtype);
      const std::int64_t blocks = (bytes + out.block_bytes - 1) / out.block_bytes;
      if (static_cast<std::int64_t>(slice.checksums.size()) != blocks) {
        refuse(fmt::format("the slice {} of tensor '{}' has {}, not {}", slice.region.text(), name,
                           counted(slice.checksums.size(), "checksum"), blocks));
      }
      tensor.slices.push_back(std::move(slice));
    }
    return tensor;
  }

  Shape shape(const Json& json) const {
    Shape shape;
    std::int64_t count = 1;
    if (json.size() > Shape::max_rank) refuse("a shape has too many dimensions");
    for (const Json& dim : json) {
      shape.push_back(dim.get<std::int64_t>());
      if (shape.back() < 0 || shape.back() > max_elements ||
          __builtin_mul_overflow(count, std::max<std::int64_t>(shape.back(), 1), &count) ||
          count > max_elements) {
        refuse("a shape is out of range");
      }
    }
    return shape;
  }

  DType dtype(const Json& json) const {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                              DType::i32, DType::u16, DType::u8}) {
      if (json == name_of(dtype)) return dtype;
    }
    refuse(fmt::format("the element type {} is unknown", json.dump()));
  }

  std::uint64_t checksum(const Json& json) const {
    const std::string& text = json.get_ref<const std::string&>();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
      refuse("a checksum is not 16 hexadecimal digits");
    }
    return value;
  }

  const std::string& name_;
};

}  // namespace

std::string to_text(const Manifest& manifest) {
  OrderedJson head{{"format", format_name},
                   {"version", format_version},
                   {"program", manifest.program},
                   {"block_bytes", manifest.block_bytes},
                   {"state", state_to_json(manifest.state)}};
  OrderedJson& shards = head["shards"] = OrderedJson::array();
  for (const StoredShard& shard : manifest.shards) {
    shards.push_back({{"file", shard.file},
                      {"bytes", shard.bytes},
                      {"header_xxh3", hash_to_text(shard.header_checksum)}});
  }
  std::string text = head.dump();
  text.pop_back();
  text += ",\n\"tensors\":{";
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    text += (i ? ",\n" : "\n") + tensor_to_text(manifest.tensors[i]);
  }
  text += "}";
  const std::string checksum = hash_to_text(hash64(text));
  text += tail_begin;
  text += checksum;
  text += tail_end;
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  return Parser(name).parse(text);
}

}  // namespace trireme
