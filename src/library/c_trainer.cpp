// The C interface: jobs and trainers.
#include <trireme/job.h>
#include <trireme/trainer.h>

#include <exception>

#include "base/as_error.h"
#include "base/counted.h"
#include "library/c_handles.h"
#include "train/watch/interrupt.h"

struct trireme_job {
  explicit trireme_job(const trireme::v1::Config& config) : job(config) {}
  trireme::v1::Job job;
  trireme::JoinedJob& joined() { return job.impl().joined; }
  bool alone() { return job.impl().alone(); }
};

struct trireme_trainer {
  trireme::v1::Trainer trainer;
};

namespace trireme::c {
namespace {

class SamplesOfProgram final : public v1::Dataset {
 public:
  explicit SamplesOfProgram(const trireme_samples_of_program& samples)
      : samples_(samples), identity_(samples.identity ? samples.identity : "") {}

  std::int64_t size() const override { return samples_.size; }
  std::string identity() const override { return identity_; }
  void fill(std::int64_t index, v1::Sample& sample) const override {
    const trireme_sample pointers{static_cast<std::int64_t>(sample.tokens.size()),
                                  sample.tokens.data(),
                                  sample.targets.data(),
                                  sample.loss_weights.data(),
                                  sample.positions.data(),
                                  sample.first_visible.data()};
    if (samples_.fill(samples_.user, index, &pointers) != 0)
      fail("the program could not create sample {}", index);
  }

 private:
  const trireme_samples_of_program samples_;
  const std::string identity_;
};

std::shared_ptr<const v1::Dataset> dataset_of(const trireme_samples_of_program* samples) {
  return samples ? std::make_shared<SamplesOfProgram>(*samples) : nullptr;
}

v1::TrainerOptions trainer_options(const trireme_trainer_options* given) {
  v1::TrainerOptions options;
  if (!given) return options;
  if (given->size != sizeof(trireme_trainer_options))
    fail_input("trireme_trainer_options has {}, but this library supports {}",
               counted(given->size, "byte"), sizeof(trireme_trainer_options));
  options.train_data = dataset_of(given->train_data);
  options.valid_data = dataset_of(given->valid_data);
  options.note_signals = given->note_signals != 0;
  void* const user = given->user;
  if (given->log) {
    options.log = [log = given->log, user](std::string_view line) {
      log(user, std::string(line).c_str());
    };
  }
  if (given->learning_rate) {
    options.learning_rate = [rate = given->learning_rate, user](const v1::ScheduleInput& at) {
      return rate(user, at.step, at.steps, at.samples, at.tokens, at.configured);
    };
  }
  return options;
}

trireme_summary summary_of(const v1::Summary& s) {
  return {s.steps,      s.loss,
          s.valid_loss, s.tokens_per_second,
          s.seconds,    static_cast<std::int32_t>(s.end)};
}

// On failure one of several processes reports the error, and all end.
void choose_device(trireme_job& job) {
  try {
    job.joined().choose_device();
  } catch (const std::exception& caught) {
    const Error error = as_error(caught);
    job.joined().transport().abort(static_cast<int>(error.code()), error.what());
  }
}

}  // namespace
}  // namespace trireme::c

using namespace trireme::c;

trireme_status trireme_job_open(const trireme_config* config, trireme_job** job) {
  return guarded([&] {
    auto made = std::make_unique<trireme_job>(config ? config->config : trireme::v1::Config());
    if (!made->alone()) choose_device(*made);  // otherwise the job has already done it
    *job = made.release();
  });
}

int32_t trireme_job_rank(const trireme_job* job) {
  return job->job.rank();
}
int32_t trireme_job_size(const trireme_job* job) {
  return job->job.size();
}
int32_t trireme_job_local_rank(const trireme_job* job) {
  return job->job.local_rank();
}

trireme_status trireme_job_sum(trireme_job* job, double* values, size_t count) {
  return guarded([&] {
    const std::vector<double> sums = job->job.sum(std::vector<double>(values, values + count));
    std::copy(sums.begin(), sums.end(), values);
  });
}

trireme_status trireme_job_gather(trireme_job* job, double value, double* all) {
  return guarded([&] {
    const std::vector<double> values = job->job.gather(value);
    std::copy(values.begin(), values.end(), all);
  });
}

trireme_status trireme_job_barrier(trireme_job* job) {
  return guarded([&] { job->job.barrier(); });
}

trireme_status trireme_job_leave(trireme_job* job) {
  return guarded([&] {
    if (!job->alone() && !std::exchange(job->job.impl().left, true))
      job->joined().transport().leave();
  });
}

void trireme_job_abort(trireme_job* job, int32_t code, const char* message) {
  if (!job->alone() && !job->job.impl().left)
    job->joined().transport().abort(code, message ? message : "");
}

void trireme_job_close(trireme_job* job) {
  delete job;
}

trireme_status trireme_trainer_open(trireme_job* job, const trireme_config* config,
                                    const trireme_trainer_options* options,
                                    trireme_trainer** trainer) {
  return guarded([&] {
    *trainer = new trireme_trainer{
        trireme::v1::Trainer(job->job, config->config, trainer_options(options))};
  });
}

trireme_status trireme_trainer_step(trireme_trainer* trainer, trireme_step* result) {
  return guarded([&] {
    const trireme::v1::StepResult r = trainer->trainer.train_step();
    *result = {r.step, r.loss, r.grad_norm, r.learning_rate, r.finite ? 1 : 0};
  });
}

trireme_status trireme_trainer_evaluate(trireme_trainer* trainer, double* loss) {
  return guarded([&] { *loss = trainer->trainer.evaluate(); });
}

trireme_status trireme_trainer_save(trireme_trainer* trainer) {
  return guarded([&] { trainer->trainer.save(); });
}

trireme_status trireme_trainer_should_stop(trireme_trainer* trainer, int32_t* stop) {
  return guarded([&] { *stop = trainer->trainer.should_stop() ? 1 : 0; });
}

trireme_status trireme_trainer_log(trireme_trainer* trainer, const char* const* names,
                                   const double* values, size_t count) {
  return guarded([&] {
    const std::vector<std::string> texts = texts_of(names, count);
    std::vector<std::pair<std::string, double>> metrics;
    for (std::size_t i = 0; i < count; ++i) metrics.emplace_back(texts[i], values[i]);
    trainer->trainer.log(metrics);
  });
}

void trireme_trainer_progress(const trireme_trainer* trainer, trireme_progress* progress) {
  const trireme::v1::Trainer& t = trainer->trainer;
  *progress = {t.step(), t.steps(), t.consumed_samples(), t.consumed_tokens(), t.planned_bytes()};
}

trireme_status trireme_trainer_config(const trireme_trainer* trainer, trireme_config** config) {
  return guarded([&] { *config = new trireme_config{trainer->trainer.config()}; });
}

trireme_status trireme_trainer_finish(trireme_trainer* trainer, trireme_summary* summary) {
  return guarded([&] { *summary = summary_of(trainer->trainer.finish()); });
}

trireme_status trireme_trainer_run(trireme_trainer* trainer, trireme_summary* summary) {
  return guarded([&] {
    const trireme::InterruptGuard guard;
    *summary = summary_of(trainer->trainer.run());
  });
}

void trireme_trainer_close(trireme_trainer* trainer) {
  delete trainer;
}
