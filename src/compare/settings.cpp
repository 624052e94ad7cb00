// Compares settings and positions as text, by name.
#include "compare/settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "config/fields.h"
#include "formats/same_model.h"

namespace trireme {
namespace {

// The tuning record of algorithms chosen for a device: not a position of the run.
constexpr const char* tuning = "tuning";

using Values = std::map<std::string, std::string>;

// Other programs' files may have a step without sample counts.
void remove_unknown(Values& values, std::int64_t step) {
  for (const char* const name : {"consumed_samples", "consumed_tokens", "scheduled_samples"})
    if (const auto at = values.find(name); step > 0 && at != values.end() && at->second == "0")
      values.erase(at);
}

Values values_of(const Contents& contents) {
  const CheckpointState& state = *contents.state;
  Values values{{"step", std::to_string(state.step)},
                {"consumed_samples", std::to_string(state.consumed_samples)},
                {"consumed_tokens", std::to_string(state.consumed_tokens)}};
  for (const auto& [name, value] : state.counters) values[name] = std::to_string(value);
  for (const auto& [name, value] : state.numbers) values[name] = toml_number(value);
  for (const auto& [name, value] : state.texts)
    if (name != tuning) values[name] = value;
  if (!contents.config) remove_unknown(values, state.step);
  return values;
}

}  // namespace

std::vector<ValuePair> differing_positions(const Contents& a, const Contents& b) {
  const Values of_a = values_of(a);
  Values missing_in_a = values_of(b);
  const bool both_ours = a.config && b.config;
  std::vector<ValuePair> found;
  const auto add = [&](const std::string& name, const std::string& in_a, const std::string& in_b) {
    const bool on_both = !in_a.empty() && !in_b.empty();
    if (in_a != in_b && (both_ours || on_both)) found.push_back({name, in_a, in_b});
  };
  for (const auto& [name, value] : of_a) {
    add(name, value, missing_in_a[name]);
    missing_in_a.erase(name);
  }
  for (const auto& [name, value] : missing_in_a) add(name, "", value);
  return found;
}

std::vector<ValuePair> differing_results(const ModelConfig& a, const ModelConfig& b) {
  std::vector<ValuePair> found;
  const std::vector<ModelDifference> of_b = differences_of_results(b, a);
  for (const auto& [key, value] : differences_of_results(a, b)) {
    const auto other = std::ranges::find(of_b, key, &ModelDifference::key);
    found.push_back({key, value, other == of_b.end() ? "" : other->value});
  }
  return found;
}

std::vector<ValuePair> differing_settings(const Contents& a, const Contents& b) {
  if (!a.config || !b.config) return {};
  Config one = *a.config, two = *b.config;
  const std::vector<ModelDifference> of_model = differences_of_results(a.model, b.model);
  std::vector<ValuePair> found;
  const auto tuning_of = [](const Contents& contents) {
    const auto text = contents.state->texts.find(tuning);
    return text == contents.state->texts.end() ? std::string() : text->second;
  };
  if (tuning_of(a) != tuning_of(b)) found.push_back({tuning, tuning_of(a), tuning_of(b)});
  for (const Field& field : all_fields()) {
    const std::string in_a = toml_value(field.slot(one)), in_b = toml_value(field.slot(two));
    if (in_a == in_b ||
        std::ranges::find(of_model, field.key(), &ModelDifference::key) != of_model.end())
      continue;
    found.push_back({field.key(), in_a, in_b});
  }
  return found;
}

bool is_of_layout(std::string_view key) {
  constexpr std::array<std::string_view, 3> numbers{"parallel.numerics", "parallel.exact_block",
                                                    "parallel.exact_leaves"};
  if (std::ranges::find(numbers, key) != numbers.end()) return false;
  return key.starts_with("parallel.") || key.starts_with("offload.") ||
         key == "train.micro_batch_size";
}

}  // namespace trireme
