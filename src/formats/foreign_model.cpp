// Applies the user's --set options to a foreign model.
#include "formats/foreign_model.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme {

void add_note(std::string& note, const std::string& more) {
  if (!note.empty() && !more.empty()) note += "; ";
  note += more;
}

ModelConfig with_settings(const ModelConfig& model, const ModelSettings& settings,
                          std::string& note) {
  for (const std::string& setting : settings) {
    if (setting.starts_with("model.") || setting.starts_with("moe.")) continue;
    fail_input(
        "--set {}: only settings of model and moe that the files do not define can be set; edit "
        "the config.toml of the new run for others",
        setting);
  }
  if (settings.empty()) return model;
  Config config;
  config.model = model;
  // If seq_length equaled max_positions, it follows a change of max_positions.
  ModelSettings all;
  constexpr std::string_view positions = "model.max_positions=";
  for (const std::string& setting : settings) {
    if (setting.starts_with(positions) && model.seq_length == model.max_positions)
      all.push_back("model.seq_length=" + setting.substr(positions.size()));
  }
  all.insert(all.end(), settings.begin(), settings.end());
  const Config set = parse_config(to_toml(config), "the converted model", all);
  std::vector<std::string> keys;
  for (const std::string& setting : settings) keys.push_back(setting.substr(0, setting.find('=')));
  if (const auto changed = changes(config, set, keys); !changed.empty())
    add_note(note, fmt::format("by --set, {}", fmt::join(changed, ", ")));
  return set.model;
}

}  // namespace trireme
