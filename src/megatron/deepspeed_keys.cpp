// The table of the keys that are read, and the search for others.
#include "megatron/deepspeed_keys.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace trireme::megatron {
namespace {

using Json = nlohmann::json;

// Each with everything below it.
constexpr std::string_view kRead[] = {"train_batch_size",
                                      "train_micro_batch_size_per_gpu",
                                      "gradient_clipping",
                                      "gradient_accumulation_steps",
                                      "zero_optimization.stage",
                                      "zero_optimization.offload_optimizer.device",
                                      "zero_optimization.offload_param.device",
                                      "bf16.enabled",
                                      "bfloat16.enabled",
                                      "fp16.enabled",
                                      "fp16.loss_scale",
                                      "fp16.loss_scale_window",
                                      "fp16.hysteresis",
                                      "fp16.min_loss_scale",
                                      "fp16.initial_scale_power",
                                      "data_efficiency",
                                      "curriculum_learning.enabled",
                                      "curriculum_learning.curriculum_type",
                                      "curriculum_learning.min_difficulty",
                                      "curriculum_learning.max_difficulty",
                                      "curriculum_learning.schedule_type",
                                      "curriculum_learning.schedule_config.total_curriculum_step",
                                      "curriculum_learning.schedule_config.difficulty_step",
                                      "curriculum_learning.schedule_config.root_degree"};

bool is_read(const std::string& key) {
  return std::ranges::find(kRead, key) != std::end(kRead);
}

// Whether some key below this one is read.
bool is_section(const std::string& key) {
  return std::ranges::any_of(kRead, [&](auto read) { return read.starts_with(key + "."); });
}

// The keys of an object that are not read, with the names of their sections.
void collect_unread(const Json& json, const std::string& prefix, std::vector<std::string>& keys) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = prefix + name;
    if (is_read(key)) continue;
    if (!is_section(key)) {
      keys.push_back(key);
    } else if (value.is_object()) {
      collect_unread(value, key + ".", keys);
    }
  }
}

}  // namespace

std::vector<std::string> unread_deepspeed_keys(const Json& json) {
  std::vector<std::string> keys;
  collect_unread(json, "", keys);
  return keys;
}

}  // namespace trireme::megatron
