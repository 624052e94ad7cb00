// DeepSpeed's curriculum of sequence lengths as our section [curriculum].
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "megatron/draft.h"

namespace trireme::megatron {

// Reads the section curriculum_learning of the DeepSpeed configuration `json`, which `path` names;
// no path: there is none. Complains where --curriculum-learning-legacy says otherwise, and about
// what [curriculum] cannot express.
void read_curriculum(Draft& draft, const std::string& path, const nlohmann::json& json);

}  // namespace trireme::megatron
