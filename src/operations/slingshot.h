// What jobs with GPUs on several nodes need on HPE's network Slingshot, as on LUMI and Frontier.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

struct SlingshotReport {
  std::vector<std::string> cards;    // network interfaces, as hsn0; empty: another network
  std::vector<std::string> missing;  // NAME=value: variables that are unset
  std::vector<std::string> other;    // NAME=value (ours: value): variables with another value
  std::vector<std::string> plugins;  // files of which one must be found, if none is: without it,
                                     // NCCL and RCCL use slow TCP
};

// The variables are those of the batch scripts for these clusters (site.h). `interfaces` is
// /sys/class/net; `value_of` returns a variable of the environment or null; `can_load` tells
// whether the loader finds a library.
SlingshotReport check_slingshot(const std::filesystem::path& interfaces,
                                const std::function<const char*(const char*)>& value_of,
                                const std::function<bool(const std::string&)>& can_load);

}  // namespace trireme
