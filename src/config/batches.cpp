// Checks batch sizes, their schedule, and the length of a run.
#include "config/batches.h"

#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "base/divide.h"
#include "base/error.h"
#include "config/batch_sizes.h"
#include "config/divisors.h"

namespace trireme {
namespace {

constexpr double kMostActivations = 1e14;

// The widest activation that a layer computes per position, and the name of its size.
std::pair<std::string, std::int64_t> widest_activation(const ModelConfig& m) {
  std::pair<std::string, std::int64_t> widest = {"hidden_size", m.hidden_size};
  const auto compare = [&](const char* name, std::int64_t size) {
    if (size > widest.second) widest = {name, size};
  };
  compare("ffn_hidden_size", m.ffn_hidden_size);
  compare("num_heads x head_dim", m.num_heads * m.head_dim);
  if (m.moe.num_experts == 0) return widest;
  compare("moe.top_k x moe.ffn_hidden_size", m.moe.top_k * m.moe.ffn_hidden_size);
  compare("moe.shared_ffn_hidden_size", m.moe.shared_ffn_hidden_size);
  return widest;
}

void check_activations(const Config& config) {
  const auto [name, width] = widest_activation(config.model);
  const double kept = static_cast<double>(config.train.micro_batch_size) *
                      static_cast<double>(config.model.seq_length) * static_cast<double>(width) *
                      static_cast<double>(config.model.num_layers);
  if (kept <= kMostActivations) return;
  fail_input(
      "train.micro_batch_size x model.seq_length x {} x num_layers = {} x {} x {} x {} activations "
      "exceed the supported maximum of {:.0g}: use a smaller micro-batch",
      name, config.train.micro_batch_size, config.model.seq_length, width, config.model.num_layers,
      kMostActivations);
}

void check_rampup(const TrainConfig& train) {
  if (train.rampup_batch_size.empty()) return;
  if (train.rampup_batch_size.size() != 3) {
    fail_input(
        "train.rampup_batch_size expects three numbers (first batch size, increment, samples), "
        "found {}",
        train.rampup_batch_size.size());
  }
  const std::int64_t start = train.rampup_batch_size[0];
  const std::int64_t increment = train.rampup_batch_size[1];
  const std::int64_t global = train.global_batch_size;
  if (train.samples == 0) {
    fail_input(
        "train.rampup_batch_size requires a run length in samples: set train.samples instead of "
        "train.iters");
  }
  if (start < 1 || increment < 1 || start > global || (global - start) % increment != 0) {
    fail_input(
        "train.rampup_batch_size = [{}, {}, ...] does not reach train.global_batch_size = {}, "
        "which must be {} plus a multiple of {}",
        start, increment, global, start, increment);
  }
}

void check_schedule(const Config& config) {
  const TrainConfig& train = config.train;
  if (batch_size_schedule(config).empty()) return;
  const auto exclude = [](bool given, const char* key) {
    if (given) {
      fail_input(
          "train.batch_size_schedule and {} are mutually exclusive: keep the one that describes "
          "how the batch grows",
          key);
    }
  };
  exclude(train.global_batch_size > 0, "train.global_batch_size");
  exclude(!train.rampup_batch_size.empty(), "train.rampup_batch_size");
  if (train.samples == 0) {
    fail_input(
        "train.batch_size_schedule requires a run length in samples: set train.samples instead of "
        "train.iters");
  }
}

void check_sizes_of_batches(const TrainConfig& train) {
  if (train.global_batch_size % train.micro_batch_size != 0) {
    const std::int64_t fits = train.global_batch_size / train.micro_batch_size;
    fail_input(
        "train.global_batch_size = {} is not divisible by train.micro_batch_size = {}: "
        "global_batch_size can be {} (with several data-parallel ranks: a multiple of {} times "
        "their number), or micro_batch_size {}",
        train.global_batch_size, train.micro_batch_size,
        multiples_near(train.global_batch_size, train.micro_batch_size), train.micro_batch_size,
        fits == 0 ? fmt::format("{}", train.global_batch_size)
                  : divisors_near(train.global_batch_size, train.micro_batch_size));
  }
  check_rampup(train);
}

// Positions of a micro-batch and their expert choices are indexed with 32 bits, also inside BLAS
// libraries.
void check_rows(const Config& config) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  const std::int64_t batch = config.train.micro_batch_size, length = config.model.seq_length;
  if (length > most || batch > most / length) {
    fail_input(
        "train.micro_batch_size = {} times model.seq_length = {} gives more than {} tokens per "
        "micro-batch: reduce one of them",
        batch, length, most);
  }
  const ExpertConfig& moe = config.model.moe;
  if (moe.num_experts == 0 || moe.top_k <= most / (batch * length)) return;
  fail_input(
      "moe.top_k = {} for train.micro_batch_size = {} times model.seq_length = {} tokens gives "
      "more than {} routed tokens per micro-batch: use a micro_batch_size of at most {}, or a "
      "smaller top_k",
      moe.top_k, batch, length, most, most / length / moe.top_k);
}

void check_length(const TrainConfig& train) {
  if (train.iters > 0 && train.samples > 0) {
    fail_input("train.iters = {} and train.samples = {} are mutually exclusive: set only one",
               train.iters, train.samples);
  }
  if (train.iters == 0 && train.samples == 0) {
    fail_input("[train] does not set the length of the run: set train.iters or train.samples");
  }
  const auto& trace = train.trace_steps;
  if (!trace.empty() && (trace.size() != 2 || trace[0] > trace[1])) {
    fail_input(
        "train.trace_steps expects the first and the last iteration, as in [10, 12], found [{}]",
        fmt::join(trace, ", "));
  }
}

}  // namespace

void check_batches(const Config& config) {
  check_rows(config);
  check_activations(config);
  check_length(config.train);
  check_sizes_of_batches(config.train);
  check_schedule(config);
}

}  // namespace trireme
