// Compares the environment with that of the batch scripts.
#include "operations/slingshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

#include "operations/site.h"

namespace trireme {
namespace {

std::vector<std::string> network_cards(const std::filesystem::path& interfaces) {
  std::vector<std::string> cards;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(interfaces, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("hsn")) cards.push_back(name);
  }
  std::sort(cards.begin(), cards.end());
  return cards;
}

// Names of the network plug-in that NCCL and RCCL try. NCCL_NET_PLUGIN may be the suffix of one or
// a file.
std::vector<std::string> plugin_files(const char* chosen) {
  const std::string name = chosen ? chosen : "";
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return {name};
  const std::string suffix = name.empty() ? "" : "-" + name;
  return {"librccl-net" + suffix + ".so", "libnccl-net" + suffix + ".so"};
}

}  // namespace

SlingshotReport check_slingshot(const std::filesystem::path& interfaces,
                                const std::function<const char*(const char*)>& value_of,
                                const std::function<bool(const std::string&)>& can_load) {
  SlingshotReport report;
  report.cards = network_cards(interfaces);
  if (report.cards.empty()) return report;
  for (const SiteVariable& variable : slingshot_variables()) {
    if (variable.above_nodes > 0) continue;
    const char* const value = value_of(std::string(variable.name).c_str());
    if (!value)
      report.missing.push_back(fmt::format("{}={}", variable.name, variable.value));
    else if (variable.value != value)
      report.other.push_back(fmt::format("{}={} (ours: {})", variable.name, value, variable.value));
  }
  report.plugins = plugin_files(value_of("NCCL_NET_PLUGIN"));
  if (std::any_of(report.plugins.begin(), report.plugins.end(), can_load)) report.plugins.clear();
  return report;
}

}  // namespace trireme
