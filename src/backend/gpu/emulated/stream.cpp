// Work queues, driven by the threads that wait for them.
#include "backend/gpu/emulated/stream.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/gpu/emulated/block.h"
#include "backend/gpu/emulated/context.h"
#include "backend/gpu/emulated/memory.h"

namespace trireme::gpu::emulated {

// An event refers to a point in a stream. Waits keep the mark that was current at the call, so that
// the event may be recorded again.
struct Mark {
  std::uint64_t position = 0;  // passed once the stream has done this many pieces of work
  Stream* stream = nullptr;
  std::shared_ptr<char> order = std::make_shared<char>();  // its identity for the race checker
};

struct Event {
  Mark mark;
};

namespace {

constexpr std::chrono::microseconds nap{100};  // while other GPUs have not done their part

struct Work {
  std::function<void()> body;
  Mark waits;                     // stream null: no wait
  std::function<bool()> ready;    // null: always
  std::shared_ptr<char> records;  // null: nothing
  std::uint64_t number = 0;       // among all work of the device
  // The host's state when the work was enqueued, as seen by the race checker.
  std::shared_ptr<char> issue = std::make_shared<char>();
};

}  // namespace

struct Stream {
  std::deque<Work> work;
  std::uint64_t issued = 0, done = 0;
  char end = 0;     // order between this stream and a host that waits for it
  Context context;  // separate, or two streams would seem to race for addresses
};

namespace {

struct Streams {
  std::recursive_mutex mutex;  // an emulated collective calls stream functions while one runs
  std::vector<Stream*> all;
  std::uint64_t issued = 0;
  std::uint64_t conditional = 0;  // pieces of work that other GPUs make ready
  std::uint64_t order = 0;
  Context host;
  const std::function<void()>* body = nullptr;
  Stream* current = nullptr;
};
Streams& streams = *new Streams;

TRIREME_UNCHECKED void stream_main() {
  for (;;) {
    (*streams.body)();
    switch_context(streams.current->context, streams.host);
  }
}

TRIREME_UNCHECKED void run(Stream& stream, Work& work) {
  const Bookkeeping bookkeeping;
  // On the heap, like the work: the host has written to this stack's memory before.
  const auto body = std::make_unique<const std::function<void()>>([&] {
    begin_bookkeeping();
    acquire(work.issue.get());
    if (work.waits.stream) acquire(work.waits.order.get());
    if (work.body) {
      const DeviceAccess access;
      end_bookkeeping();
      work.body();
      begin_bookkeeping();
    }
    if (work.records) release(work.records.get());
    release(&stream.end);
    end_bookkeeping();
  });
  streams.body = body.get();
  streams.current = &stream;
  streams.host.racer = this_racer();
  end_bookkeeping();
  switch_context(streams.host, stream.context);
  begin_bookkeeping();
}

bool may_run(const Stream& stream) {
  if (stream.work.empty()) return false;
  const Work& next = stream.work.front();
  const bool marked = !next.waits.stream || next.waits.stream->done >= next.waits.position;
  return marked && (!next.ready || next.ready());
}

bool waits_for_other_gpus(const Stream* stream) {
  return !stream->work.empty() && stream->work.front().ready;
}

// Null: all streams stall until another GPU makes progress.
Stream* pick() {
  std::vector<Stream*> able;
  std::copy_if(streams.all.begin(), streams.all.end(), std::back_inserter(able),
               [](const Stream* s) { return may_run(*s); });
  if (able.empty()) {
    if (std::any_of(streams.all.begin(), streams.all.end(), waits_for_other_gpus)) return nullptr;
    stop("streams wait for each other");
  }
  if (streams.order) {
    streams.order ^= streams.order << 13, streams.order ^= streams.order >> 7,
        streams.order ^= streams.order << 17;
    return able[streams.order % able.size()];
  }
  return *std::min_element(able.begin(), able.end(), [](const Stream* a, const Stream* b) {
    return a->work.front().number < b->work.front().number;
  });
}

using Lock = std::unique_lock<std::recursive_mutex>;

bool run_one() {
  Stream* const next = pick();
  if (!next) return false;
  const auto work = std::make_unique<Work>(std::move(next->work.front()));
  next->work.pop_front();
  run(*next, *work);
  ++next->done;
  if (work->ready) --streams.conditional;
  return true;
}

void run_until(const Stream& stream, std::uint64_t position, Lock& lock) {
  while (stream.done < position) {
    if (run_one()) continue;
    lock.unlock();
    std::this_thread::sleep_for(nap);
    lock.lock();
  }
}

void push(Stream& stream, Work work) {
  release(work.issue.get());
  work.number = streams.issued++;
  ++stream.issued;
  stream.work.push_back(std::move(work));
}

}  // namespace

Stream* make_stream() {
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  auto* const stream = new Stream;
  stream->context.start(stream_main);
  stream->context.racer = new_racer();  // ordered after the host's work until now, and no more
  streams.all.push_back(stream);
  return stream;
}

void destroy_stream(Stream* stream) {
  synchronize(stream);
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  std::erase(streams.all, stream);
  delete stream;
}

Event* make_event() {
  return new Event;
}

void destroy_event(Event* event) {
  delete event;
}

void enqueue(Stream* stream, std::function<void()> work) {
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  Work one;
  one.body = std::move(work);
  push(*stream, std::move(one));
}

void enqueue_when(Stream* stream, std::function<bool()> ready, std::function<void()> work) {
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  Work one;
  one.ready = std::move(ready);
  one.body = std::move(work);
  ++streams.conditional;
  push(*stream, std::move(one));
}

void record(Stream* stream, Event* event) {
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  event->mark.order = std::make_shared<char>();
  Work one;
  one.records = event->mark.order;
  push(*stream, std::move(one));
  event->mark.stream = stream;
  event->mark.position = stream->issued;
}

void wait(Stream* stream, Event* event) {
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  if (!event->mark.stream) return;
  Work one;
  one.waits = event->mark;
  push(*stream, std::move(one));
}

void synchronize(Stream* stream) {
  const Bookkeeping bookkeeping;
  Lock lock(streams.mutex);
  run_until(*stream, stream->issued, lock);
  acquire(&stream->end);
}

void synchronize(Event* event) {
  const Bookkeeping bookkeeping;
  Lock lock(streams.mutex);
  if (!event->mark.stream) return;
  run_until(*event->mark.stream, event->mark.position, lock);
  acquire(event->mark.order.get());
}

bool has_passed(Event* event) {
  const Bookkeeping bookkeeping;
  const Lock lock(streams.mutex);
  if (!event->mark.stream) return true;
  if (event->mark.stream->done < event->mark.position) return false;
  acquire(event->mark.order.get());
  return true;
}

bool make_progress(Event* event) {
  {
    const Bookkeeping bookkeeping;
    const Lock lock(streams.mutex);
    const Mark& mark = event->mark;
    while (mark.stream && mark.stream->done < mark.position && run_one()) {
    }
  }
  return has_passed(event);
}

Drive::Drive() : thread_([this] { run(); }) {}

Drive::~Drive() {
  stop_ = true;
  thread_.join();
}

// Runs a few pieces of work at a time, so that the host gets the lock in between.
void Drive::run() {
  constexpr int at_a_time = 8;
  while (!stop_) {
    {
      const Bookkeeping bookkeeping;
      const Lock lock(streams.mutex);
      for (int i = 0; i < at_a_time && streams.conditional > 0 && run_one(); ++i) {
      }
    }
    std::this_thread::sleep_for(nap);
  }
}

void set_stream_order(std::uint64_t seed) {
  const Lock lock(streams.mutex);
  streams.order = seed;
}

}  // namespace trireme::gpu::emulated
