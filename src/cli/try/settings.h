// Model and schedule of `trireme try`.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "config/config.h"

namespace trireme::cli {

enum class TrySize {
  small,  // learns best in few minutes on a CPU without matrix units
  full,   // the recipe with 1,500 steps
};

inline constexpr std::int64_t full_try_steps = 1500;

// The files of a run of `trireme try`.
struct TryFiles {
  fs::path run;

  fs::path data() const { return run / "data"; }
  fs::path text(const std::string& part) const { return data() / (part + ".txt"); }
  fs::path tokenizer() const { return data() / "tokenizer"; }
  fs::path settings() const { return run / "try.toml"; }
  fs::path mark() const { return run / "try.json"; }  // identifies the try
};

// Returns the configuration as TOML.
std::string try_settings(const TryFiles& files, TrySize size, std::int64_t steps);

struct TryLength {
  TrySize size = TrySize::small;
  std::int64_t steps = 0;
};

// Cost of the work after the last step (held-out evaluation, samples), in steps.
double steps_in_the_end(std::size_t heldout_bytes, std::int64_t seq_length);

// Returns the size and steps that fit into that time, measured on this machine; `tell` is called
// for each measurement and may throw. The full size is chosen if all of its steps fit.
TryLength fitting_length(const TryFiles& files, double seconds, std::size_t heldout_bytes,
                         const std::function<void(const std::string&)>& tell);

}  // namespace trireme::cli
