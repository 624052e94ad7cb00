// What rows of the table of keys are written with. A row says all about a key: type and default
// (those of its member in Config), valid values, unit, meaning, and what else is true of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/fields.h"

namespace trireme {

std::vector<Field> run_fields();
std::vector<Field> model_fields();
std::vector<Field> moe_fields();
std::vector<Field> data_fields();
std::vector<Field> train_fields();
std::vector<Field> optimizer_fields();
std::vector<Field> parallel_fields();
std::vector<Field> checkpoint_fields();

// Sizes and counts: far above any real run, far below where a product of two would overflow.
inline constexpr double kManyLayers = 1e5;
inline constexpr double kWide = 1 << 24;
inline constexpr double kManyExperts = 1024;       // the router holds a token's scores on its stack
inline constexpr double kManyTokens = 1LL << 31;   // token ids are 32-bit
inline constexpr double kManyPositions = 1 << 24;  // attention compares positions as fp32
inline constexpr double kCount = 1e15;

inline FieldLimits any() {
  return {};
}
inline FieldLimits one_of(std::vector<std::string> allowed) {
  return {.allowed = std::move(allowed)};
}
inline FieldLimits between(double min, double max) {
  return {.min = min, .max = max};
}
inline FieldLimits count() {
  return between(0, kCount);
}
inline FieldLimits at_least(double min) {
  return {.min = min};
}
inline FieldLimits above(double min) {
  return {.min = min, .above_min = true};
}
inline FieldLimits fraction() {
  return {.min = 0, .max = 1, .below_max = true};
}

template <class T>
FieldSlot slot_of(T* value) {
  if constexpr (Choice<T>)
    return ChoiceSlot{reinterpret_cast<std::uint8_t*>(value), choice_names(T{})};
  else
    return value;
}

// The key `name` of a section, which is the member of that name. Then its limits, its unit ("": it
// has none) and its meaning in one line, without a full stop.
#define FIELD(section, name, ...) FIELD_AT(#section, #name, section.name, __VA_ARGS__)
// A key of [moe], which lies within the model.
#define EXPERT_FIELD(name, ...) FIELD_AT("moe", #name, model.moe.name, __VA_ARGS__)
// A key whose name is not that of its member.
#define FIELD_AT(section, name, member, ...) \
  Field(                                     \
      section, name, [](Config& c) -> FieldSlot { return slot_of(&c.member); }, __VA_ARGS__)

}  // namespace trireme
