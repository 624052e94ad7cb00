// Two sizes of one recipe, and the choice between them.
#include "cli/try/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "backend/cpu/isa.h"
#include "cli/try/pace.h"
#include "config/fields.h"
#include "train/run/setup.h"
#include "train/step_bench.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t try_batch = 16;
constexpr int measured_steps = 3;

struct TryShape {
  int hidden_size, seq_length;
  double dropout;  // for what is read several times
};

TryShape shape_of(TrySize size) {
  switch (size) {
    case TrySize::small:
      return {128, 128, 0};
    case TrySize::full:
      return {256, 256, 0.1};
  }
  return {};
}

// Uses fp32 unless bf16 is faster, since fp32 learns at least as well.
const char* try_precision() {
  return cpu::isa() == cpu::Isa::amx ? "bf16" : "fp32";
}

double seconds_of_step(const TryFiles& files, TrySize size,
                       const std::function<void(const std::string&)>& tell) {
  Config config = parse_config(try_settings(files, size, full_try_steps), "try.toml");
  resolve_vocabulary(config);
  return bench_step(config, measured_steps, false, tell).seconds;
}

}  // namespace

std::string try_settings(const TryFiles& files, TrySize size, std::int64_t steps) {
  const TryShape shape = shape_of(size);
  const auto quoted = [](const fs::path& path) { return toml_string(path.string()); };
  const std::int64_t part = std::max<std::int64_t>(1, steps / 5);
  return fmt::format(
      R"(# Written by `trireme try`, which prepared the text, the tokenizer and the token files.
[run]
dir = {dir}
precision = "{precision}"

[model]
family = "llama"
num_layers = 4
hidden_size = {hidden}
num_heads = 4
seq_length = {length}
hidden_dropout = {dropout}

[data]
train_path = [{train}]
valid_path = [{heldout}]
tokenizer = "gpt2"
vocab_file = {vocabulary}
merge_file = {merges}

[train]
micro_batch_size = {batch}
global_batch_size = {batch}
iters = {steps}
eval_interval = {part}
eval_iters = 4
log_interval = {log}

[optimizer]
name = "muon"
lr = 6e-3
muon_lr = 1e-2
min_lr = 6e-5
decay_style = "cosine"
warmup_iters = {warmup}
weight_decay = 0.1
beta2 = 0.95

[checkpoint]
interval = {part}
)",
      fmt::arg("batch", try_batch), fmt::arg("dir", quoted(files.run)),
      fmt::arg("precision", try_precision()), fmt::arg("hidden", shape.hidden_size),
      fmt::arg("length", shape.seq_length), fmt::arg("dropout", shape.dropout),
      fmt::arg("train", quoted(files.data() / "train_text_document")),
      fmt::arg("heldout", quoted(files.data() / "heldout_text_document")),
      fmt::arg("vocabulary", quoted(files.tokenizer() / "vocab.json")),
      fmt::arg("merges", quoted(files.tokenizer() / "merges.txt")), fmt::arg("steps", steps),
      fmt::arg("part", part), fmt::arg("log", std::max<std::int64_t>(1, steps / 15)),
      fmt::arg("warmup", std::min<std::int64_t>(50, steps / 20)));
}

// The evaluation reads every token twice, at a third of the cost of training; a token has about
// three bytes. Samples and model loading take as long as a few steps.
double steps_in_the_end(std::size_t heldout_bytes, std::int64_t seq_length) {
  constexpr double of_samples = 4;
  const double tokens = static_cast<double>(heldout_bytes) / 3;
  return of_samples + tokens * 2 / 3 / static_cast<double>(try_batch * seq_length);
}

TryLength fitting_length(const TryFiles& files, double seconds, std::size_t heldout_bytes,
                         const std::function<void(const std::string&)>& tell) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto fitting = [&](TrySize size) {
    const double step = seconds_of_step(files, size, tell);
    const std::chrono::duration<double> gone = Clock::now() - begin;
    return steps_in(seconds - gone.count(), step,
                    steps_in_the_end(heldout_bytes, shape_of(size).seq_length));
  };
  const std::int64_t small = fitting(TrySize::small);
  // Otherwise the small size already uses all of the time.
  if (small > full_try_steps && fitting(TrySize::full) >= full_try_steps)
    return {TrySize::full, full_try_steps};
  return {TrySize::small, std::min(small, full_try_steps)};
}

}  // namespace trireme::cli
