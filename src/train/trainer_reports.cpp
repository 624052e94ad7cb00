// Output of the trainer for users and tools.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/counted.h"
#include "base/divide.h"
#include "base/file.h"
#include "base/hash.h"
#include "graph/dump.h"
#include "runtime/devices.h"
#include "train/engine/weights_hash.h"
#include "train/run/ranks.h"
#include "train/run/setup.h"
#include "train/trainer_parts.h"

namespace trireme {

namespace {

std::string device_text(const Device& device) {
  const Target& target = device.target();
  if (target.device != DeviceKind::cpu) return "device " + device.name();
  return fmt::format("instruction set {}; {}", cpu::name_of(target.isa),
                     counted(ThreadPool::global().size(), "thread"));
}

// The first loss that is reported beside `loss`: without the loss of the next token where all
// others are of further tokens, because `loss` is that one.
std::size_t first_reported(std::span<const Loss> losses) {
  if (losses.size() < 2) return losses.size();
  return losses[1].unit == LossUnit::further_token ? 1 : 0;
}

// NaN for further tokens of which there were none to predict.
double mean_of(const LossSum::Part& part) {
  return part.aside && part.count == 0 ? NAN : part.mean();
}

void add_expert_metrics(std::vector<Metric>& line, const ExpertConfig& moe,
                        const ExpertLoad& load) {
  if (load.imbalance.empty()) return;
  if (moe.aux_loss_coeff > 0) line.push_back({"aux_loss", load.aux_loss});
  if (moe.z_loss_coeff > 0) line.push_back({"z_loss", load.z_loss});
  const auto& layers = load.imbalance;
  line.push_back({"expert_load_max", *std::ranges::max_element(layers)});
  line.push_back({"expert_load_mean", std::accumulate(layers.begin(), layers.end(), 0.0) /
                                          static_cast<double>(layers.size())});
  if (moe.capacity_factor > 0) line.push_back({"dropped_choices", load.dropped});
}

}  // namespace

void Trainer::Parts::print_plan() {
  const ModelConfig& m = config.model;
  std::string text = fmt::format(
      "model: {} with {}, hidden {}, {}, {} positions, vocabulary {} ({} computed)\n"
      "parameters: {}; precision {}; {}\n",
      m.family, counted(m.num_layers, "layer"), m.hidden_size, counted(m.num_heads, "head"),
      m.seq_length, m.vocab_size,
      padded_vocabulary(
          m, static_cast<int>(std::max(config.parallel.tp, config.parallel.exact_leaves))),
      parameter_count(m), precision_text(config), device_text(device_of(config.run.device)));
  if (rank.size > 1) {
    text += fmt::format("mesh: {}; ZeRO {}, {} numerics\n", engine.mesh().text(),
                        config.parallel.zero, config.parallel.numerics);
  }
  if (curriculum.active()) {
    text += fmt::format("sequence length: {} tokens at first, {} from iteration {}\n",
                        curriculum.length(0), m.seq_length, config.curriculum.iters);
  }
  if (config.parallel.pp > 1) {
    const std::int64_t m0 = batches.micro_batches(0);
    const PlannedSchedule& planned = engine.schedule(m0);
    text += fmt::format("schedule: {}\n", trireme::summary(planned.schedule, planned.report));
  }
  text += fmt::format("memory, planned{}:\n{}", rank.size > 1 ? " on rank 0" : "",
                      to_text(planned_memory(engine, config)));
  for (const auto& [place, where] :
       {std::pair{OffloadPlace::file, fmt::format("in a file in '{}'", config.offload.path)},
        {OffloadPlace::host, "in host memory"}}) {
    const StoredBytes stored = engine.stored(place);
    for (const auto& [what, bytes] : {std::pair{"optimizer states", stored.states},
                                      {"parameters", stored.parameters},
                                      {"activations", stored.activations}})
      if (bytes > 0) text += fmt::format("{}: {} {}\n", what, bytes_to_text(bytes), where);
  }
  for (const std::string& note : layout_notes(config, rank.size))
    text += fmt::format("note: {}\n", note);
  if (config.model.init_std == 0)
    text +=
        "note: model.init_std = 0 initializes all weights to equal values, so the model cannot "
        "learn\n";
  if (config.train.eval_iters == 0 && config.train.eval_interval > 0) {
    text += fmt::format(
        "note: train.eval_iters = 0 disables validation, although train.eval_interval is {}\n",
        config.train.eval_interval);
  }
  const auto notes = device_of(config.run.device).notes();
  for (const DeviceNote& note : notes)
    if (!note.is_fault) text += fmt::format("note: {}\n", note.text);
  if (text.ends_with('\n')) text.pop_back();
  console.print(text);
  for (const DeviceNote& note : notes)
    if (note.is_fault) console.warn(note.text);
}

void Trainer::Parts::write_status(const std::string& state, const std::string& reason,
                                  bool durable) {
  folder.write_status({state, step, total_steps, checkpoints.saved_step(), reason,
                       transport ? transport->place().size : 1, checkpoints.locally_saved_step(),
                       checkpoints.locally_copied_step()},
                      durable);
}

void Trainer::Parts::after_step() {
  std::vector<Metric> line = {
      {"loss", std::isfinite(last.loss.words().sum) ? last.loss.mean() : NAN},
      {"lr", last_lr},
      {"grad_norm", last.grad_norm},
      {"consumed_samples", consumed_samples},
      {"consumed_tokens", consumed_tokens}};
  if (curriculum.active()) line.push_back({"seq_length", engine.length()});
  if (config.optimizer.qk_clip_threshold > 0 && last.taken)
    line.push_back({"largest_attention_logit", last.largest_score});
  for (std::size_t i = first_reported(losses); i < losses.size(); ++i)
    line.push_back({losses[i].metric, last.finite ? mean_of(last.loss.parts[i]) : NAN});
  add_expert_metrics(line, config.model.moe, last.experts);
  if (config.run.precision == Precision::fp16) {
    line.push_back({"loss_scale", loss_scale.scale()});
    line.push_back({"skipped_steps", skipped});
  }
  if (config.run.precision != Precision::fp16 && spikes.active())
    line.push_back({"skipped_steps", skipped});
  if (rolled_back_to >= 0) line.push_back({"went_back_to", rolled_back_to});
  std::string hash;  // must outlive the line, which refers to it
  if (const std::int64_t every = config.train.hash_interval; every > 0 && step % every == 0) {
    hash = hash_to_text(weights_hash(engine, transport));
    line.push_back({"parameter_hash", std::string_view(hash)});
  }
  folder.write_metrics(step, line);
  folder.write_timings(step,
                       std::vector<Metric>{{"seconds", last_seconds},
                                           {"tokens_per_second", last_tokens / last_seconds}});
  console.debug(
      fmt::format("step {}: samples {} to {}, loss {:.6g}, {:.3f} s, {:.3f} s of it waiting", step,
                  consumed_samples - last_samples, consumed_samples - 1, last.loss.mean(),
                  last_seconds, last_waited));
  progress->tick(step, last.loss.mean());
}

// TensorBoard stores integers as floats, and no texts.
void Trainer::Parts::log(std::span<const Metric> metrics) {
  if (!leads()) return;
  folder.write_metrics(step, metrics);
  std::vector<Scalar> scalars;
  for (const Metric& metric : metrics) {
    if (const auto* number = std::get_if<double>(&metric.value))
      scalars.push_back({std::string(metric.name), *number});
    else if (const auto* whole = std::get_if<std::int64_t>(&metric.value))
      scalars.push_back({std::string(metric.name), static_cast<double>(*whole)});
  }
  folder.write_scalars(step, consumed_samples, scalars);
}

std::int64_t Trainer::Parts::next_report() const {
  return std::min(total_steps, round_up(step + 1, config.train.log_interval));
}

void Trainer::Parts::report_first_step() {
  console.print_now(fmt::format("step {}/{} took {:.3g} s, loss {:.4f}; the next line is step {}",
                                step, total_steps, last_seconds, last.loss.mean(), next_report()));
}

void Trainer::Parts::report() {
  if (interval.steps == 0) return;
  ProgressReport r;
  r.iteration = step;
  r.iterations = total_steps;
  r.loss = interval.loss.words().count > 0 ? interval.loss.mean() : NAN;
  r.devices = rank.size;
  for (std::size_t i = first_reported(losses); i < losses.size(); ++i)
    r.parts.emplace_back(losses[i].word, mean_of(interval.loss.parts[i]));
  r.lr = last_lr;
  r.grad_norm = last.grad_norm;
  r.tokens_per_second = interval.tokens / interval.seconds;
  r.samples_per_second = interval.samples / interval.seconds;
  ModelConfig now = config.model;
  now.seq_length = engine.length();
  r.flops_per_second = r.tokens_per_second * training_flops_per_token(now) / rank.size;
  r.peak_flops = config.run.peak_tflops > 0 ? config.run.peak_tflops * 1e12 : options.peak_flops;
  r.memory_bytes = static_cast<std::uint64_t>(peak_resident_bytes());
  r.seconds_per_iteration = interval.seconds / static_cast<double>(interval.steps);
  if (config.run.precision == Precision::fp16) r.loss_scale = loss_scale.scale();
  r.skipped = interval.skipped;
  progress->report(r);
  std::vector<Scalar> scalars = {
      {losses[0].scalar, interval.loss.words().mean()},
      {"learning-rate", r.lr},
      {"grad-norm", r.grad_norm},
      {"loss-scale", loss_scale.scale()},
      {"batch-size", static_cast<double>(batches.batch_size(consumed_samples))},
      {"iteration-time", r.seconds_per_iteration},
      {"throughput", r.flops_per_second / 1e12},
      {"world-size", static_cast<double>(rank.size)}};
  if (config.optimizer.qk_clip_threshold > 0)
    scalars.push_back({"max_attention_logit", last.largest_score});
  for (std::size_t i = 1; i < losses.size(); ++i)
    scalars.push_back({losses[i].scalar, mean_of(interval.loss.parts[i])});
  folder.write_scalars(step, consumed_samples, scalars);
  if (leads()) write_status("running", "", false);
  name_slow_ranks();
  interval = {};
}

// Sends two numbers per rank, and a host name only if there is one to report.
void Trainer::Parts::name_slow_ranks() {
  if (rank.size == 1) return;
  const auto steps = static_cast<double>(interval.steps);
  const double mine[] = {interval.own_seconds / steps, interval.seconds / steps};
  std::vector<double> all(2 * static_cast<std::size_t>(rank.size));
  transport->world().all_gather(mine, all.data(), 2, DType::f64, "own times of ranks").wait();
  std::vector<double> seconds;
  std::vector<int> stages;
  for (int r = 0; r < rank.size; ++r) {
    seconds.push_back(all[2 * static_cast<std::size_t>(r)]);
    stages.push_back(engine.mesh().place_of(r).pp);
  }
  // All ranks use rank 0's clock, because they must agree.
  const std::optional<SlowRank> slow = slow_ranks.judge(seconds, stages, all[1], interval.steps);
  if (!slow) return;
  const std::vector<std::string> hosts =
      reports_of_ranks(transport, rank.rank == slow->rank ? transport->place().host : "");
  if (leads()) {
    const std::string& host = hosts[static_cast<std::size_t>(slow->rank)];
    console.warn_now(to_text(*slow, host));
  }
}

// Starts and stops recording of the steps given by train.trace_steps.
void Trainer::Parts::trace(bool ended) {
  const auto& steps = config.train.trace_steps;
  if (steps.empty()) return;
  if (!recording && step + 1 >= steps.front() && step < steps.back() && !ended) {
    recording.emplace(rank.rank, [this](Trace* trace) {
      engine.set_trace(trace);
      if (transport) transport->set_listener(trace);
    });
  }
  if (recording && (ended || step >= steps.back())) {
    const std::vector<std::string> parts = reports_of_ranks(transport, recording->json());
    recording.reset();
    if (!leads()) return;
    const fs::path path = folder.path() / "trace.json";
    folder.write("trace.json", [&] {
      write_file_durably(path, fmt::format("[\n{}\n]\n", fmt::join(parts, ",\n")));
      console.print_now(fmt::format("trace of steps up to {} in {}", step, path.string()));
    });
  }
}

void Trainer::dump_graphs(const std::string& folder) const {
  const Engine& engine = parts_->engine;
  const int rank = parts_->rank.rank;
  // Ranks with the same stages have the same graphs.
  if (engine.mesh().place_of(rank).tp > 0 || engine.mesh().dp_index(rank) > 0) return;
  make_folders(folder);
  for (int c = 0; c < engine.chunks(); ++c) {
    const Stage& stage = engine.stage(c);
    const std::string prefix =
        engine.stages() > 1 ? fmt::format("stage{}_", engine.stage_number(c)) : "";
    const auto& templates = stage.definition().templates;
    for (std::size_t t = 0; t < templates.size(); ++t) {
      const Graph& graph = *templates[t].train;
      const std::string title = prefix + (graph.input() == no_value    ? "embedding"
                                          : graph.output() == no_value ? "head"
                                                                       : fmt::format("block{}", t));
      const SegmentPlan& plan = stage.segment_plan(static_cast<int>(t), true);
      write_file_durably(fs::path(folder) / (title + ".txt"), dump_text(graph, plan, title));
      write_file_durably(fs::path(folder) / (title + ".dot"), dump_dot(graph, plan, title));
    }
  }
}

}  // namespace trireme
