// Presets of published models for model.preset.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

struct Preset {
  std::string_view name;
  std::string_view source;      // reference for the sizes
  std::int64_t vocabulary = 0;  // size of its own tokenizer
  // Keys of [model] and their values as TOML.
  std::vector<std::pair<std::string_view, std::string_view>> values;
};

std::span<const Preset> all_presets();

// Returns null if there is no preset of that name.
const Preset* find_preset(std::string_view name);

}  // namespace trireme
