// Runs the threads of one block in turns.
#include "backend/gpu/emulated/block.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace trireme::gpu::emulated {

Running running;

namespace {

struct Shared {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{128}); }
  };
  std::unique_ptr<std::byte[], Free> bytes;
  std::size_t size = 0;
  std::uint64_t block = 0;  // block that owns the memory

  // Reallocated for each block, so that the race checker sees no history, and filled with NaN, so
  // that reads of unwritten memory show up in the result.
  std::byte* of_block(std::uint64_t number, std::size_t wanted) {
    if (number == block && wanted == size) return bytes.get();
    if (TRIREME_RACE_CHECKER || wanted != size) bytes.reset();
    if (!bytes) bytes.reset(new (std::align_val_t{128}) std::byte[wanted]);
    std::memset(bytes.get(), 0xff, wanted);
    size = wanted;
    block = number;
    return bytes.get();
  }
};

// Threads that can run, in the order in which they became runnable. A ring of fixed size, because a
// std::deque would allocate and free as it moves through memory.
class ReadyThreads {
 public:
  static constexpr unsigned most = 1024;  // threads of a block

  bool empty() const { return count_ == 0; }
  unsigned count() const { return count_; }
  Thread*& at(unsigned place) { return ring_[(first_ + place) % most]; }
  void push(Thread* thread) { at(count_++) = thread; }
  Thread* pop() {
    Thread* const thread = at(0);
    ++first_, --count_;
    return thread;
  }

 private:
  std::array<Thread*, most> ring_;
  unsigned first_ = 0, count_ = 0;
};

// State that outlives a block: contexts, and shared memory by its declaration.
struct Machine {
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Wave>> waves;
  Context launcher;
  ReadyThreads ready;
  Barrier block;
  int live = 0;
  const std::function<void()>* body = nullptr;
  std::uint64_t block_number = 0;  // over all blocks so far
  std::vector<Shared> shared;
  Shared dynamic;
  std::size_t dynamic_bytes = 0;
  std::uint64_t order = 0;
  std::size_t first_context = 0;  // for the next block
  char begin = 0, end = 0;        // ordering of launches
};
Machine& machine = *new Machine;  // contexts may be alive when the process ends

Thread* next_ready() {
  if (machine.order) {
    machine.order ^= machine.order << 13, machine.order ^= machine.order >> 7,
        machine.order ^= machine.order << 17;
    std::swap(machine.ready.at(0),
              machine.ready.at(static_cast<unsigned>(machine.order % machine.ready.count())));
  }
  return machine.ready.pop();
}

void continue_with(Thread* next) {
  Thread* const self = running.thread;
  if (next == self) return;
  running.thread = next;
  switch_context(self->context, next->context);
}

void release_all(Barrier& barrier) {
  barrier.arrived = 0;
  for (Thread* const thread : barrier.waiting) machine.ready.push(thread);
  barrier.waiting.clear();
}

bool same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() && a.file_name() == b.file_name();
}

template <class Complete>
void arrive_and_wait(Barrier& barrier, const Place& place, bool orders_memory,
                     const Complete& complete) {
  if (barrier.arrived == 0) barrier.place = place;
  if (&barrier == &machine.block && !same(barrier.place, place))
    stop("threads of one block wait at different barriers");
  if (orders_memory) release(&barrier);
  if (++barrier.arrived == barrier.expected) {
    complete();
    release_all(barrier);
    if (machine.order) {  // let another thread go first
      machine.ready.push(running.thread);
      continue_with(next_ready());
    }
  } else {
    barrier.waiting.push_back(running.thread);
    if (machine.ready.empty()) stop("some threads never come to where the others wait");
    continue_with(next_ready());
  }
  if (orders_memory) acquire(&barrier);
}

// A thread has returned from the kernel: barriers of the waiting ones may now be complete.
void leave(Barrier& barrier) {
  if (--barrier.expected > 0 && barrier.arrived == barrier.expected) release_all(barrier);
}

TRIREME_UNCHECKED void thread_main() {
  begin_bookkeeping();
  for (;;) {
    acquire(&machine.begin);
    end_bookkeeping();
    (*machine.body)();
    begin_bookkeeping();
    release(&machine.end);
    Thread& self = *running.thread;
    leave(self.wave->barrier);
    leave(machine.block);
    Context& next = --machine.live == 0     ? machine.launcher
                    : machine.ready.empty() ? (stop("threads are left over"), machine.launcher)
                                            : (running.thread = next_ready())->context;
    end_bookkeeping();  // for this racer; the next block has another
    switch_context(self.context, next);
    begin_bookkeeping();
  }
}

// Under the race checker, neighboring blocks and launches use different contexts, since data left
// on a stack belong to its racer.
std::size_t context_count(unsigned threads) {
  constexpr std::size_t pool = 1021;
  return TRIREME_RACE_CHECKER ? std::max<std::size_t>(pool, threads) : threads;
}

void run_block(unsigned threads) {
  if (threads > ReadyThreads::most) stop("a block has too many threads");
  const unsigned waves = (threads + wave_width - 1) / wave_width;
  while (machine.waves.size() < waves) machine.waves.push_back(std::make_unique<Wave>());
  while (machine.threads.size() < context_count(threads)) {
    machine.threads.push_back(std::make_unique<Thread>());
    machine.threads.back()->context.start(thread_main);
    machine.threads.back()->context.racer = new_racer();
  }
  ++machine.block_number;
  machine.block.expected = static_cast<int>(threads);
  machine.live = static_cast<int>(threads);
  for (unsigned w = 0; w < waves; ++w)
    machine.waves[w]->barrier.expected =
        static_cast<int>(std::min<unsigned>(wave_width, threads - w * wave_width));
  for (unsigned i = 0; i < threads; ++i) {
    Thread& thread = *machine.threads[(machine.first_context + i) % machine.threads.size()];
    thread.index = i;
    thread.lane = static_cast<int>(i % wave_width);
    thread.wave = machine.waves[i / wave_width].get();
    thread.turn = 0;
    machine.ready.push(&thread);
  }
  if (TRIREME_RACE_CHECKER) machine.first_context += threads + 37;
  machine.launcher.racer = this_racer();
  release(&machine.begin);
  Thread* const first = next_ready();
  running.thread = first;
  end_bookkeeping();
  switch_context(machine.launcher, first->context);
  begin_bookkeeping();
  running.thread = nullptr;
}

}  // namespace

void run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& body) {
  const Bookkeeping bookkeeping;
  machine.body = &body;
  machine.dynamic_bytes = shared_bytes;
  running.grid = grid;
  running.threads = {threads, 1, 1};
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        running.block = {x, y, z};
        run_block(threads);
      }
  acquire(&machine.end);
}

void set_thread_order(std::uint64_t seed) {
  machine.order = seed;
}

void sync_block(Place place) {
  const Bookkeeping bookkeeping;
  arrive_and_wait(machine.block, place, true, [] {});
}

void sync_wave(Place place) {
  const Bookkeeping bookkeeping;
  arrive_and_wait(running.thread->wave->barrier, place, true, [] {});
}

Exchange exchange(const void* mine, std::size_t bytes, Place place, void (*complete)(Exchange)) {
  const Bookkeeping bookkeeping;
  Thread& self = *running.thread;
  Wave& wave = *self.wave;
  const int turn = self.turn;
  self.turn ^= 1;
  std::memcpy(wave.slots[turn][self.lane], mine, bytes);
  const Exchange result{wave.slots[turn][0]};
  arrive_and_wait(wave.barrier, place, false, [&] {
    if (wave.barrier.arrived != wave_width) stop("a wave exchanges values without all its lanes");
    if (complete) complete(result);
  });
  return result;
}

std::byte* shared_memory(std::size_t id, std::size_t bytes) {
  const Bookkeeping bookkeeping;
  if (machine.shared.size() <= id) machine.shared.resize(id + 1);
  return machine.shared[id].of_block(machine.block_number, bytes);
}

std::byte* dynamic_shared_memory() {
  const Bookkeeping bookkeeping;
  return machine.dynamic.of_block(machine.block_number, machine.dynamic_bytes);
}

std::size_t new_shared_id() {
  static std::size_t next = 0;
  return next++;
}

void stop(const char* what) {
  std::fprintf(stderr, "trireme: emulated GPU: %s (block %u,%u, thread %u", what, running.block.x,
               running.block.y, running.thread ? running.thread->index : 0);
  if (machine.block.arrived > 0)
    std::fprintf(stderr, "; %d threads wait at %s:%u", machine.block.arrived,
                 machine.block.place.file_name(), machine.block.place.line());
  std::fprintf(stderr, ")\n");
  std::abort();
}

}  // namespace trireme::gpu::emulated
