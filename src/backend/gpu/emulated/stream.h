// Streams and events of the emulated GPU. Work runs only when somebody waits for it and, with a
// seed, as late and as far out of order as events allow. Under ThreadSanitizer each stream is a
// separate racer: a missing wait is reported as a race in any execution order.
//
// All streams belong to one device. The functions are thread-safe (serialized by a lock).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace trireme::gpu::emulated {

struct Stream;  // made and destroyed below
// A point in a stream; an unrecorded event counts as passed.
struct Event;

Stream* make_stream();
void destroy_stream(Stream*);  // runs its pending work first
Event* make_event();
void destroy_event(Event*);

void enqueue(Stream*, std::function<void()> work);
// Enqueues work that may run only once `ready` returns true; the host polls it and it must not
// block. Until then the stream stalls, like one whose kernel waits for another GPU.
void enqueue_when(Stream*, std::function<bool()> ready, std::function<void()> work);
void record(Stream*, Event*);
void wait(Stream*, Event*);  // later work of the stream runs after the recorded point

void synchronize(Stream*);
void synchronize(Event*);
bool has_passed(Event*);
// Like has_passed(), after running whatever can run.
bool make_progress(Event*);

// While alive, a separate thread advances the streams as long as one has work that other GPUs make
// ready: they may wait for that work although no local thread does.
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

// 0: work runs in the order it was enqueued; else the seed picks among runnable work.
void set_stream_order(std::uint64_t seed);

}  // namespace trireme::gpu::emulated
