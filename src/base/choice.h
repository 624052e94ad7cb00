// Enumerations with named values, generated from one table: a setting's values and spellings.
//
//   #define TRIREME_COLORS(X) X(red, "red") X(green, "green")
//   TRIREME_CHOICE(Color, TRIREME_COLORS)
//
// A value named "" means that the choice is made elsewhere (for example by the model family); it is
// not offered to the user.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// Table rows may have further columns after the name.
#define TRIREME_CHOICE_VALUE(value, name, ...) value,
#define TRIREME_CHOICE_NAME(value, name, ...) name,

// Names of an enumeration defined elsewhere from the same table, in the order of its values.
#define TRIREME_CHOICE_NAMES(Type, TABLE)                            \
  inline constexpr auto Type##_names =                               \
      std::to_array<std::string_view>({TABLE(TRIREME_CHOICE_NAME)}); \
  constexpr std::span<const std::string_view> choice_names(Type) {   \
    return Type##_names;                                             \
  }

#define TRIREME_CHOICE(Type, TABLE)                               \
  enum class Type : std::uint8_t { TABLE(TRIREME_CHOICE_VALUE) }; \
  TRIREME_CHOICE_NAMES(Type, TABLE)

namespace trireme {

template <class T>
concept Choice = std::is_enum_v<T> && sizeof(T) == 1 && requires(T value) {
  choice_names(value);
};

template <Choice T>
constexpr std::string_view name_of(T value) {
  return choice_names(value)[static_cast<std::size_t>(value)];
}

// Returns nullopt if no value has this name.
template <Choice T>
constexpr std::optional<T> find_choice(std::string_view name) {
  const std::span<const std::string_view> names = choice_names(T{});
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<T>(i);
  return std::nullopt;
}

// Names of the values offered to the user.
template <Choice T>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const std::string_view name : choice_names(T{}))
    if (!name.empty()) names.emplace_back(name);
  return names;
}

// All values in order, for an enumeration that has no value named "".
template <Choice T>
std::vector<T> values_of() {
  std::vector<T> values;
  for (std::size_t i = 0; i < choice_names(T{}).size(); ++i) values.push_back(static_cast<T>(i));
  return values;
}

template <Choice T>
std::ostream& operator<<(std::ostream& out, T value) {
  return out << name_of<T>(value);
}

}  // namespace trireme

template <trireme::Choice T>
struct fmt::formatter<T, char> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(T value, Context& context) const {
    return fmt::formatter<std::string_view>::format(trireme::name_of<T>(value), context);
  }
};
