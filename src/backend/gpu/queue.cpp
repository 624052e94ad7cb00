// Events and waits of GPU queues.
#include "backend/gpu/queue.h"

#include "backend/gpu/host_wait.h"

namespace trireme::gpu {
namespace {

void put(Event& event, runtime::Event made, runtime::Stream stream) {
  const auto native = std::shared_ptr<std::remove_pointer_t<runtime::Event>>(
      made, [](runtime::Event e) { runtime::destroy(e); });
  runtime::record(made, stream);
  event.native = native;
}

}  // namespace

void GpuQueue::record(Event& event) {
  put(event, runtime::make_event(), stream_);
}

void GpuQueue::record_timed(Event& event) {
  put(event, runtime::make_timed_event(), stream_);
}

double GpuQueue::seconds_between(const Event& begin, const Event& end) {
  return runtime::seconds_between(static_cast<runtime::Event>(begin.native.get()),
                                  static_cast<runtime::Event>(end.native.get()));
}

void GpuQueue::wait(const Event& event) {
  if (event.native) runtime::wait(static_cast<runtime::Event>(event.native.get()), stream_);
}

bool GpuQueue::has_passed(const Event& event) {
  return !event.native || runtime::has_passed(static_cast<runtime::Event>(event.native.get()));
}

void GpuQueue::synchronize() {
  wait_on_host(stream_);
}

}  // namespace trireme::gpu
