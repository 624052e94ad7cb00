// The version of torchtitan of a job file, as far as its keys tell: defaults and meanings have
// changed, and the file does not name its version.
#pragma once

#include <string>

namespace trireme::settings {

class Reader;

// Days are written as 20250617.
struct Age {
  int since = 0;                 // no older version has all keys of the file
  int until = 0;                 // from this day on, none has
  std::string youngest, oldest;  // the keys that say so

  // No version has all of them.
  bool contradicts() const { return since >= until; }
  bool is_before(int day) const { return !contradicts() && until <= day; }
  bool is_after(int day) const { return since >= day; }
};

// Keys that passed, or that have no effect, count only where nothing contradicts them.
Age age_of(const Reader& reader);

}  // namespace trireme::settings
