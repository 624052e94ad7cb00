// Macros for rows of the key table. A row defines a key's type and default (those of its Config
// member), valid values, unit, meaning, and other properties.
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

// Upper bounds: far above any real run, far below where a product of two would overflow.
inline constexpr double kManyLayers = 1e5;
inline constexpr double kWide = 1 << 24;
inline constexpr double kManyExperts = 1024;       // the router keeps a token's scores on the stack
inline constexpr double kManyTokens = 1LL << 31;   // token ids are 32-bit
inline constexpr double kManyPositions = 1 << 24;  // attention compares positions in fp32
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

// Key `name` of a section, stored in the member of the same name, followed by its limits, its unit
// ("" if none) and a one-line description without a full stop.
#define FIELD(section, name, ...) FIELD_AT(#section, #name, section.name, __VA_ARGS__)
// A key of [moe], which is stored inside the model's struct.
#define EXPERT_FIELD(name, ...) FIELD_AT("moe", #name, model.moe.name, __VA_ARGS__)
// A key whose name differs from its member's.
#define FIELD_AT(section, name, member, ...) \
  Field(                                     \
      section, name, [](Config& c) -> FieldSlot { return slot_of(&c.member); }, __VA_ARGS__)

}  // namespace trireme
