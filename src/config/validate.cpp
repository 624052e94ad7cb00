// Checks that apply to any number of ranks.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "config/batches.h"
#include "config/blend_list.h"
#include "config/config.h"
#include "config/experts.h"
#include "config/families.h"
#include "config/fp8.h"
#include "config/offload.h"
#include "config/optimization.h"
#include "config/saving.h"

namespace trireme {
namespace {

void check_curriculum(const Config& config) {
  const CurriculumConfig& c = config.curriculum;
  if (c.schedule == CurriculumSchedule::none) return;
  if (c.iters < 1)
    fail_input(
        "[curriculum] is missing iters: set the iteration at which the full length is reached");
  if (c.min_length < 1 || c.min_length > config.model.seq_length ||
      c.min_length % c.length_step != 0) {
    fail_input(
        "curriculum.min_length = {} must be a multiple of curriculum.length_step = {} and at most "
        "model.seq_length = {}",
        c.min_length, c.length_step, config.model.seq_length);
  }
  if (c.min_length <= config.model.mtp_layers)
    fail_input("curriculum.min_length = {} must be above model.mtp_layers = {}", c.min_length,
               config.model.mtp_layers);
}

// transformers divides by the factors of the longest sequence of a batch, by its positions.
void check_restarted_positions(const Config& config) {
  const ModelConfig& m = config.model;
  if (m.rope_scaling != RopeScaling::longrope || !config.data.reset_position_ids) return;
  if (m.seq_length <= m.rope_original_length) return;
  fail_input(
      "data.reset_position_ids conflicts with model.rope_scaling = \"longrope\", whose frequencies "
      "would depend on the longest document of a batch, as model.seq_length = {} is above "
      "model.rope_original_length = {}: use false, or shorter samples",
      m.seq_length, m.rope_original_length);
}

// One to three non-negative numbers, not all zero.
bool is_split(const std::string& text) {
  double sum = 0;
  int count = 0;
  for (const char *at = text.data(), *end = at + text.size();; ++at) {
    while (at < end && *at == ' ') ++at;
    double share = 0;
    const auto [next, error] = std::from_chars(at, end, share);
    if (error != std::errc() || !std::isfinite(share) || share < 0 || ++count > 3) return false;
    sum += share;
    at = next;
    while (at < end && *at == ' ') ++at;
    if (at == end) return sum > 0;
    if (*at != ',' && *at != '/') return false;
  }
}

void check_data(const DataConfig& data) {
  const bool apart =
      !data.train_path.empty() || !data.valid_path.empty() || !data.test_path.empty();
  if (!data.path.empty() && apart) {
    fail_input(
        "data.path (divided by data.split) and data.train_path, data.valid_path and data.test_path "
        "are mutually exclusive: keep one form");
  }
  if (!is_split(data.split)) {
    fail_input("data.split = {:?} is not valid: expected up to three shares, such as \"969,30,1\"",
               data.split);
  }
  for (const auto& [key, list] : {std::pair{"data.path", &data.path},
                                  {"data.train_path", &data.train_path},
                                  {"data.valid_path", &data.valid_path},
                                  {"data.test_path", &data.test_path},
                                  {"data.sources", &data.sources},
                                  {"data.valid_sources", &data.valid_sources}})
    parse_blend(*list, key);
}

// Restrictions of training directly from text.
void check_sources(const Config& config) {
  const DataConfig& data = config.data;
  if (data.sources.empty() && data.valid_sources.empty()) return;
  const char* const key = data.sources.empty() ? "data.valid_sources" : "data.sources";
  if (!data.path.empty())
    fail_input("{} and data.path are mutually exclusive: keep one of them", key);
  if (!data.sources.empty() && !data.train_path.empty()) {
    fail_input("data.sources and data.train_path are mutually exclusive: keep one of them");
  }
  if (!data.valid_sources.empty() && !data.valid_path.empty()) {
    fail_input("data.valid_sources and data.valid_path are mutually exclusive: keep one of them");
  }
  if (data.tokenizer.empty()) {
    fail_input(
        "{} requires data.tokenizer and its files, because texts are tokenized during training",
        key);
  }
  if (data.source_keys.empty()) {
    fail_input("data.source_keys = [] is empty: expected one key for all sources or one for each");
  }
  if (family_of(config.model).samples == SampleKind::masked_words) {
    fail_input(
        "{}: model.family = {:?} trains on sentences: use data.path with files made by `trireme "
        "preprocess --split-sentences`",
        key, config.model.family);
  }
  if (data.fim_rate > 0) {
    fail_input("{}: data.fim_rate = {} is supported with data.path only: set it to 0", key,
               data.fim_rate);
  }
}

void check_tasks(const Config& config) {
  const TrainConfig& t = config.train;
  if (t.eval_tasks.empty()) {
    if (t.eval_tasks_interval > 0)
      fail_input("train.eval_tasks_interval = {} has no effect without train.eval_tasks",
                 t.eval_tasks_interval);
    return;
  }
  if (family_of(config.model).architecture == Architecture::encoder) {
    fail_input(
        "train.eval_tasks scores the text that follows, and model.family = {:?} does not predict "
        "it: remove it",
        config.model.family);
  }
  if (config.data.tokenizer.empty())
    fail_input("train.eval_tasks needs data.tokenizer and its files: tasks are texts");
  if (config.run.device != DeviceKind::cpu) {
    fail_input(
        "train.eval_tasks evaluates on the devices of run.device = \"cpu\" only, not {:?}: leave it "
        "out, and evaluate checkpoints with `trireme eval --tasks`",
        config.run.device);
  }
}

void check_run_section(const Config& config) {
  if (config.run.dir.empty())
    fail_input("run.dir is empty: set it, for example to \"runs/my-run\"");
  if (!config.run.memory.empty()) parse_byte_size(config.run.memory, "run.memory");
  const ParallelConfig& p = config.parallel;
  if (p.recompute_layers > 0 && p.recompute != Recompute::full) {
    fail_input(
        "parallel.recompute_layers = {} requires parallel.recompute = \"full\", found {:?}: set "
        "recompute, or remove recompute_layers",
        p.recompute_layers, p.recompute);
  }
  if (p.distribute_saved_activations && p.recompute != Recompute::full) {
    fail_input(
        "parallel.distribute_saved_activations requires parallel.recompute = \"full\", which saves "
        "only the inputs of layers, found {:?}: set recompute to \"full\", or use "
        "parallel.sequence_parallel, which splits all saved activations",
        p.recompute);
  }
}

void check_numerics(const Config& config) {
  const Numerics numerics = config.parallel.numerics;
  if (config.parallel.exact() && config.run.precision == Precision::fp64) {
    fail_input(
        "parallel.numerics = {:?} sums 32-bit gradients and does not support run.precision = "
        "\"fp64\": use fast",
        numerics);
  }
  if (numerics == Numerics::portable && !config.model.linear_layers.empty()) {
    fail_input(
        "parallel.numerics = \"portable\" does not support model.linear_layers, whose decays come "
        "from the exponential of the C library: use numerics = \"exact\"");
  }
  if (numerics != Numerics::portable || config.run.device == DeviceKind::cpu) return;
  fail_input(
      "parallel.numerics = \"portable\" gives the same bits on every x86 processor with AVX2, and "
      "run.device = {:?} sums in another order: use run.device = \"cpu\", or numerics = \"exact\"",
      config.run.device);
}

}  // namespace

void refuse_for_device(const Config& config) {
  if (config.run.device == DeviceKind::cpu) return;
  if (config.run.precision == Precision::fp64)
    fail_input("run.precision = \"fp64\" requires run.device = \"cpu\"");
  for (const auto& [key, set] : {std::pair{"linear_layers", !config.model.linear_layers.empty()},
                                 {"attention_gate", config.model.attention_gate}}) {
    if (set)
      fail_input("model.{} runs on run.device = \"cpu\" only so far, not {:?}", key,
                 config.run.device);
  }
}

void validate(const Config& config) {
  validate(config.model);
  refuse_for_family(config);
  refuse_for_device(config);
  if (config.optimizer.qk_clip_threshold > 0 && config.run.device != DeviceKind::cpu) {
    fail_input(
        "optimizer.qk_clip_threshold = {} needs the largest attention logits, which only run.device "
        "= \"cpu\" reports, not {:?}: remove it",
        config.optimizer.qk_clip_threshold, config.run.device);
  }
  check_experts(config);
  check_fp8(config);
  check_run_section(config);
  check_numerics(config);
  check_batches(config);
  check_optimization(config);
  check_saving(config);
  check_offload(config);
  check_data(config.data);
  check_sources(config);
  check_tasks(config);
  check_curriculum(config);
  check_restarted_positions(config);
}

}  // namespace trireme
