// The public job: a transport and its device.
#include <trireme/job.h>

#include <atomic>
#include <cstdio>

#include "base/error.h"
#include "library/impl.h"
#include "train/run/ranks.h"

namespace trireme::v1 {
namespace {

// MPI can be initialized only once per process.
void refuse_second_job() {
  static std::atomic<bool> joined = false;
  const LaunchInfo launch = discover_launch();
  if (launch.size > 1 && joined.exchange(true)) {
    fail_input(
        "this is one of {} processes started by {}, and it has already created a job, which MPI "
        "allows only once: create one trireme::Job and keep it as long as the program trains",
        launch.size, launch.launcher);
  }
}

std::unique_ptr<Job::Impl> join(DeviceKind device, double timeout_s) {
  refuse_second_job();
  auto impl = std::make_unique<Job::Impl>(Job::Impl{JoinedJob(device, timeout_s)});
  if (impl->alone())
    impl->joined.choose_device();  // otherwise run() does, where one process prints for all
  return impl;
}

}  // namespace

Job::Job() : Job(Config()) {}

Job::Job(const Config& config)
    : impl_(at_the_border([&] {
        const trireme::Config& c = config.impl().config;
        return join(c.run.device, c.train.timeout_s);
      })) {}

Job::~Job() = default;

int Job::rank() const {
  return impl_->joined.transport().place().rank;
}
int Job::size() const {
  return impl_->joined.transport().place().size;
}
int Job::local_rank() const {
  return impl_->joined.transport().place().local_rank;
}

void Job::run(const std::function<void()>& body) {
  at_the_border([&] {
    if (impl_->left)
      fail_input("Job::run was already called, and this process has left the job with the others");
    if (impl_->alone()) return body();
    run_guarded(impl_->joined.transport(), [&] {
      impl_->joined.choose_device();
      try {
        body();
      } catch (const v1::Error& error) {  // passes its exit code to the whole job
        throw trireme::Error(static_cast<trireme::ExitCode>(error.code()), error.what());
      }
    });
    impl_->left = true;
  });
}

double Job::sum(double value) {
  return sum(std::vector<double>{value}).front();
}

std::vector<double> Job::sum(std::vector<double> values) {
  impl_->world()
      .all_reduce(values.data(), static_cast<std::int64_t>(values.size()), DType::f64,
                  Reduction::sum, "a sum of the program")
      .wait();
  return values;
}

double Job::max(double value) {
  impl_->world()
      .all_reduce(&value, 1, DType::f64, Reduction::max, "a maximum of the program")
      .wait();
  return value;
}

std::vector<double> Job::gather(double value) {
  std::vector<double> all(static_cast<std::size_t>(size()));
  impl_->world().all_gather(&value, all.data(), 1, DType::f64, "a value of the program").wait();
  return all;
}

std::string Job::broadcast(const std::string& text) {
  return from_rank_0(&impl_->joined.transport(), text);
}

void Job::barrier() {
  impl_->world().barrier("a barrier of the program").wait();
}

int run_program(const std::function<void()>& body) {
  const auto report = [](const char* message, int code) {
    if (*message) std::fprintf(stderr, "trireme: %s\n", message);
    return code;
  };
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return report(error.what(), static_cast<int>(error.code()));
  } catch (const std::exception& error) {
    return report(error.what(), static_cast<int>(ExitCode::failed));
  }
}

}  // namespace trireme::v1
