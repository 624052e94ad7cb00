// Adds up elements of tensors.
#include "compare/step_values.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "backend/device.h"
#include "backend/kernels.h"

namespace trireme {
namespace {

// SplitMix64.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

void ValueSums::add(DType dtype, const std::byte* data, std::int64_t count, std::int64_t first) {
  elements += count;
  with_compute_type(dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, data + i * std::int64_t{sizeof(T)}, sizeof(T));
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(T));
      hash += mixed(first < 0 ? bits : bits ^ mixed(static_cast<std::uint64_t>(first + i)));
      const auto number = static_cast<double>(static_cast<Acc<T>>(value));
      sum += number;
      squares += number * number;
    }
  });
}

std::string StepPlace::text() const {
  const std::string over = summed.empty() ? "" : fmt::format(", summed over {}", summed);
  switch (kind) {
    case Kind::parameter:
      return fmt::format("{} as read by the passes", parameter);
    case Kind::gradient:
      return fmt::format("the gradient of {}{}", parameter, over);
    case Kind::state:
      return fmt::format("{} after the step", parameter);
    case Kind::op:
      break;
  }
  const std::string where = layer >= 0 ? fmt::format("layer {}", layer)
                            : is_head  ? "the head"
                                       : "the embedding";
  return fmt::format("{} of {} ({}){}{}", op, where, is_forward ? "forward" : "backward",
                     parameter.empty() ? "" : fmt::format(", which reads {}", parameter), over);
}

StepValues::Entry& StepValues::at(const std::string& key, const StepPlace& place,
                                  std::int64_t rows) {
  const auto [entry, added] = entries_.try_emplace(key);
  if (added) {
    order_.push_back(key);
    entry->second.place = place;
    entry->second.parts.resize(static_cast<std::size_t>(parts_of(rows)));
  }
  return entry->second;
}

const StepValues::Entry* StepValues::find(const std::string& key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second;
}

}  // namespace trireme
