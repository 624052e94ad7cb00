// Infers the torchtitan version of a job file from its keys, since the file does not record it and
// defaults and meanings have changed.
#pragma once

#include <string>

namespace trireme::settings {

class Reader;

// Day since which configurations are Python, and only printed as files.
inline constexpr int printed_since = 20260223;

// Days are written as 20250617.
struct Age {
  int since = 0;                 // first day on which a version has all keys of the file
  int until = 0;                 // first day on which no version has them any more
  std::string youngest, oldest;  // keys that determine these days

  // Whether no version has all of the keys.
  bool contradicts() const { return since >= until; }
  bool is_before(int day) const { return !contradicts() && until <= day; }
  bool is_after(int day) const { return since >= day; }
};

// Ignores keys that passed or have no effect if they contradict the others.
Age age_of(const Reader& reader);

}  // namespace trireme::settings
