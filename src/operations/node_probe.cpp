// The words that precede the program in a run's command can launch a check as well.
#include "operations/node_probe.h"

#include <algorithm>

namespace trireme {

std::vector<std::string> probe_command(const std::vector<std::string>& command,
                                       const fs::path& good, const fs::path& storage) {
  const auto trains = [](const std::string& word) {
    return word == "train" || word.starts_with("pretrain-");
  };
  for (std::size_t i = 0; i + 1 < command.size(); ++i) {
    if (!fs::path(command[i]).filename().string().starts_with("trireme")) continue;
    if (!trains(command[i + 1])) continue;
    const auto end = command.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    std::vector<std::string> probe(command.begin(), end);
    // Only whether nodes respond matters: temporarily slow ones are not excluded.
    for (const std::string& word :
         {std::string("doctor"), std::string("--nodes"), std::string("--hosts"), good.string(),
          std::string("--storage"), storage.string(), std::string("--slow"), std::string("0.05"),
          std::string("--seconds"), std::string("0.1"), std::string("--timeout"),
          std::string("30")})
      probe.push_back(word);
    return probe;
  }
  return {};
}

}  // namespace trireme
