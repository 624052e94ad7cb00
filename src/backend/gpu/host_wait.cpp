// Waits by blocking in the driver, or by polling if a wait policy is set.
#include "backend/gpu/host_wait.h"

#include <atomic>

namespace trireme::gpu {
namespace {

std::atomic<WaitPolicy*> asked{nullptr};

}  // namespace

void set_wait_policy(WaitPolicy* policy) {
  asked = policy;
}

void wait_on_host(runtime::Event event) {
  WaitPolicy* const policy = asked;
  if (!policy) return runtime::synchronize(event);
  for (int round = 0; !runtime::make_progress(event); ++round) policy->waiting(round);
}

void wait_on_host(runtime::Stream stream) {
  if (!asked) return runtime::synchronize(stream);
  struct Mark {
    runtime::Event event = runtime::make_event();
    ~Mark() { runtime::destroy(event); }
  } mark;
  runtime::record(mark.event, stream);
  wait_on_host(mark.event);
}

}  // namespace trireme::gpu
