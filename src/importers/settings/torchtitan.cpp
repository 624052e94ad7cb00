// Reads torchtitan's job files (TOML, until its configurations became Python in 2026), with keys
// and defaults of job_config.py and, earlier, config_manager.py.
#include "importers/settings/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::settings {
namespace {

// Dates of behavior changes in torchtitan.
constexpr int eight_debug_layers = 20240617;
constexpr int ten_kept_checkpoints = 20250304;
constexpr int six_debug_layers = 20250415;
constexpr int schedule_section = 20250318;
constexpr int shorter_warmup = 20250611;
constexpr int scaled_positions = 20251008;

// Formats a day's month as "2025-06".
std::string month_of(int day) {
  return fmt::format("{}-{:02}", day / 10000, day / 100 % 100);
}

std::int64_t debug_layers(const Age& age) {
  return age.is_before(eight_debug_layers) ? 2 : age.is_before(six_debug_layers) ? 8 : 6;
}

void read_flavor(Reader& reader, const Age& age) {
  const std::string name = reader.text("model.name").value_or("llama3");
  const std::string flavor = reader.text("model.flavor").value_or("debugmodel");
  const auto set = [&](const char* key, std::int64_t value) {
    reader.set(key, value, "model.flavor");
  };
  if (name == "llama3" && (flavor == "8B" || flavor == "70B" || flavor == "405B")) {
    reader.set_text("model.preset", "llama3-" + lowered(flavor), "model.flavor");
  } else if (name == "llama3" && flavor == "debugmodel") {
    reader.set_text("model.family", "llama", "model.name");
    set("model.num_layers", debug_layers(age));
    set("model.hidden_size", 256);
    set("model.num_heads", 16);
    set("model.ffn_hidden_size", 768);
    reader.set("model.rope_base", 500000.0, "model.flavor");
  } else {
    reader.lose(
        "model.flavor",
        fmt::format("is '{}' of '{}': debugmodel, 8B, 70B and 405B of llama3 are known; give "
                    "[model] yourself",
                    flavor, name));
  }
}

// Llama 3.1's RoPE scaling, which all torchtitan flavors use since October 2025.
void read_positions(Reader& reader, const Age& age) {
  if (age.is_before(scaled_positions))
    return reader.note(
        "model.rope_scaling",
        fmt::format("remains none: '{}' is a key of torchtitan before October 2025, which "
                    "did not scale positions",
                    age.oldest));
  reader.set_text("model.rope_scaling", "llama3", "model.name");
  reader.set("model.rope_scaling_factor", 8.0, "model.name");
  reader.set("model.rope_original_length", std::int64_t{8192}, "model.name");
  if (!age.is_after(scaled_positions))
    reader.note("model.rope_scaling",
                "is that of Llama 3.1, as in torchtitan since October 2025; before that, positions "
                "were not scaled");
}

// torchtitan's LayerNorm has no bias; ours has.
void read_norm(Reader& reader) {
  const std::string type = lowered(reader.text("model.norm_type").value_or("rmsnorm"));
  if (type == "rmsnorm" || type == "fused_rmsnorm" || type == "compiled_rmsnorm") {
    if (reader.has("model.norm_type")) reader.set_text("model.norm", "rms_norm", "model.norm_type");
  } else if (type == "layernorm") {
    reader.set_text("model.norm", "layer_norm", "model.norm_type");
    reader.lose(
        "model.norm_type",
        "is 'layernorm', which has no bias in torchtitan, but model.norm = \"layer_norm\" has a "
        "trained bias");
  } else {
    reader.lose("model.norm_type",
                fmt::format("is '{}': model.norm is rms_norm or layer_norm", type));
  }
}

// A tiktoken file until July 2025, then a folder with Hugging Face's tokenizer.json.
void read_tokenizer(Reader& reader) {
  const std::string old = reader.text("model.tokenizer_path").value_or("");
  const std::string assets = reader.text("model.hf_assets_path").value_or("");
  const std::string key = old.empty() ? "model.hf_assets_path" : "model.tokenizer_path";
  const std::string path = old.empty() ? assets : old;
  if (!old.empty() && !assets.empty() && old != assets)
    reader.note(key, fmt::format("is used instead of model.hf_assets_path = '{}', as in torchtitan",
                                 assets));
  if (path.empty())
    return reader.note("model.hf_assets_path",
                       "is not set: set the tokenizer with data.tokenizer and "
                       "data.tokenizer_model");
  const bool tiktoken = path.ends_with(".model") || path.ends_with(".tiktoken");
  reader.set_text("data.tokenizer", tiktoken ? "tiktoken" : "hf", key);
  const bool file = tiktoken || path.ends_with(".json");
  reader.set_text("data.tokenizer_model",
                  file || path.ends_with('/') ? path + (file ? "" : "tokenizer.json")
                                              : path + "/tokenizer.json",
                  key);
}

void read_converters(Reader& reader) {
  for (const std::string& name : reader.list("model.converters")) {
    const bool fp8 = name.find("float8") != name.npos;
    reader.lose(
        "model.converters",
        fmt::format("has '{}': {}", name,
                    fp8 ? "unsupported fp8 recipes: rowwise is not supported, and tensorwise "
                          "has one scale per batch and includes the output head; see "
                          "fp8.recipe for the supported recipes"
                        : "a change of the model's arithmetic that is not supported"));
  }
}

void read_model(Reader& reader, const Age& age) {
  read_flavor(reader, age);
  read_positions(reader, age);
  read_norm(reader);
  read_tokenizer(reader);
  read_converters(reader);
  reader.set("model.seq_length", reader.count("training.seq_len").value_or(2048),
             "training.seq_len");
}

struct Steps {
  std::int64_t train, total, warmup;
  std::string warmup_key;
};

Steps read_steps(Reader& reader) {
  Steps s{};
  s.train = reader.count("training.steps").value_or(10000);
  s.total = reader.count("lr_scheduler.total_steps").value_or(s.train);
  s.warmup_key = reader.one_of({"lr_scheduler.warmup_steps", "training.warmup_steps"});
  s.warmup = std::min(reader.count(s.warmup_key).value_or(200), s.total);
  if (s.train < 1 || s.total < 1 || s.warmup < 0)
    reader.refuse("training.steps", "and the steps of lr_scheduler must be above 0");
  reader.set("train.iters", s.train, "training.steps");
  if (s.total != s.train) reader.set("optimizer.decay_iters", s.total, "lr_scheduler.total_steps");
  return s;
}

// Until March 2025, warm-up step k (from 0) has (k + 1) / (warmup + 1) of the learning rate,
// followed by a linear decay to zero.
void read_oldest_schedule(Reader& reader, const Steps& s, double lr) {
  if (s.warmup > 0) {
    reader.set("optimizer.warmup_iters", s.warmup, s.warmup_key);
    reader.set("optimizer.warmup_init_lr", lr / static_cast<double>(s.warmup + 1), s.warmup_key);
  }
  reader.set_text("optimizer.decay_style", "linear",
                  "torchtitan's only schedule before March 2025");
  reader.set("optimizer.min_lr", 0.0, "torchtitan's only schedule before March 2025");
}

std::int64_t decay_steps(Reader& reader, const Steps& s) {
  const auto ratio = reader.number("lr_scheduler.decay_ratio");
  if (!ratio) return s.total - s.warmup;
  if (*ratio < 0 || *ratio > 1) reader.refuse("lr_scheduler.decay_ratio", "is not from 0 to 1");
  return std::min(s.total - s.warmup,
                  static_cast<std::int64_t>(std::nearbyint(*ratio * static_cast<double>(s.total))));
}

// torchtitan counts warm-up steps from 1, so the first has lr / warmup: equivalent to a warm-up
// that is one step shorter and starts from that value. Its decay corresponds to Trireme's "wsd".
// Before June 2025 both phases were one step longer.
void read_schedule(Reader& reader, const Age& age, const Steps& s, double lr) {
  const std::int64_t longer = age.is_before(shorter_warmup) ? 1 : 0;
  const std::int64_t warmup = s.warmup + longer, decay = decay_steps(reader, s);
  const std::string kind = reader.text("lr_scheduler.decay_type").value_or("linear");
  if (kind != "linear" && kind != "sqrt" && kind != "cosine")
    reader.refuse("lr_scheduler.decay_type",
                  fmt::format("is '{}', not linear, sqrt or cosine", kind));
  const std::string lowest = reader.one_of({"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"});
  const double share = reader.number(lowest).value_or(0);
  if (warmup > 1) {
    reader.set("optimizer.warmup_iters", warmup - 1, s.warmup_key);
    reader.set("optimizer.warmup_init_lr", lr / static_cast<double>(warmup), s.warmup_key);
  }
  if (decay < 1) return reader.set_text("optimizer.decay_style", "constant", "lr_scheduler");
  if (longer > 0 && s.warmup + decay >= s.total)
    reader.lose(
        "lr_scheduler",
        "has no steps at the peak learning rate: the first step after the warm-up uses it in "
        "Trireme, but had already decayed in torchtitan of March to June 2025; all other steps "
        "agree. Set lr_scheduler.decay_ratio, or the schedule in [optimizer]");
  reader.set_text("optimizer.decay_style", "wsd", "lr_scheduler");
  reader.set("optimizer.wsd_decay_iters", decay + longer, "lr_scheduler.decay_ratio");
  reader.set_text("optimizer.wsd_decay_style", kind == "sqrt" ? "minus_sqrt" : kind,
                  "lr_scheduler.decay_type");
  reader.set("optimizer.min_lr", lr * share, lowest);
}

void read_rates(Reader& reader, const Age& age) {
  const Steps steps = read_steps(reader);
  const double lr = reader.number("optimizer.lr").value_or(8e-4);
  reader.set("optimizer.lr", lr, "optimizer.lr");
  const bool oldest = age.is_before(schedule_section) && !reader.is_there("lr_scheduler");
  if (steps.warmup_key == "training.warmup_steps" || oldest)
    return read_oldest_schedule(reader, steps, lr);
  read_schedule(reader, age, steps, lr);
}

void read_optimizer(Reader& reader) {
  const std::string name = reader.text("optimizer.name").value_or("AdamW");
  if (name != "AdamW" && name != "Adam")
    reader.lose("optimizer.name", fmt::format("is '{}': only Adam and AdamW are supported", name));
  reader.set_text("optimizer.name", name == "Adam" ? "adam" : "adamw", "optimizer.name");
  reader.set("optimizer.beta1", reader.number("optimizer.beta1").value_or(0.9), "optimizer.beta1");
  reader.set("optimizer.beta2", reader.number("optimizer.beta2").value_or(0.95), "optimizer.beta2");
  reader.set("optimizer.eps", reader.number("optimizer.eps").value_or(1e-8), "optimizer.eps");
  reader.set("optimizer.weight_decay", reader.number("optimizer.weight_decay").value_or(0.1),
             "optimizer.weight_decay");
  reader.set("optimizer.decay_vectors", true, "one group of parameters");
  const double norm = reader.number("training.max_norm").value_or(1);
  if (!(norm > 0)) reader.refuse("training.max_norm", fmt::format("is {}, not above 0", norm));
  reader.set("optimizer.clip_grad", norm, "training.max_norm");
}

void read_recomputation(Reader& reader) {
  const std::string key = "activation_checkpoint.mode";
  const std::string mode = reader.text(key).value_or("selective");
  const bool other = mode == "selective" || mode == "memory_budget";
  if (!other && mode != "full" && mode != "none")
    reader.refuse(key, fmt::format("is '{}', not selective, full, memory_budget or none", mode));
  reader.set_text("parallel.recompute", other ? "selective" : mode, key);
  if (other)
    reader.note(
        key,
        fmt::format(
            "is '{}': Trireme recomputes attention, which changes memory and time but not results",
            mode));
}

void read_checkpoint(Reader& reader, const Age& age) {
  const std::string on = reader.one_of({"checkpoint.enable", "checkpoint.enable_checkpoint"});
  const std::string interval =
      reader.one_of({"checkpoint.interval", "training.checkpoint_interval"});
  const bool old_one = !reader.text("training.checkpoint_folder").value_or("").empty();
  const bool enabled = reader.flag(on).value_or(old_one);
  const auto steps = reader.count(interval);
  const auto keep = reader.count("checkpoint.keep_latest_k");
  const std::string mode = reader.text("checkpoint.async_mode").value_or("disabled");
  if (mode != "disabled" && mode != "async" && mode != "async_with_pinned_mem")
    reader.refuse("checkpoint.async_mode",
                  fmt::format("is '{}', not disabled, async or async_with_pinned_mem", mode));
  if (const auto from = reader.text("checkpoint.initial_load_path"); from && !from->empty())
    reader.lose("checkpoint.initial_load_path",
                fmt::format("is '{}': import it with `trireme convert --from dcp`", *from));
  if (!enabled) {
    for (const std::string& key :
         {interval, std::string("checkpoint.keep_latest_k"), std::string("checkpoint.async_mode")})
      reader.pass(key);
    return;
  }
  reader.set("checkpoint.interval", steps.value_or(500), interval);
  reader.set("checkpoint.keep", keep.value_or(age.is_before(ten_kept_checkpoints) ? 0 : 10),
             "checkpoint.keep_latest_k");
  reader.set("checkpoint.async", mode != "disabled", "checkpoint.async_mode");
}

void read_data(Reader& reader) {
  for (const char* key : {"training.dataset", "training.dataset_path"})
    if (const auto name = reader.text(key))
      reader.note(
          key,
          fmt::format(
              "is '{}': set data.sources to its files, or prepare them with `trireme preprocess` "
              "and set data.path",
              *name));
  if (const auto seed = reader.count("training.shuffle_seed"))
    reader.note(
        "training.shuffle_seed",
        fmt::format("is {}: Trireme uses its own order of samples, determined by run.seed", *seed));
  const bool on =
      reader.flag(reader.one_of({"validation.enable", "validation.enabled"})).value_or(false);
  if (on)
    reader.note("validation.enable", "give data.valid_path or data.split, and train.eval_interval");
  for (const char* key :
       {"dataset", "dataset_path", "freq", "local_batch_size", "seq_len", "steps"}) {
    const std::string whole = fmt::format("validation.{}", key);
    if (on && reader.is_there(whole))
      reader.note(whole, fmt::format("is {}, which is not carried over", reader.shown(whole)));
    if (on)
      reader.consume(whole);
    else
      reader.pass(whole);
  }
}

}  // namespace

void read_torchtitan(Reader& reader, std::int64_t ranks) {
  pass_torchtitan_keys(reader);
  const Age age = age_of(reader);
  if (age.contradicts())
    reader.lose(
        age.oldest,
        fmt::format("is a key of torchtitan before {}, and {} a key since {}: no version reads "
                    "both, so one of them has no effect: remove it",
                    month_of(age.until), age.youngest, month_of(age.since)));
  read_model(reader, age);
  read_rates(reader, age);
  read_optimizer(reader);
  read_torchtitan_layout(reader, age, ranks);
  read_recomputation(reader);
  read_checkpoint(reader, age);
  if (const auto folder = reader.text("job.dump_folder"))
    reader.set_text("run.dir", *folder, "job.dump_folder");
  const std::string seed = reader.one_of({"debug.seed", "training.seed"});
  if (const auto value = reader.count(seed)) reader.set("run.seed", *value, seed);
  reader.set("train.log_interval", reader.count("metrics.log_freq").value_or(10),
             "metrics.log_freq");
  reader.set("log.tensorboard", reader.flag("metrics.enable_tensorboard").value_or(false),
             "metrics.enable_tensorboard");
  read_data(reader);
  reader.note("weights", "are initialized with different random numbers than in torchtitan");
  reader.result().open = "data.sources or data.path";
}

}  // namespace trireme::settings
