// The data types that Megatron-Bridge has a name for.
#include <algorithm>
#include <array>

#include "importers/settings/bridge.h"

namespace trireme::settings {
namespace {

constexpr const char* precision_key = "mixed_precision";
constexpr std::string_view ending = "_mixed";

// What a name says after the 16-bit type, and its values that are not the defaults of the section.
struct Narrow {
  std::string_view name;
  const char* values;
};
constexpr std::array<Narrow, 6> narrow_types{{
    {"", "{}"},
    {"_with_fp8_delayed_scaling",
     R"({"fp8": "hybrid", "fp8_recipe": "delayed", "fp8_amax_history_len": 1024,
         "fp8_amax_compute_algo": "max", "fp8_param": true, "fp8_param_gather": true})"},
    {"_with_mxfp8",
     R"({"fp8": "e4m3", "fp8_recipe": "mxfp8", "fp8_param": true, "fp8_param_gather": true,
         "reuse_grad_buf_for_mxfp8_param_ag": true})"},
    {"_with_fp8_current_scaling",
     R"({"fp8": "hybrid", "fp8_recipe": "tensorwise", "first_last_layers_bf16": true,
         "num_layers_at_start_in_bf16": 1, "num_layers_at_end_in_bf16": 1, "fp8_param": true,
         "fp8_param_gather": true})"},
    {"_with_fp8_subchannel_scaling", R"({"fp8": "hybrid", "fp8_recipe": "blockwise"})"},
    {"_with_nvfp4", R"({"fp4": "e2m1"})"},
}};

// Names of models, which have fp8 with two layers at each end in bf16.
constexpr std::array<std::pair<std::string_view, const char*>, 2> of_models{{
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed", "tensorwise"},
    {"nanov2_bf16_with_fp8_current_scaling_mixed", "blockwise"},
}};

Json section_of(std::string_view type) {
  const bool bf16 = type == "bf16";
  const Json torch_type{{"_target_", bf16 ? "torch.bfloat16" : "torch.float16"}};
  return {{"fp32", false},
          {"bf16", bf16},
          {"fp16", !bf16},
          {"params_dtype", torch_type},
          {"pipeline_dtype", torch_type},
          {"autocast_dtype", nullptr},
          {"autocast_enabled", false},
          {"grad_reduce_in_fp32", bf16},
          {"fp8", nullptr},
          {"fp8_recipe", "tensorwise"},
          {"first_last_layers_bf16", false},
          {"fp8_margin", 0},
          {"fp8_amax_history_len", 1},
          {"fp8_amax_compute_algo", "most_recent"},
          {"fp8_wgrad", true},
          {"fp8_dot_product_attention", false},
          {"fp8_multi_head_attention", false},
          {"fp8_param", false},
          {"fp8_param_gather", false},
          {"fp4", nullptr},
          {"fp4_recipe", "nvfp4"},
          {"loss_scale", nullptr},
          {"initial_loss_scale", 4294967296.0},
          {"min_loss_scale", 1.0},
          {"loss_scale_window", 1000},
          {"hysteresis", 2},
          {"num_layers_at_start_in_bf16", 0},
          {"num_layers_at_end_in_bf16", 0},
          {"reuse_grad_buf_for_mxfp8_param_ag", false}};
}

// The values of a name; null if there is no such name.
Json values_of(std::string name) {
  std::ranges::replace(name, '-', '_');
  for (const auto& [model, recipe] : of_models) {
    if (name != model) continue;
    Json section = values_of("bf16_with_fp8_current_scaling_mixed");
    section["fp8_recipe"] = recipe;
    section["num_layers_at_start_in_bf16"] = section["num_layers_at_end_in_bf16"] = 2;
    return section;
  }
  const std::string type = name.substr(0, std::min<std::size_t>(4, name.size()));
  if ((type != "bf16" && type != "fp16") || !name.ends_with(ending)) return nullptr;
  const std::string rest = name.substr(4, name.size() - 4 - ending.size());
  const auto narrow = std::ranges::find(narrow_types, rest, &Narrow::name);
  if (narrow == narrow_types.end() || (rest == "_with_nvfp4" && type == "fp16")) return nullptr;
  Json section = section_of(type);
  section.update(Json::parse(narrow->values));
  return section;
}

}  // namespace

Json with_bridge_recipe(Json file) {
  if (!file.is_object() || !file.contains(precision_key) || !file[precision_key].is_string())
    return file;
  Json values = values_of(file[precision_key].get<std::string>());
  if (!values.is_null()) file[precision_key] = std::move(values);
  return file;
}

}  // namespace trireme::settings
