// Translates a DeepSpeed configuration to equivalent flags.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hjson.h"
#include "base/json.h"
#include "config/fields.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLargestFile = 1 << 20;

// Keys that are read, each including everything nested below it.
// clang-format off
constexpr std::string_view kRead[] = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping",
    "gradient_accumulation_steps", "zero_optimization.stage",
    "zero_optimization.offload_optimizer.device", "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_param.device", "zero_optimization.offload_param.nvme_path",
    "activation_checkpointing.partition_activations", "activation_checkpointing.cpu_checkpointing",
    "bf16.enabled", "bfloat16.enabled", "fp16.enabled", "fp16.loss_scale", "fp16.loss_scale_window",
    "fp16.hysteresis", "fp16.min_loss_scale", "fp16.initial_scale_power", "data_efficiency.enabled",
    "curriculum_learning.enabled", "curriculum_learning.curriculum_type",
    "curriculum_learning.min_difficulty", "curriculum_learning.max_difficulty",
    "curriculum_learning.schedule_type",
    "curriculum_learning.schedule_config.total_curriculum_step",
    "curriculum_learning.schedule_config.difficulty_step",
    "curriculum_learning.schedule_config.root_degree",
};
// clang-format on

// Value of a key, or null if absent.
const Json& at(const Json& json, const char* key) {
  static const Json nothing;
  const auto value = json.is_object() ? json.find(key) : json.end();
  return value == json.end() ? nothing : *value;
}

const Json& at(const Json& json, const char* first, const char* second) {
  return at(at(json, first), second);
}

// "auto" is refused with the rest.
bool is_absent(const Json& value) {
  return value.is_null() || value == "auto";
}

class Deepspeed {
 public:
  Deepspeed(Draft& draft, std::string path) : draft_(draft), path_(std::move(path)) {}

  void read(const Json& json) {
    for (const char* section :
         {"zero_optimization", "bf16", "bfloat16", "fp16", "activation_checkpointing"}) {
      require_object(at(json, section), section);
    }
    number("--zero-stage", "zero_optimization.stage", at(json, "zero_optimization", "stage"));
    number("--micro-batch-size", "train_micro_batch_size_per_gpu",
           at(json, "train_micro_batch_size_per_gpu"));
    number("--global-batch-size", "train_batch_size", at(json, "train_batch_size"));
    clipping(at(json, "gradient_clipping"));
    accumulation(at(json, "gradient_accumulation_steps"));
    offloading(json);
    checkpointing(json);
    for (const char* bf16 : {"bf16", "bfloat16"}) {
      precision("--bf16", "--fp16", bf16, at(json, bf16, "enabled"));
    }
    precision("--fp16", "--bf16", "fp16", at(json, "fp16", "enabled"));
    if (at(json, "fp16", "enabled") == true && draft_.has("--fp16")) loss_scaling(json);
    read_curriculum(draft_, path_, json);
    read_deepspeed_rest(draft_, path_, json, kRead);
  }

 private:
  // DeepSpeed does the gradient clipping instead of Megatron.
  void clipping(const Json& json) {
    if (!is_absent(json)) return number("--clip-grad", "gradient_clipping", json);
    draft_.line().flags.erase("--clip-grad");
    take_flag(draft_.line(), *find_flag("--clip-grad"), {"1.0"}, draft_.complaints());
    draft_.note(
        "--clip-grad",
        fmt::format(
            "1.0, DeepSpeed's default, because {} does not set gradient_clipping; older versions "
            "did not clip in this case",
            path_));
  }

  // DeepSpeed does the loss scaling and does not see Megatron's flags: values missing in its file
  // have DeepSpeed's defaults.
  void loss_scaling(const Json& json) {
    struct Number {
      const char* flag;
      const char* key;
      double absent;
    };
    for (const Number& n : {Number{"--loss-scale", "loss_scale", 0},
                            {"--loss-scale-window", "loss_scale_window", 1000},
                            {"--hysteresis", "hysteresis", 2},
                            {"--min-loss-scale", "min_loss_scale", 1}}) {
      const Json& value = at(json, "fp16", n.key);
      if (is_absent(value)) {
        overrule(n.flag, default_of(n.key), n.absent);
      } else if (value.is_number()) {
        overrule(n.flag, fmt::format("fp16.{} in {}", n.key, path_), value.get<double>());
      } else {
        refuse(fmt::format("is {}, not a number", json_shown(value)),
               fmt::format("fp16.{}", n.key));
      }
    }
    initial_scale(at(json, "fp16", "initial_scale_power"));
  }

  void initial_scale(const Json& power) {
    const char* flag = "--initial-loss-scale";
    if (is_absent(power)) return overrule(flag, default_of("initial_scale_power"), std::exp2(16));
    const double exponent = power.is_number() ? power.get<double>() : -1;
    if (exponent < 0 || exponent > 64) {
      return refuse(fmt::format("is {}, not a number from 0 to 64", json_shown(power)),
                    "fp16.initial_scale_power");
    }
    overrule(flag, fmt::format("fp16.initial_scale_power in {}", path_), std::exp2(exponent));
  }

  static std::string default_of(const char* key) {
    return fmt::format("DeepSpeed's default of fp16.{}", key);
  }

  // A number that overrides the flag; `origin` tells where it comes from.
  void overrule(const std::string& name, const std::string& origin, double value) {
    const Flag& flag = *find_flag(name);
    const std::string text = number_of_kind(flag, value);
    if (draft_.has(name)) {
      if (draft_.number(name, 0) == value) return;
      draft_.note(name,
                  fmt::format("{} is overridden by {}, {}", draft_.value(name), text, origin));
      draft_.line().flags.erase(name);
    } else if (text != number_of_kind(flag, usual_number(flag))) {
      draft_.note(name, fmt::format("{}, {}", text, origin));
    }
    take_flag(draft_.line(), flag, {text}, draft_.complaints());
  }

  // Value in effect without the flag.
  static double usual_number(const Flag& flag) {
    double number = 0;
    std::from_chars(flag.absent.data(), flag.absent.data() + flag.absent.size(), number);
    return number;
  }

  static std::string number_of_kind(const Flag& flag, double value) {
    return flag.kind == Kind::integer && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                                    : toml_number(value);
  }

  void require_object(const Json& json, const std::string& key) {
    if (json.is_null() || json.is_object()) return;
    refuse(fmt::format("is {}, not an object", json_shown(json)), key);
  }

  void number(const std::string& name, const char* key, const Json& json) {
    if (is_absent(json)) return;
    if (!json.is_number()) return refuse(fmt::format("is {}, not a number", json_shown(json)), key);
    const Flag& flag = *find_flag(name);
    const double value = json.get<double>();
    if (!draft_.has(name)) {
      const std::string text = number_of_kind(flag, value);
      take_flag(draft_.line(), flag, {text}, draft_.complaints());
      if (draft_.has(name)) draft_.note(name, fmt::format("{} from {} in {}", text, key, path_));
    } else if (draft_.number(name, 0) != value) {
      draft_.complaints().add(
          name, fmt::format("{} contradicts {} = {} in {}", draft_.value(name), key, value, path_));
    }
  }

  // `other` is the flag of the other half-precision type.
  void precision(const std::string& name, const char* other, const char* section,
                 const Json& enabled) {
    if (is_absent(enabled)) return;
    if (!enabled.is_boolean()) {
      return refuse(fmt::format("is {}, not true or false", json_shown(enabled)),
                    fmt::format("{}.enabled", section));
    }
    const auto contradict = [&](const char* flag, const char* value) {
      if (!contradicted_.insert(flag).second) return;  // already reported by the other type
      draft_.complaints().add(
          flag, fmt::format("contradicts {}.enabled = {} in {}", section, value, path_));
    };
    if (!enabled.get<bool>()) {
      if (draft_.has(name)) contradict(name.c_str(), "false");
    } else if (draft_.has(other)) {
      contradict(other, "true");
    } else if (!draft_.has(name)) {
      take_flag(draft_.line(), *find_flag(name), {}, draft_.complaints());
      draft_.note(name, fmt::format("{}.enabled in {}", section, path_));
    }
  }

  // Derived from batch sizes and ranks, so only relevant without them.
  void accumulation(const Json& steps) {
    if (is_absent(steps)) return;
    if (!steps.is_number()) {
      refuse(fmt::format("is {}, not a number", json_shown(steps)), "gradient_accumulation_steps");
    } else if (steps != 1 && !draft_.has("--global-batch-size")) {
      refuse(fmt::format("is {}, which depends on the number of ranks: set --global-batch-size or "
                         "train_batch_size",
                         steps.dump()),
             "gradient_accumulation_steps");
    } else if (steps.is_number_integer() && steps > 0) {
      const double global = draft_.number("--global-batch-size", 0);
      const double part = draft_.number("--micro-batch-size", 1) * steps.get<double>();
      if (std::fmod(global, part) != 0)
        refuse(fmt::format(
                   "is {}, but a global batch of {} is not a multiple of that number times the "
                   "micro-batch size, {}",
                   steps.dump(), global, part / steps.get<double>()),
               "gradient_accumulation_steps");
    }
  }

  void offloading(const Json& json) {
    std::string folder;  // for all files
    for (const auto& [name, ours] : {std::pair{"offload_optimizer", "offload.optimizer"},
                                     {"offload_param", "offload.parameters"}}) {
      const std::string key = fmt::format("zero_optimization.{}", name);
      const Json& offload = at(json, "zero_optimization", name);
      const Json& device = at(offload, "device");
      require_object(offload, key);
      if (is_absent(device) || device == "none") continue;
      if (device == "cpu" && name == std::string("offload_param") &&
          at(json, "zero_optimization", "stage") != 3) {
        draft_.note("--deepspeed_config",
                    fmt::format("{} in {}: applies only to stage 3", key, path_));
        continue;
      }
      if (device == "cpu") {
        draft_.set_text(ours, "host", "--deepspeed_config");
        continue;
      }
      const Json& nvme = at(offload, "nvme_path");
      const std::string path = nvme.is_string() ? nvme.get<std::string>() : "";
      if (device == "nvme" && !path.empty() && (folder.empty() || folder == path)) {
        folder = path;
        draft_.set_text(ours, "file", "--deepspeed_config");
        draft_.set_text("offload.path", path, "--deepspeed_config");
        continue;
      }
      if (device == "nvme" && !path.empty()) {
        refuse(fmt::format("is {}, but all files go to one folder, '{}'", json_shown(nvme), folder),
               key + ".nvme_path");
        continue;
      }
      refuse(fmt::format("is {}, not none, cpu or nvme with a path", json_shown(device)),
             key + ".device");
    }
  }

  // If true, acts as if the equivalent flag had been given.
  void checkpointing(const Json& json) {
    for (const auto& [key, flag] : {std::pair{"partition_activations", "--partition-activations"},
                                    {"cpu_checkpointing", "--checkpoint-in-cpu"}}) {
      const Json& value = at(json, "activation_checkpointing", key);
      if (is_absent(value)) continue;
      if (!value.is_boolean()) {
        refuse(fmt::format("is {}, not true or false", json_shown(value)),
               fmt::format("activation_checkpointing.{}", key));
      } else if (value == true && !draft_.has(flag)) {
        draft_.give(flag, "");
      }
    }
  }

  void refuse(const std::string& why, const std::string& key) {
    draft_.complaints().add("--deepspeed_config", fmt::format("{} in {} {}", key, path_, why));
  }

  Draft& draft_;
  std::string path_;
  std::set<std::string> contradicted_;  // precision flags, each reported once
};

}  // namespace

void read_deepspeed(Draft& draft, const TranslateOptions& options) {
  if (!draft.has("--deepspeed_config")) return read_curriculum(draft, "", Json::object());
  const std::string path = draft.value("--deepspeed_config");
  const std::optional<std::string> text = text_of_file(options, path);
  if (!text) {
    return draft.complaints().add("--deepspeed_config",
                                  fmt::format("the file '{}' does not exist", path));
  }
  if (text->size() > kLargestFile) {
    return draft.complaints().add("--deepspeed_config", fmt::format("'{}' is too long", path));
  }
  Json json;
  try {
    json = parse_hjson(*text, path);
    if (!json.is_object()) fail_input("'{}' is {}, not a JSON object", path, json_shown(json));
  } catch (const Error& error) {
    return draft.complaints().add("--deepspeed_config", error.what());
  }
  Deepspeed(draft, path).read(json);
}

}  // namespace trireme::megatron
