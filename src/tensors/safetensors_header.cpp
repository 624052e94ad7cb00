// Parses a safetensors header as SAX events, to detect duplicate keys without building a tree, then
// checks that the tensors tile the rest of the file.
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/foreign_bytes.h"
#include "base/printable.h"
#include "tensors/safetensors.h"

namespace trireme {
namespace {

struct ElementType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

constexpr std::array<ElementType, 22> element_types{{
    {"BOOL", 8, std::nullopt},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, DType::u8},
    {"I8", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, DType::u16},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32},
    {"U32", 32, std::nullopt},
    {"F32", 32, DType::f32},
    {"C64", 64, std::nullopt},
    {"F64", 64, DType::f64},
    {"I64", 64, DType::i64},
    {"U64", 64, std::nullopt},
}};

const ElementType* find_type(std::string_view name) {
  const auto it = std::ranges::find(element_types, name, &ElementType::name);
  return it == element_types.end() ? nullptr : &*it;
}

// Receives nlohmann's SAX events. The header has a fixed structure, so a small state machine
// suffices: depth 1 has the tensors, depth 2 the fields of a tensor (or the metadata). Unknown
// fields are ignored, as in the reference implementation.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  bool start_object(std::size_t) override {
    if (skips_) return open_skipped();
    if (depth_ == 0) return enter();
    if (depth_ != 1 || list_) return refuse("contains an unexpected object");
    if (!in_metadata_) {
      header_.tensors.emplace_back().name = tensor_;
      has_type_ = has_shape_ = has_offsets_ = false;
    }
    return enter();
  }
  bool end_object() override {
    if (skips_) return close_skipped();
    --depth_;
    if (depth_ == 1 && !in_metadata_ && !(has_type_ && has_shape_ && has_offsets_)) {
      return refuse("lacks dtype, shape or data_offsets");
    }
    if (depth_ == 1) in_metadata_ = false;
    return true;
  }
  bool key(string_t& name) override {
    if (skips_) return true;
    if (depth_ == 1) return start_tensor(name);
    key_ = name;
    if (in_metadata_) {
      return header_.metadata.emplace(name, "").second || refuse("has a duplicate key");
    }
    bool* seen = name == "dtype"          ? &has_type_
                 : name == "shape"        ? &has_shape_
                 : name == "data_offsets" ? &has_offsets_
                                          : nullptr;
    if (!seen) return skips_ = true;
    if (*seen) return refuse(fmt::format("has the field '{}' twice", name));
    return *seen = true;
  }
  bool string(string_t& value) override {
    if (skips_) return end_skipped_value();
    if (depth_ != 2 || list_) return refuse("contains an unexpected string");
    if (in_metadata_) {
      header_.metadata[key_] = value;
      return true;
    }
    if (key_ != "dtype") return refuse(fmt::format("has a string as '{}'", key_));
    const ElementType* type = find_type(value);
    if (!type) return refuse(fmt::format("has the unknown element type '{}'", printable(value)));
    header_.tensors.back().type = type->name;
    header_.tensors.back().dtype = type->dtype;
    return true;
  }
  bool start_array(std::size_t) override {
    if (skips_) return open_skipped();
    if (depth_ != 2 || list_ || in_metadata_ || key_ == "dtype") {
      return refuse("contains an unexpected list");
    }
    list_ = true;
    offsets_.clear();
    return true;
  }
  bool end_array() override {
    if (skips_) return close_skipped();
    list_ = false;
    if (key_ == "shape") return true;
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      return refuse("has data_offsets that are not a range");
    }
    header_.tensors.back().begin = offsets_[0];
    header_.tensors.back().end = offsets_[1];
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (skips_) return end_skipped_value();
    if (!list_) return refuse("contains an unexpected number");
    if (value > max_number) return refuse("has a number out of range");
    if (key_ == "shape") {
      header_.tensors.back().shape.push_back(static_cast<std::int64_t>(value));
    } else {
      offsets_.push_back(value);
    }
    return true;
  }
  bool number_integer(number_integer_t) override { return refuse_value("has a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse_value("has a number that is not an integer");
  }
  bool null() override {
    if (depth_ == 1 && in_metadata_) {
      in_metadata_ = false;  // as if absent
      return true;
    }
    return refuse_value("has a null");
  }
  bool boolean(bool) override { return refuse_value("has a boolean"); }
  bool binary(binary_t&) override { return refuse("has binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail_input("'{}' is not a valid safetensors file: its header is not JSON near its byte {}",
               file_, position);
  }

 private:
  static constexpr std::uint64_t max_number = std::uint64_t{1} << 62;

  bool enter() {
    ++depth_;
    return true;
  }
  bool open_skipped() {
    ++skipped_depth_;
    return true;
  }
  bool close_skipped() {
    --skipped_depth_;
    return end_skipped_value();
  }
  bool end_skipped_value() {
    skips_ = skipped_depth_ > 0;
    return true;
  }
  bool refuse_value(const char* what) { return skips_ ? end_skipped_value() : refuse(what); }
  bool start_tensor(const string_t& name) {
    tensor_ = name;
    in_metadata_ = name == "__metadata__";
    const bool is_new =
        in_metadata_ ? !std::exchange(has_metadata_, true) : header_.index.emplace(name, 0).second;
    return is_new || refuse("appears twice");
  }
  [[noreturn]] bool refuse(const std::string& what) const {
    if (tensor_.empty()) {
      fail_input("'{}' is not a valid safetensors file: its header {}", file_, what);
    }
    fail_input("'{}' is not a valid safetensors file: '{}' {}", file_, printable(tensor_), what);
  }

  const std::string& file_;
  SafetensorsHeader& header_;
  std::string tensor_, key_;
  std::vector<std::uint64_t> offsets_;
  int depth_ = 0, skipped_depth_ = 0;
  bool list_ = false, in_metadata_ = false, has_metadata_ = false;
  bool skips_ = false;  // inside the value of an unknown field
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false;
};

// Bytes of a tensor; nullopt if the product overflows or is not a whole number of bytes.
std::optional<std::uint64_t> byte_size(const SafetensorsEntry& entry) {
  std::uint64_t bits = static_cast<std::uint64_t>(find_type(entry.type)->bits);
  for (const std::int64_t dim : entry.shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

// Makes offsets absolute, sorts tensors by offset and checks that they tile the data.
void check_layout(SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& file) {
  std::ranges::sort(header.tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t next = 0;
  for (SafetensorsEntry& entry : header.tensors) {
    const auto size = byte_size(entry);
    if (!size || *size != entry.bytes()) {
      fail_input(
          "'{}' is not a valid safetensors file: '{}' has {}, which does not match its shape "
          "times the size of {}",
          file, printable(entry.name), counted(entry.bytes(), "byte"), entry.type);
    }
    if (entry.begin != next) {
      fail_input(
          "'{}' is not a valid safetensors file: '{}' begins at byte {} of the data instead of {} "
          "({})",
          file, printable(entry.name), entry.begin, next, entry.begin < next ? "overlap" : "hole");
    }
    next = entry.end;
    if (next > data_bytes) {
      fail_input("'{}' is truncated: '{}' ends at byte {} of the data, which has only {}", file,
                 printable(entry.name), next, data_bytes);
    }
    entry.begin += header.data_begin;
    entry.end += header.data_begin;
  }
  if (next != data_bytes) {
    fail_input("'{}' is not a valid safetensors file: it has {} after the last tensor", file,
               counted(data_bytes - next, "byte"));
  }
}

}  // namespace

std::string_view safetensors_type(DType dtype) {
  const auto it = std::ranges::find(element_types, std::optional(dtype), &ElementType::dtype);
  TRIREME_CHECK(it != element_types.end());
  return it->name;
}

std::optional<DType> dtype_of_safetensors(std::string_view type) {
  const ElementType* found = find_type(type);
  return found ? found->dtype : std::nullopt;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& name) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    fail_input("'{}' is not a safetensors file: it has only {}", name,
               counted(file.size(), "byte"));
  }
  std::memcpy(&length, file.data(), sizeof length);
  if (length > max_safetensors_header || length > file.size() - sizeof length)
    refuse_if_placeholder(name, {reinterpret_cast<const char*>(file.data()), file.size()});
  if (length > max_safetensors_header) {
    const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
    const bool text = std::ranges::all_of(bytes.substr(0, 8), [](char c) {
      return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
    });
    if (text) {
      fail_input("'{}' is a text file, not a safetensors file; it begins \"{}\"", name,
                 printable(std::string(bytes.substr(0, std::min<std::size_t>(bytes.size(), 60)))));
    }
    fail_input(
        "'{}' is not a safetensors file: its header would have {} bytes, more than the allowed {}",
        name, length, max_safetensors_header);
  }
  if (length > file.size() - sizeof length) {
    fail_input("'{}' is truncated: its header has {}, but the file ends after {} of it", name,
               counted(length, "byte"), counted(file.size() - sizeof length, "byte"));
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  if (length < 2 || *text != '{') {
    fail_input("'{}' is not a safetensors file: its header does not begin with '{{'", name);
  }
  SafetensorsHeader header;
  header.data_begin = sizeof length + length;
  HeaderEvents events(name, header);
  nlohmann::json::sax_parse(text, text + length, &events);
  check_layout(header, file.size() - header.data_begin, name);
  for (std::size_t i = 0; i < header.tensors.size(); ++i)
    header.index.find(header.tensors[i].name)->second = i;
  return header;
}

}  // namespace trireme
