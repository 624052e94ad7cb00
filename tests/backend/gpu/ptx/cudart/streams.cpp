// Lazily executed streams.
#include "backend/gpu/ptx/cudart/streams.h"

#include <utility>

namespace trireme::ptx {

void enqueue(StreamState& stream, std::function<void()> work) {
  stream.work.push_back(std::move(work));
  ++stream.enqueued;
}

void wait_for(StreamState& stream, const EventState& event) {
  if (has_passed(event)) return;
  enqueue(stream, [event] { run_until(*event.stream, event.position); });
}

void run_until(StreamState& stream, std::uint64_t position) {
  while (stream.done < position) {
    const auto work = std::move(stream.work.front());
    stream.work.pop_front();
    work();
    ++stream.done;
  }
}

}  // namespace trireme::ptx
