// Events of queues.
#include "backend/gpu/queue.h"

#include "backend/gpu/host_wait.h"

namespace trireme::gpu {

void GpuQueue::record(Event& event) {
  const auto native = std::shared_ptr<std::remove_pointer_t<runtime::Event>>(
      runtime::make_event(), [](runtime::Event e) { runtime::destroy(e); });
  runtime::record(native.get(), stream_);
  event.native = native;
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
