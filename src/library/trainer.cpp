// The public trainer: the internal one, with user-provided parts in place of configuration.
#include <trireme/trainer.h>

#include "base/error.h"
#include "library/impl.h"
#include "library/log_stream.h"
#include "train/run/setup.h"
#include "train/trainer.h"

namespace trireme::v1 {
namespace {

// Converts the options that the trainer needs before it opens any data.
trireme::TrainerOptions given(const TrainerOptions& options, const trireme::Config& config,
                              const std::function<std::int64_t()>& steps) {
  trireme::TrainerOptions result;
  result.note_signals = options.note_signals;
  if (options.learning_rate) {
    result.learning_rate = [rate = options.learning_rate, steps](const LrPlace& place) {
      return rate({place.step, steps(), place.samples, place.tokens, place.configured});
    };
  }
  if (!options.train_data && options.valid_data)
    fail_input("TrainerOptions::valid_data was given without train_data: give both or neither");
  if (!options.train_data) return result;
  trireme::Config known = config;
  resolve_vocabulary(known);
  result.train_data = adapt_dataset(options.train_data, known);
  if (options.valid_data) result.valid_data = adapt_dataset(options.valid_data, known);
  return result;
}

void check_device(const JoinedJob& job, const trireme::Config& config) {
  if (job.device() == config.run.device) return;
  fail_input(
      "run.device = \"{}\", but the job was created for \"{}\": create it from the same "
      "configuration, trireme::Job job(config)",
      config.run.device, job.device());
}

RunEnd end_of(TrainSummary::End end) {
  return end == TrainSummary::End::done      ? RunEnd::done
         : end == TrainSummary::End::stopped ? RunEnd::stopped
                                             : RunEnd::interrupted;
}

Summary public_summary(const TrainSummary& s) {
  return {s.steps, s.loss, s.valid_loss, s.tokens_per_second, s.seconds, end_of(s.end)};
}

}  // namespace

struct Trainer::Impl {
  Impl(Job& job, const Config& config, const TrainerOptions& options)
      : log((check_device(job.impl().joined, config.impl().config), options.log)),
        trainer(config.impl().config, log.file(),
                given(options, config.impl().config, [this] { return trainer.total_steps(); }),
                &job.impl().joined.transport()) {
    trainer.begin();
  }
  ~Impl() {
    if (finished) return;
    try {
      trainer.note_failure(trireme::Error(trireme::ExitCode::failed,
                                          "the program destroyed its trainer without finish()"));
    } catch (const std::exception&) {
    }
  }

  LogStream log;
  trireme::Trainer trainer;
  bool finished = false;
};

Trainer::Trainer(Job& job, const Config& config, TrainerOptions options)
    : impl_(at_the_border([&] { return std::make_unique<Impl>(job, config, options); })) {}

Trainer::~Trainer() = default;

std::int64_t Trainer::step() const {
  return impl_->trainer.step();
}
std::int64_t Trainer::steps() const {
  return impl_->trainer.total_steps();
}
std::int64_t Trainer::consumed_samples() const {
  return impl_->trainer.consumed_samples();
}
std::int64_t Trainer::consumed_tokens() const {
  return impl_->trainer.consumed_tokens();
}
std::int64_t Trainer::planned_bytes() const {
  return impl_->trainer.planned_bytes();
}
Config Trainer::config() const {
  return Config::parse(to_toml(impl_->trainer.config()), "the configuration of the trainer");
}

StepResult Trainer::train_step() {
  return at_the_border([&] {
    trireme::Trainer& t = impl_->trainer;
    const trireme::StepResult result = t.train_step();
    return StepResult{t.step(), result.loss.mean(), result.grad_norm, t.learning_rate(),
                      result.finite};
  });
}

double Trainer::evaluate() {
  return at_the_border([&] { return impl_->trainer.evaluate(); });
}

void Trainer::log(const std::vector<std::pair<std::string, double>>& metrics) {
  std::vector<Metric> line;
  for (const auto& [name, value] : metrics) line.push_back({name, value});
  impl_->trainer.log(line);
}

void Trainer::save() {
  at_the_border([&] { impl_->trainer.save(); });
}

bool Trainer::should_stop() {
  return at_the_border([&] { return !impl_->trainer.reason_to_stop().empty(); });
}

Summary Trainer::finish() {
  return at_the_border([&] {
    const Summary summary = public_summary(impl_->trainer.finish());
    impl_->finished = true;
    return summary;
  });
}

Summary Trainer::run() {
  return at_the_border([&] {
    const Summary summary = public_summary(impl_->trainer.run());
    impl_->finished = true;
    return summary;
  });
}

}  // namespace trireme::v1
