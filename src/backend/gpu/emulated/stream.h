// Streams and events of the emulated GPU. Work runs only when somebody waits for it, and with a
// seed as late and as far out of order as the events allow. Under ThreadSanitizer each stream is a
// racer of its own: a missing wait is a reported race whatever order happened to run.
//
// All of it is one device. Its functions may be called by any thread, one at a time by a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace trireme::gpu::emulated {

struct Stream;  // made and destroyed below
// A point in a stream; until it is recorded it has passed.
struct Event;

Stream* make_stream();
void destroy_stream(Stream*);  // runs what it holds
Event* make_event();
void destroy_event(Event*);

void enqueue(Stream*, std::function<void()> work);
// Work that can run only when `ready`, which the host asks and which waits for nothing, says so:
// until then the stream stands still, as one does whose kernel waits for another GPU.
void enqueue_when(Stream*, std::function<bool()> ready, std::function<void()> work);
void record(Stream*, Event*);
void wait(Stream*, Event*);  // later work of the stream comes after what the event has recorded

void synchronize(Stream*);
void synchronize(Event*);
bool has_passed(Event*);
// The same, after whatever can run before it has.
bool make_progress(Event*);

// While it lives, streams advance in a thread of its own as long as one of them holds work that
// other GPUs make ready: those may wait for what it does, though nobody here does.
class Drive {
 public:
  Drive();
  ~Drive();
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

 private:
  void run();

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// 0: work runs in the order in which it was enqueued; else the seed picks among what may run.
void set_stream_order(std::uint64_t seed);

}  // namespace trireme::gpu::emulated
