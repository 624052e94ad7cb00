// Reads DeepSpeed's built-in optimizers and schedulers, with their defaults.
#include <fmt/format.h>

#include <algorithm>

#include "importers/settings/deepspeed.h"

namespace trireme::settings {
namespace {

constexpr const char* usual_rate = "DeepSpeed's default";

// Adam's parameters besides learning rate, betas, epsilon and weight decay.
constexpr Passed of_adam[] = {
    {"amsgrad", "false", "the AMSGrad variant is not supported"},
    {"bias_correction", "true", "bias correction is always on in Trireme"},
    {"capturable"},
    {"differentiable"},
    {"foreach"},
    {"fp32_optimizer_states", "true", "Trireme keeps optimizer states in fp32"},
    {"fused"},
    {"maximize", "false", "Trireme minimizes the loss"},
    {"set_grad_none"}};

void read_betas(Reader& reader) {
  const std::string key = "optimizer.params.betas";
  reader.consume(key);
  const bool pair =
      reader.has(key + ".0") && reader.has(key + ".1") && !reader.is_there(key + ".2");
  if (reader.has(key) && !pair)
    reader.refuse(key, fmt::format("is {}, not two numbers", reader.shown(key)));
  if (reader.is_auto(key)) reader.note(key, "is 'auto', which the program fills in");
  reader.set("optimizer.beta1", reader.number(key + ".0").value_or(0.9), key);
  reader.set("optimizer.beta2", reader.number(key + ".1").value_or(0.999), key);
}

// A learning rate set by a scheduler overrides the optimizer's.
void read_adam(Reader& reader, const std::string& type) {
  const auto of = [](const char* name) { return fmt::format("optimizer.params.{}", name); };
  // DeepSpeed's Adam uses AdamW's decoupled decay unless adam_w_mode is false.
  const bool decoupled = reader.flag(of("adam_w_mode")).value_or(true) || type == "adamw";
  const bool of_torch = reader.flag(of("torch_adam")).value_or(false);
  reader.set_text("optimizer.name", decoupled ? "adamw" : "adam", "optimizer.type");
  const auto rate = reader.number(of("lr"));
  if (const megatron::Setting* set = reader.setting("optimizer.lr"); set && rate) {
    reader.note(of("lr"),
                fmt::format("has no effect with {} = {}, which sets the learning rate of each step",
                            set->origin, set->value));
  } else if (!set && !reader.is_auto(of("lr"))) {
    reader.set("optimizer.lr", rate.value_or(1e-3), rate ? of("lr") : usual_rate);
  }
  read_betas(reader);
  reader.set("optimizer.eps", reader.number(of("eps")).value_or(1e-8), of("eps"));
  const double decay = of_torch && decoupled ? 0.01 : 0;  // default of torch.optim.AdamW
  const auto given = reader.number(of("weight_decay"));
  if (!reader.is_auto(of("weight_decay")))
    reader.set("optimizer.weight_decay", given.value_or(decay),
               given ? of("weight_decay") : usual_rate);
  reader.set("optimizer.decay_vectors", true, "one group of parameters");
  if (reader.has(of("max_grad_norm")))
    reader.refuse(of("max_grad_norm"),
                  "is not a parameter of DeepSpeed's optimizers: use gradient_clipping");
  reader.pass("optimizer.params.", of_adam);
}

// Without a type nothing is set: the user's program provides the optimizer.
void read_optimizer(Reader& reader) {
  const auto type = reader.text("optimizer.type");
  if (!type) return;
  const std::string name = lowered(*type);
  if (name == "adam" || name == "adamw") return read_adam(reader, name);
  reader.consume_section("optimizer.params");
  reader.lose("optimizer.type",
              fmt::format("is '{}': only DeepSpeed's Adam and AdamW are supported; set [optimizer] "
                          "instead",
                          *type));
}

// Warm-up steps: DeepSpeed requires an integer and uses at least two.
std::int64_t warmup_steps(Reader& reader) {
  const std::string key = "scheduler.params.warmup_num_steps";
  const std::int64_t steps = reader.count(key).value_or(1000);
  if (steps < 1)
    reader.refuse(key, fmt::format("is {}, but DeepSpeed requires a number above 0", steps));
  if (steps < 2) reader.note(key, "is 1, which DeepSpeed changes to 2");
  return std::max<std::int64_t>(2, steps);
}

void read_warmup(Reader& reader) {
  const std::string kind = "scheduler.params.warmup_type";
  const std::string type = reader.text(kind).value_or("log");
  if (type != "linear")
    reader.lose(kind, fmt::format("is '{}'{}: Trireme supports only linear warm-up", type,
                                  reader.has(kind) ? "" : "by default"));
  reader.set("optimizer.warmup_iters", warmup_steps(reader), "scheduler.params.warmup_num_steps");
  reader.note("scheduler",
              "is delayed by one step in DeepSpeed: its first two steps both use the learning rate "
              "of Trireme's first step, and so on");
}

std::int64_t total_steps(Reader& reader) {
  const std::string key = "scheduler.params.total_num_steps";
  const auto total = reader.count(key);
  if (!total && !reader.is_auto(key))
    reader.refuse(key, "is not set, and DeepSpeed creates no schedule without it");
  if (total && *total < 1) reader.refuse(key, fmt::format("is {}, not above 0", *total));
  if (total) reader.set("optimizer.decay_iters", *total, key);
  return total.value_or(0);
}

// WarmupLR and WarmupDecayLR set each step's learning rate, regardless of the optimizer's.
void read_linear(Reader& reader, bool decays) {
  read_warmup(reader);
  const std::string lowest = "scheduler.params.warmup_min_lr";
  const std::string highest = "scheduler.params.warmup_max_lr";
  const double from = reader.number(lowest).value_or(0);
  reader.set("optimizer.warmup_init_lr", from, lowest);
  const auto to = reader.number(highest);
  if (to || (decays && !reader.is_auto(highest))) {
    reader.set("optimizer.lr", to.value_or(1e-3), to ? highest : usual_rate);
  } else if (!decays && !reader.is_auto(highest)) {
    reader.note(highest,
                "is not set: the optimizer's learning rate is used, as in DeepSpeed since 0.17.2; "
                "before that it was 0.001");
  }
  if (!decays) return reader.set_text("optimizer.decay_style", "constant", "scheduler.type");
  reader.set_text("optimizer.decay_style", "linear", "scheduler.type");
  reader.set("optimizer.min_lr", from, "scheduler.type");
  total_steps(reader);
}

// WarmupCosineLR uses fractions of the optimizer's learning rate.
void read_cosine(Reader& reader) {
  read_warmup(reader);
  const auto rate = reader.number("optimizer.params.lr");
  const double lr = rate.value_or(1e-3);
  if (!rate)
    reader.lose("optimizer.params.lr",
                "is not set, but the ratios of WarmupCosineLR refer to it: set optimizer.lr, "
                "optimizer.min_lr and optimizer.warmup_init_lr");
  reader.set("optimizer.warmup_init_lr",
             lr * reader.number("scheduler.params.warmup_min_ratio").value_or(0),
             "scheduler.params.warmup_min_ratio");
  reader.set("optimizer.min_lr",
             lr * reader.number("scheduler.params.cos_min_ratio").value_or(0.0001),
             "scheduler.params.cos_min_ratio");
  reader.set_text("optimizer.decay_style", "cosine", "scheduler.type");
  total_steps(reader);
}

void read_scheduler(Reader& reader) {
  const auto type = reader.text("scheduler.type");
  if (!type) return;
  if (*type == "WarmupCosineLR") return read_cosine(reader);
  if (*type == "WarmupLR" || *type == "WarmupDecayLR")
    return read_linear(reader, *type == "WarmupDecayLR");
  reader.consume_section("scheduler.params");
  reader.lose(
      "scheduler.type",
      fmt::format("is '{}': only WarmupLR, WarmupDecayLR and WarmupCosineLR are supported; set the "
                  "schedule in [optimizer]",
                  *type));
}

}  // namespace

void read_deepspeed_optimizer(Reader& reader) {
  read_scheduler(reader);
  read_optimizer(reader);
}

}  // namespace trireme::settings
