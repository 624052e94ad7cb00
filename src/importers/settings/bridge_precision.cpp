// The data types of a configuration of Megatron-Bridge.
#include <fmt/format.h>

#include "importers/settings/bridge.h"

namespace trireme::settings {
namespace {

// Data types are saved as the names of PyTorch's.
constexpr std::pair<std::string_view, const char*> types[] = {{"torch.float32", "fp32"},
                                                              {"torch.bfloat16", "bf16"},
                                                              {"torch.float16", "fp16"},
                                                              {"torch.uint8", "fp8"}};

// The fields of `mixed_precision` replace those of the same names of the model, the optimizer and
// the gradients when the training begins, given or not.
constexpr const char* precision_fields[] = {"autocast_dtype",
                                            "bf16",
                                            "first_last_layers_bf16",
                                            "fp16",
                                            "fp4",
                                            "fp4_recipe",
                                            "fp8",
                                            "fp8_amax_compute_algo",
                                            "fp8_amax_history_len",
                                            "fp8_dot_product_attention",
                                            "fp8_margin",
                                            "fp8_multi_head_attention",
                                            "fp8_param",
                                            "fp8_param_gather",
                                            "fp8_recipe",
                                            "fp8_wgrad",
                                            "grad_reduce_in_fp32",
                                            "hysteresis",
                                            "initial_loss_scale",
                                            "loss_scale",
                                            "loss_scale_window",
                                            "min_loss_scale",
                                            "num_layers_at_end_in_bf16",
                                            "num_layers_at_start_in_bf16",
                                            "params_dtype",
                                            "pipeline_dtype",
                                            "reuse_grad_buf_for_mxfp8_param_ag"};

// Weights of 16 bits without fp32 copies, and stages that exchange another type than they compute.
void read_types(Reader& reader, const std::string& from, const std::string& computed) {
  const std::string weights = from + "params_dtype", stages = from + "pipeline_dtype";
  const Json* parts = reader.json_at("model.pipeline_model_parallel_size");
  const bool split = parts && *parts != 1;
  for (const std::string& key : {weights, stages}) {
    reader.pass(key);
    if (!reader.has(key) || (key == stages && !split)) continue;
    const std::string type = bridge_word(*reader.json_at(key));
    if (type != computed && (key == stages || type != "fp32"))
      reader.lose(key, fmt::format("is {}, but the model computes in {}", type, computed));
  }
}

// The optimizer keeps fp32 weights if its own type says so.
void read_optimizer_types(Reader& reader, bool replaced, bool bf16, bool fp16) {
  for (const auto& [name, computed] : {std::pair{"bf16", bf16}, {"fp16", fp16}}) {
    const std::string key = fmt::format("optimizer.{}", name);
    const bool own = replaced ? computed : reader.flag(key).value_or(false);
    reader.pass(key);
    if (own != computed)
      reader.lose(
          key, fmt::format("is {}, but model.{} is {}: the two must agree", own, name, computed));
  }
}

}  // namespace

std::string bridge_word(const Json& value) {
  if (value.is_object()) {
    const Json target = value.value("_target_", Json());
    for (const auto& [type, word] : types)
      if (target == type) return word;
  }
  return value.is_array() ? value.dump() : plain_value(value);
}

void read_bridge_precision(Reader& reader, BridgeFlags& flags) {
  const std::string key = "mixed_precision";
  const Json* json = reader.json_at(key);
  const bool replaced = json && !json->is_null();
  for (const char* section : {"model.", "optimizer.", "ddp."})
    for (const char* name : precision_fields)
      if (replaced) reader.pass(section + std::string(name));
  if (replaced && json->is_string()) {
    const std::string name = reader.text(key).value_or("");
    return reader.lose(key, fmt::format("is '{}', which is not a recipe of Megatron-Bridge 0.3: "
                                        "give its values instead, as a section",
                                        name));
  }
  if (!replaced) reader.consume(key);
  const std::string from = replaced ? key + "." : "model.";
  const bool bf16 = reader.flag(from + "bf16").value_or(false);
  const bool fp16 = reader.flag(from + "fp16").value_or(false);
  if (bf16) flags.turn_on("--bf16", from + "bf16");
  if (fp16) flags.turn_on("--fp16", from + "fp16");
  reader.pass(key + ".fp32");
  if (reader.flag(key + ".fp32").value_or(false) && (bf16 || fp16))
    reader.note(key + ".fp32", fmt::format("is true, but {} applies, as in Megatron-Bridge",
                                           bf16 ? "bf16" : "fp16"));
  read_types(reader, from, bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
  read_optimizer_types(reader, replaced, bf16, fp16);
  if (const auto format = reader.text(from + "fp4"))
    reader.lose(from + "fp4", fmt::format("is '{}': 4 bits are not supported", *format));
  const std::string gradients = (replaced ? from : "ddp.") + "grad_reduce_in_fp32";
  if (reader.flag(gradients).value_or(replaced)) {
    if (bf16) flags.turn_on("--accumulate-allreduce-grads-in-fp32", gradients);
  } else {
    reader.note(gradients,
                "is false: gradients are accumulated in fp32 (alternatively use "
                "run.gradient_dtype = \"bf16\")");
  }
}

}  // namespace trireme::settings
