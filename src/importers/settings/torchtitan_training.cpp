// Reads what all of torchtitan's versions say alike: the tokenizer, the schedule of learning
// rates, and checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "importers/settings/torchtitan.h"

namespace trireme::settings {
namespace {

// Dates of behavior changes in torchtitan.
constexpr int ten_kept_checkpoints = 20250304;
constexpr int schedule_section = 20250318;
constexpr int shorter_warmup = 20250611;

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

}  // namespace

void set_torchtitan_tokenizer(Reader& reader, const std::string& key, const std::string& path) {
  if (path.empty())
    return reader.note(key,
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

void read_torchtitan_rates(Reader& reader, const Age& age, const std::string& lr_key) {
  const Steps steps = read_steps(reader);
  // The optimizer has PyTorch's default if a printed group has none.
  const double lr = reader.number(lr_key).value_or(age.is_after(printed_since) ? 1e-3 : 8e-4);
  reader.set("optimizer.lr", lr, lr_key);
  const bool oldest = age.is_before(schedule_section) && !reader.is_there("lr_scheduler");
  if (steps.warmup_key == "training.warmup_steps" || oldest)
    return read_oldest_schedule(reader, steps, lr);
  read_schedule(reader, age, steps, lr);
}

namespace {

// Weights that a new run begins with: those of a path, or those of Hugging Face's folder.
void read_start(Reader& reader, bool enabled) {
  const std::string path = "checkpoint.initial_load_path", hf = "checkpoint.initial_load_in_hf";
  const std::string from = reader.text(path).value_or("");
  const bool of_hf = reader.flag(hf).value_or(false);
  reader.pass(hf);
  if (!from.empty())
    reader.lose(path, fmt::format("is '{}': import it with `trireme convert --from {}`", from,
                                  of_hf ? "hf" : "dcp"));
  else if (of_hf && enabled)
    reader.lose(hf,
                "is true, so that the training begins with the weights in hf_assets_path: "
                "import them with `trireme convert --from hf`");
}

}  // namespace

void read_torchtitan_checkpoint(Reader& reader, const Age& age) {
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
  read_start(reader, enabled);
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

}  // namespace trireme::settings
