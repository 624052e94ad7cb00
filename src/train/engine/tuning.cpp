// Serializes tuning records, and makes ranks agree on one.
#include "train/engine/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "train/run/ranks.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array products = {Product::forward, Product::input_grad, Product::weight_grad};
constexpr std::array types = {DType::f32, DType::bf16, DType::f16};
constexpr std::array byte_types = {Fp8Type::e4m3, Fp8Type::e5m2, Fp8Type::e4m3_fnuz,
                                   Fp8Type::e5m2_fnuz};
constexpr std::array scales = {Fp8Recipe::tensorwise, Fp8Recipe::blockwise};

// Returns the value among `all` whose name is `text`.
template <class Value, std::size_t count, class NameOf>
Value named(const std::array<Value, count>& all, const std::string& text, const NameOf& name_of) {
  const auto found = std::ranges::find_if(all, [&](Value value) { return text == name_of(value); });
  if (found == all.end()) throw std::invalid_argument("'" + text + "'");
  return *found;
}

// Records of other products lack these values.
Fp8Bytes bytes_from(const nlohmann::json& json) {
  if (!json.contains("scales")) return {};
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  const auto type = [](Fp8Type value) { return record_name(value); };
  return {named(byte_types, text("a"), type), named(byte_types, text("b"), type),
          named(scales, text("scales"), [](Fp8Recipe value) { return record_name(value); })};
}

ProductKey key_from(const nlohmann::json& json) {
  const auto size = [&](const char* key) {
    const auto value = json.at(key).get<std::int64_t>();
    if (value <= 0) throw std::invalid_argument(key);
    return value;
  };
  return {
      named(products, json.at("product").get<std::string>(),
            [](Product product) { return record_name(product); }),
      json.at("bias").get<bool>(),
      named(types, json.at("type").get<std::string>(), [](DType dtype) { return name_of(dtype); }),
      size("rows"),
      size("in"),
      size("out"),
      bytes_from(json)};
}

bool same_library(const LibraryChoices& a, const LibraryChoices& b) {
  return a.device == b.device && a.library == b.library;
}

// Adds missing entries.
void add(LibraryChoices& to, const LibraryChoices& from) {
  to.algorithms.insert(from.algorithms.begin(), from.algorithms.end());
}

std::string maker(const LibraryChoices& choices, const std::string& device) {
  return choices.library.empty() ? device + " without a library"
                                 : choices.device + " with " + choices.library;
}

}  // namespace

std::string to_json(const LibraryChoices& choices) {
  std::string lines;
  for (const auto& [key, algorithm] : choices.algorithms) {
    Json line = {{"product", record_name(key.product)},
                 {"bias", key.bias},
                 {"type", name_of(key.compute)},
                 {"rows", key.rows},
                 {"in", key.in},
                 {"out", key.out}};
    if (key.fp8.is_used()) {
      line["a"] = record_name(key.fp8.a);
      line["b"] = record_name(key.fp8.b);
      line["scales"] = record_name(key.fp8.scales);
    }
    line["algorithm"] = algorithm;
    lines += (lines.empty() ? "\n  " : ",\n  ") + line.dump();
  }
  return fmt::format("{{\"device\": {},\n \"library\": {},\n \"products\": [{}]}}\n",
                     Json(choices.device).dump(), Json(choices.library).dump(), lines);
}

LibraryChoices parse_choices(const std::string& text, const std::string& name) {
  const nlohmann::json json = parse_json(text, name);
  try {
    LibraryChoices choices{
        json.at("device").get<std::string>(), json.at("library").get<std::string>(), {}};
    for (const auto& line : json.at("products"))
      choices.algorithms[key_from(line)] = line.at("algorithm").get<std::string>();
    return choices;
  } catch (const std::exception& error) {
    fail_input(
        "'{}' is not a record of algorithms ({}): remove it to use the library's own choices", name,
        error.what());
  }
}

std::string Tuning::agree(Device& device, Transport* transport, const Record& record) {
  const LibraryChoices own = device.choices();
  std::string note;
  LibraryChoices chosen{own.device, own.library, {}};
  if (!record.text.empty()) {
    const LibraryChoices recorded = parse_choices(record.text, record.name);
    if (same_library(recorded, own)) {
      add(chosen, recorded);
    } else {
      note = fmt::format(
          "the algorithms in {} were chosen on {}, but this is {}: they are not used, so bits will "
          "differ",
          record.name, maker(recorded, recorded.device), maker(own, device.name()));
    }
  }
  if (own.library.empty()) return note;
  for (const std::string& text : reports_of_ranks(transport, to_json(own)))
    add(chosen, parse_choices(text, "the choices of a rank"));
  agreed_ = parse_choices(from_rank_0(transport, to_json(chosen)), "the choices of rank 0");
  device.take(agreed_);
  return note;
}

std::string Tuning::text(const Device& device) const {
  if (agreed_.library.empty()) return "";
  LibraryChoices all = agreed_;
  add(all, device.choices());
  return to_json(all);
}

}  // namespace trireme
