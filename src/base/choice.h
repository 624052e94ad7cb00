// Enumerations with names, made by one table: what a setting can be, and how it is written.
//
//   #define TRIREME_COLORS(X) X(red, "red") X(green, "green")
//   TRIREME_CHOICE(Color, TRIREME_COLORS)
//
// A value whose name is "" stands for a setting that leaves the choice to others; it is not
// offered.
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

// A table may say more of each value after its name.
#define TRIREME_CHOICE_VALUE(value, name, ...) value,
#define TRIREME_CHOICE_NAME(value, name, ...) name,

// The names of an enumeration that the table has made elsewhere, in the order of its values.
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

// Nothing where no value has this name.
template <Choice T>
constexpr std::optional<T> find_choice(std::string_view name) {
  const std::span<const std::string_view> names = choice_names(T{});
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<T>(i);
  return std::nullopt;
}

// The names of those that are offered.
template <Choice T>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const std::string_view name : choice_names(T{}))
    if (!name.empty()) names.emplace_back(name);
  return names;
}

// All values, in order, of one that leaves no choice to others.
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
