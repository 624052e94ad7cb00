// Reads a configuration that torchtitan printed, since its configurations became Python in February
// 2026. Names and defaults are those of 0.3.
#include <fmt/format.h>

#include "config/fields.h"
#include "importers/settings/torchtitan.h"

namespace trireme::settings {
namespace {

// Quantized linear layers are printed like others.
void note_converters(Reader& reader) {
  reader.note("model_spec",
              "does not say whether its linear layers are converted (Float8LinearConverter, "
              "MXFP8LinearConverter, NVFP4LinearConverter): the result computes in the precision "
              "of training.mixed_precision_param; see [fp8] for 8-bit recipes");
}

void read_group(Reader& reader, const std::string& key, const std::string& name) {
  const double decay = name == "Adam" ? 0 : 1e-2;  // PyTorch's defaults
  const std::string given = key + ".optimizer_kwargs";
  reader.set_text("optimizer.name", lowered(name), key + ".optimizer_name");
  const std::string betas = given + ".betas";
  reader.consume(betas);
  if (reader.has(betas) && (!reader.has(betas + ".1") || reader.is_there(betas + ".2")))
    reader.refuse(betas, fmt::format("is {}, not two numbers", reader.shown(betas)));
  reader.set("optimizer.beta1", reader.number(betas + ".0").value_or(0.9), betas);
  reader.set("optimizer.beta2", reader.number(betas + ".1").value_or(0.999), betas);
  reader.set("optimizer.eps", reader.number(given + ".eps").value_or(1e-8), given + ".eps");
  reader.set("optimizer.weight_decay", reader.number(given + ".weight_decay").value_or(decay),
             given + ".weight_decay");
  const Passed rest[] = {{"amsgrad", "false", "the largest second moment is not kept"},
                         {"capturable"},
                         {"differentiable"},
                         {"foreach"},
                         {"fused"},
                         {"maximize", "false", "the loss would grow"}};
  reader.pass(given + ".", rest);
}

// Several groups have different optimizers, rates or decays.
void read_groups(Reader& reader) {
  const std::string key = "optimizer.param_groups", first = key + ".0";
  const Json* groups = reader.json_at(key);
  if (!groups || !groups->is_array() || groups->empty() || !(*groups)[0].is_object())
    reader.refuse(key, "is not a list of groups of parameters");
  if (groups->size() > 1) {
    reader.consume(key);
    return reader.lose(
        key, fmt::format("has {} groups, which Trireme does not tell apart: one optimizer "
                         "with one learning rate and one weight decay has all parameters",
                         groups->size()));
  }
  const std::string name = reader.text(first + ".optimizer_name").value_or("");
  if (const auto pattern = reader.text(first + ".pattern"); pattern != ".*")
    reader.lose(first + ".pattern", fmt::format("is {}: other parameters would not be trained",
                                                reader.shown(first + ".pattern")));
  if (name != "Adam" && name != "AdamW") {
    reader.consume_section(first + ".optimizer_kwargs");
    return reader.lose(first + ".optimizer_name",
                       fmt::format("is '{}': Adam and AdamW are carried over; set [optimizer] "
                                   "yourself",
                                   name));
  }
  read_group(reader, first, name);
  reader.set("optimizer.decay_vectors", true, first + ".pattern");
}

void read_optimizer(Reader& reader) {
  read_groups(reader);
  const std::string key = "optimizer.implementation";
  const std::string kind = reader.text(key).value_or("fused");
  if (kind == "fused_opt_states_bf16") {
    reader.set_text("optimizer.moment_dtype", "bf16", key);
    reader.note(key,
                "rounds moments to the nearest bf16 number in torchtitan, and Trireme rounds "
                "stochastically");
  } else {
    reader.pass(key);
  }
  reader.pass_if_empty("optimizer.optimizer_factory_kwargs_by_name",
                       "arguments of an optimizer, which are not carried over");
  const double norm = reader.number("training.max_norm").value_or(1);
  if (!(norm > 0)) reader.refuse("training.max_norm", fmt::format("is {}, not above 0", norm));
  reader.set("optimizer.clip_grad", norm, "training.max_norm");
}

// The class of recomputation is not printed, but its keys are.
void read_recomputation(Reader& reader) {
  const std::string key = "activation_checkpoint";
  const bool some = reader.is_there(key + ".force_recompute_mm_shapes_by_fqns") ||
                    reader.is_there(key + ".memory_budget");
  if (!reader.has(key)) return reader.consume(key);
  reader.set_text("parallel.recompute", some ? "selective" : "full", key);
  if (some)
    reader.note(key,
                "is selective: Trireme recomputes attention, which changes memory and time but not "
                "results");
}

// Documents are packed without crossing their borders: in attention, positions and targets.
void read_text(Reader& reader) {
  const std::string key = "dataloader.dataset";
  for (const char* setting :
       {"data.reset_attention_mask", "data.reset_position_ids", "data.eod_mask_loss"})
    reader.set(setting, true, key);
  for (const std::string& name : {key, std::string("dataloader.dataset_path")})
    if (const auto value = reader.text(name); value && !value->empty())
      reader.note(name, fmt::format("is '{}': set data.sources to its files, or prepare them with "
                                    "`trireme preprocess` and set data.path",
                                    *value));
  if (!reader.flag("dataloader.infinite").value_or(true))
    reader.note("dataloader.infinite", "is false: Trireme begins the data again if they run out");
}

void read_data(Reader& reader) {
  const Passed workers[] = {
      {"num_workers"}, {"persistent_workers"}, {"pin_memory"}, {"prefetch_factor"}};
  reader.pass("dataloader.", workers);
  if (reader.has("dataloader.sources")) {
    reader.consume_section("dataloader.sources");
    reader.note("dataloader.sources",
                "are mixed: give data.sources as weight, files, weight, files");
    for (const char* key : {"dataloader.seed", "dataloader.stopping_strategy"}) {
      if (reader.has(key))
        reader.note(key, fmt::format("is {}, which is not carried over", reader.shown(key)));
      reader.consume(key);
    }
  }
  if (reader.has("dataloader.sample_processor")) {
    reader.consume_section("dataloader");
    return reader.lose("dataloader.sample_processor",
                       "makes conversations, of which only the answers are learned: Trireme "
                       "pre-trains on all text");
  }
  read_text(reader);
}

// The loss is that of the next token, whole or in chunks.
void read_loss(Reader& reader) {
  for (const char* key :
       {"loss.num_chunks", "loss.global_vocab_size", "loss.loss_fn.global_vocab_size"})
    reader.pass(key);
  const Json* modules = reader.json_at("model_spec.model.mtp_layers");
  if (modules && !modules->empty()) reader.consume("loss.mtp_scale");
}

void read_validation(Reader& reader) {
  const bool on = reader.flag("validator.enable").value_or(false);
  if (on)
    reader.note("validator.enable", "give data.valid_path or data.split, and train.eval_interval");
  else
    reader.result().passed.push_back("validator");
  for (const char* key : {"validator.freq", "validator.steps", "validator.dataloader.dataset",
                          "validator.dataloader.dataset_path"})
    if (on && reader.has(key))
      reader.note(key, fmt::format("is {}, which is not carried over", reader.shown(key)));
  reader.consume_section("validator");
}

void read_run(Reader& reader) {
  set_torchtitan_tokenizer(reader, "hf_assets_path", reader.text("hf_assets_path").value_or(""));
  reader.pass_if_empty("tokenizer", "settings of a tokenizer, which are not carried over");
  if (const auto folder = reader.text("dump_folder"))
    reader.set_text("run.dir", *folder, "dump_folder");
  if (const auto seed = reader.count("debug.seed")) reader.set("run.seed", *seed, "debug.seed");
  reader.set("train.log_interval", reader.count("metrics.log_freq").value_or(10),
             "metrics.log_freq");
  reader.set("log.tensorboard", reader.flag("metrics.enable_tensorboard").value_or(false),
             "metrics.enable_tensorboard");
  reader.pass_if_empty("override.imports",
                       "modules are replaced by others, which may change the training in any way");
}

}  // namespace

void read_printed_torchtitan(Reader& reader, std::int64_t ranks) {
  const Age age{printed_since, printed_since + 1, "", ""};
  pass_torchtitan_keys(reader);
  read_torchtitan_model(reader);
  note_converters(reader);
  read_torchtitan_rates(reader, age, "optimizer.param_groups.0.optimizer_kwargs.lr");
  read_optimizer(reader);
  read_torchtitan_layout(reader, age, ranks);
  read_recomputation(reader);
  read_torchtitan_checkpoint(reader, age);
  read_run(reader);
  read_data(reader);
  read_loss(reader);
  read_validation(reader);
  const megatron::Setting* precision = reader.setting("run.precision");
  if (reader.setting("moe.num_experts") && precision && precision->value != toml_string("bf16"))
    reader.note(
        "training.mixed_precision_param",
        "is float32; torchtitan computes experts in bf16 nevertheless, and Trireme does not");
  reader.result().open = "data.sources or data.path";
}

}  // namespace trireme::settings
