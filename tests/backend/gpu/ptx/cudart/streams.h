// Streams and events of the substitute. Work is deferred until it is waited for, so that it runs as
// late as the program allows: code that lacks a wait reads old data.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

namespace trireme::ptx {

struct StreamState {
  std::deque<std::function<void()>> work;
  std::uint64_t enqueued = 0, done = 0;  // pieces of work since the beginning
};

// An event has passed when its stream has completed `position` pieces of work.
struct EventState {
  std::shared_ptr<StreamState> stream;  // null: never recorded
  std::uint64_t position = 0;
};

void enqueue(StreamState& stream, std::function<void()> work);
// Orders all work that is enqueued to `stream` from now on after the event.
void wait_for(StreamState& stream, const EventState& event);
void run_until(StreamState& stream, std::uint64_t position);
inline void run_all(StreamState& stream) {
  run_until(stream, stream.enqueued);
}
inline bool has_passed(const EventState& event) {
  return !event.stream || event.stream->done >= event.position;
}

}  // namespace trireme::ptx
