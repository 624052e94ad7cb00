// Emits opcodes and memoizes names.
#include "formats/torch/pickle_writer.h"

#include <bit>
#include <limits>

#include "formats/torch/little_endian.h"

namespace trireme {

void PickleText::put(std::int64_t value) {
  using Narrow = std::numeric_limits<std::int32_t>;
  if (value >= Narrow::min() && value <= Narrow::max()) {
    text_ += 'J' + little_endian(static_cast<std::int32_t>(value));
  } else {
    text_ += "\x8a\x08" + little_endian(value);
  }
}

void PickleText::put(double value) {
  text_ += 'G' + little_endian(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
}

void PickleText::put(std::string_view value) {
  text_ += 'X' + little_endian(static_cast<std::uint32_t>(value.size()));
  text_ += value;
}

void PickleText::put_name(const std::string& module, std::string_view name) {
  const std::string line = module + "\n" + std::string(name) + "\n";
  const auto [at, is_new] = names_.emplace(line, static_cast<std::uint32_t>(names_.size()));
  text_ += is_new ? "c" + line + 'r' : "j";
  text_ += little_endian(at->second);
}

void PickleText::put_tuple(const std::vector<std::int64_t>& values) {
  begin_tuple();
  for (const std::int64_t value : values) put(value);
  end_tuple();
}

void PickleText::put_object(const std::string& module, std::string_view name) {
  put_name(module, name);
  text_ += ")\x81";
}

}  // namespace trireme
