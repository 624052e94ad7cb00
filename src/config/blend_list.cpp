// Parses lists of datasets with or without weights.
#include "config/blend_list.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

std::optional<double> blend_number(const std::string& text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

// A list of odd length has no weights. An entry that looks like a number and is not a file was
// probably meant as a weight.
void refuse_lone_weight(const std::vector<std::string>& path, const std::string& key) {
  const auto is_number = [](const std::string& text) { return blend_number(text).has_value(); };
  if (std::ranges::all_of(path, is_number)) return;
  for (const std::string& text : path) {
    if (!is_number(text) || fs::exists(text + ".idx") || fs::exists(text)) continue;
    fail_input(
        "{} has an odd number of entries, {}, and contains the weight {}: a blend alternates "
        "weights and paths, so one of them is missing",
        key, path.size(), text);
  }
}

}  // namespace

BlendSpec parse_blend(const std::vector<std::string>& path, const std::string& key) {
  BlendSpec spec;
  std::size_t numbers = 0;
  if (path.size() % 2 == 0) {
    for (std::size_t i = 0; i < path.size(); i += 2) numbers += blend_number(path[i]).has_value();
  }
  if (path.size() % 2 == 1) refuse_lone_weight(path, key);
  if (numbers == 0) {
    spec.prefixes = path;
    return spec;
  }
  for (std::size_t i = 0; i < path.size(); i += 2) {
    const std::optional<double> weight = blend_number(path[i]);
    if (!weight || !(*weight > 0) || !std::isfinite(*weight)) {
      fail_input(
          "{2}: expected the weight of '{1}', found '{0}': weights are positive numbers, given for "
          "every dataset or for none",
          path[i], path[i + 1], key);
    }
    spec.weights.push_back(*weight);
    spec.prefixes.push_back(path[i + 1]);
  }
  return spec;
}

}  // namespace trireme
