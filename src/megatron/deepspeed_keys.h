// Which keys of a DeepSpeed configuration are read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trireme::megatron {

// The keys of the object `json` that are not read, with the names of their sections:
// "fp16.consecutive_hysteresis".
std::vector<std::string> unread_deepspeed_keys(const nlohmann::json& json);

}  // namespace trireme::megatron
