// Handles DeepSpeed keys without equivalent Megatron flag: each passes or is refused by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "importers/megatron/draft.h"
#include "importers/megatron/passed.h"

namespace trireme::megatron {
namespace {

using Json = nlohmann::json;

// Keys for what Megatron does itself or controls by a flag.
constexpr Passed of_megatron[] = {
    {"steps_per_print"},
    {"optimizer"},  // DeepSpeed uses the one passed by Megatron
    {"scheduler", "", "DeepSpeed uses it instead of Megatron's schedule: remove it"},
    {"fp16.consecutive_hysteresis", "false",
     "in Trireme the hysteresis is reset only when the loss scale grows"},
    {"zero_optimization.cpu_offload", "false", "give offload_optimizer with the device cpu"},
    {"zero_optimization.cpu_offload_param", "false", "give offload_param with the device cpu"},
    {"zero_optimization.mics_shard_size", "-1|0", "set parallel.dp_replicate"},
    {"sequence_parallel_size", "1", "give --ds-sequence-parallel-size"},
    {"tensor_parallel.autotp_size", "0|1", "give --tensor-model-parallel-size"},
    {"tensor_parallel.tp_size", "1", "give --tensor-model-parallel-size"},
    {"tensor_parallel.tp.tp_size", "1", "give --tensor-model-parallel-size"},
    {"tensor_parallel.tp.tp_grain_size"},
    {"tensor_parallel.tensor_parallel.tp_size", "1", "give --tensor-model-parallel-size"},
    {"tensor_parallel.tensor_parallel.tp_grain_size"},
    {"sparse_attention", "", "sparse attention is not supported"}};

// Row of a key, or null.
const Passed* row_of(const std::string& key) {
  const auto own = std::ranges::find(of_megatron, key, &Passed::key);
  if (own != std::end(of_megatron)) return &*own;
  for (const auto& [prefix, rows] : passed_deepspeed_keys()) {
    for (const Passed& row : rows)
      if (key == prefix + std::string(row.key)) return &row;
  }
  return nullptr;
}

class Rest {
 public:
  Rest(Draft& draft, const std::string& path) : draft_(draft), path_(path) {}

  void read(const std::string& key, const Json& value) {
    if (value.is_null() || value == "auto") return;
    const auto switched = switched_deepspeed_sections();
    const auto section = std::ranges::find(switched, key, &SwitchedSection::section);
    const Passed* row = row_of(key);
    if (section != switched.end()) {
      const std::string on = switched_on(value, key);
      if (on.empty()) return pass(key);
      refuse(on, "on", section->otherwise);
    } else if (row && (!row->values || is_one_of(value, row->values))) {
      pass(key);
    } else if (row) {
      refuse(key, json_shown(value), row->otherwise);
    } else if (value.is_object()) {
      for (const auto& [name, inner] : value.items()) read(key + "." + name, inner);
    } else {
      refuse_unknown(key, value);
    }
  }

  // Megatron-DeepSpeed passes its file as it is to DeepSpeed, which splits layers by itself.
  void refuse_autos(const Json& json, const std::string& path) {
    for (const auto& [name, value] : json.items()) {
      const std::string key = path + name;
      if (value.is_object()) refuse_autos(value, key + ".");
      if (value == "auto" && key != "pipeline.stages")
        refuse(key, json_shown(value), "only transformers and accelerate fill it in: give a value");
    }
  }

  void refuse_unknown(const std::string& key, const Json& value) {
    refuse(key, json_shown(value), "unknown to Trireme: remove it if it has no meaning");
  }

  void note_passed() const {
    if (passed_.empty()) return;
    draft_.note("--deepspeed_config", fmt::format("no effect on the results, in {}: {}", path_,
                                                  fmt::join(passed_, ", ")));
  }

  void pass(const std::string& key) { passed_.push_back(key); }

 private:
  void refuse(const std::string& key, const std::string& value, const char* otherwise) {
    draft_.complaints().add("--deepspeed_config",
                            fmt::format("{} in {} is {}: {}", key, path_, value, otherwise));
  }

  Draft& draft_;
  const std::string& path_;
  std::vector<std::string> passed_;
};

// Value at a path such as "aio.thread_count", or null.
const Json* value_at(const Json& json, const std::string& key) {
  const std::size_t dot = key.find('.');
  const auto found = json.is_object() ? json.find(key.substr(0, dot)) : json.end();
  if (found == json.end()) return nullptr;
  return dot == key.npos ? &*found : value_at(*found, key.substr(dot + 1));
}

// Whether the key is in a section that is disabled, so that it has no effect.
bool is_off(const Json& json, const std::string& key) {
  for (const char* section : {"fp16", "bf16", "bfloat16", "curriculum_learning"}) {
    if (!key.starts_with(section + std::string("."))) continue;
    const Json* const enabled = value_at(json, section + std::string(".enabled"));
    return !enabled || enabled->is_null() || *enabled == false;
  }
  return false;
}

}  // namespace

void read_deepspeed_rest(Draft& draft, const std::string& path, const Json& json,
                         std::span<const std::string_view> known) {
  Rest rest(draft, path);
  rest.refuse_autos(json, "");
  for (const auto& [name, value] : json.items())
    if (name.find('.') != name.npos) rest.refuse_unknown(name, value);  // not a path
  for (const std::string& key : json_other_keys(json, known)) {
    const Json* const value = value_at(json, key);
    if (!value) continue;
    if (is_off(json, key)) {
      rest.pass(key);
    } else {
      rest.read(key, *value);
    }
  }
  rest.note_passed();
}

}  // namespace trireme::megatron
