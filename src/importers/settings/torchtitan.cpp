// Reads torchtitan's job files (TOML, until its configurations became Python in 2026), with keys
// and defaults of job_config.py and, earlier, config_manager.py.
#include "importers/settings/torchtitan.h"

#include <fmt/format.h>

namespace trireme::settings {
namespace {

// Dates of behavior changes in torchtitan.
constexpr int eight_debug_layers = 20240617;
constexpr int six_debug_layers = 20250415;
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

void read_tokenizer(Reader& reader) {
  const std::string old = reader.text("model.tokenizer_path").value_or("");
  const std::string assets = reader.text("model.hf_assets_path").value_or("");
  const std::string key = old.empty() ? "model.hf_assets_path" : "model.tokenizer_path";
  const std::string path = old.empty() ? assets : old;
  if (!old.empty() && !assets.empty() && old != assets)
    reader.note(key, fmt::format("is used instead of model.hf_assets_path = '{}', as in torchtitan",
                                 assets));
  set_torchtitan_tokenizer(reader, key, path);
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
  reader.pass("optimizer.implementation");
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
  read_torchtitan_rates(reader, age, "optimizer.lr");
  read_optimizer(reader);
  read_torchtitan_layout(reader, age, ranks);
  read_recomputation(reader);
  read_torchtitan_checkpoint(reader, age);
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
