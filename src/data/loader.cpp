// A ring of micro-batches, filled in any order and emptied in order.
#include "data/loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread.h"

namespace trireme {

struct Loader::State {
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  State(std::shared_ptr<const Dataset> data, const LoaderConfig& options)
      : dataset(std::move(data)), config(options) {
    TRIREME_CHECK(dataset && config.micro_batch_size > 0 && config.dp_size > 0 &&
                  config.dp_rank >= 0 && config.dp_rank < config.dp_size && config.threads > 0 &&
                  config.prefetch > 0 && config.consumed_samples >= 0);
    base = config.consumed_samples;
    slots.resize(static_cast<std::size_t>(config.prefetch));
    try {
      for (int i = 0; i < config.threads; ++i) {
        threads.push_back(start_thread("stop other programs", [this] { work(); }));
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~State() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake_workers.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  std::int64_t round() const { return config.micro_batch_size * config.dp_size; }
  Slot& slot(std::int64_t k) { return slots[static_cast<std::size_t>(k) % slots.size()]; }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake_workers.wait(lock, [this] {
        return stopping || (!seeking && made < taken + static_cast<std::int64_t>(slots.size()));
      });
      if (stopping) return;
      const std::int64_t k = made++;
      ++busy;
      const std::int64_t first = base + k * round() + config.dp_rank * config.micro_batch_size;
      lock.unlock();
      Slot done = make(first);
      lock.lock();
      slot(k) = std::move(done);
      --busy;
      wake_caller.notify_all();
    }
  }

  Slot make(std::int64_t first) const {
    Slot slot{.ready = true};
    try {
      const std::int64_t rows = config.micro_batch_size;
      if (first + rows > dataset->size()) {
        fail_input("no more data: sample {} was requested, but the dataset was built with {}",
                   first + rows - 1, dataset->size());
      }
      slot.batch = Batch(rows, dataset->seq_length());
      for (std::int64_t b = 0; b < rows; ++b) {
        slot.batch.sample_ids[b] = first + b;
        dataset->fill(first + b, slot.batch.row(b));
      }
    } catch (...) {
      slot.error = std::current_exception();
    }
    return slot;
  }

  std::shared_ptr<const Dataset> dataset;
  LoaderConfig config;
  mutable std::mutex mutex;
  std::condition_variable wake_workers, wake_caller;
  std::vector<Slot> slots;
  std::int64_t base = 0;   // consumed samples at micro-batch 0
  std::int64_t made = 0;   // micro-batches begun
  std::int64_t taken = 0;  // micro-batches returned
  int busy = 0;
  bool seeking = false, stopping = false;
  std::vector<std::thread> threads;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderConfig& config)
    : state_(std::make_unique<State>(std::move(dataset), config)) {}

Loader::~Loader() = default;

Batch Loader::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  State::Slot& slot = s.slot(s.taken);
  s.wake_caller.wait(lock, [&] { return slot.ready; });
  if (slot.error) std::rethrow_exception(slot.error);
  Batch batch = std::move(slot.batch);
  slot = {};
  ++s.taken;
  lock.unlock();
  s.wake_workers.notify_one();
  return batch;
}

void Loader::seek(std::int64_t consumed_samples) {
  TRIREME_CHECK(consumed_samples >= 0);
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (consumed_samples == s.base + s.taken * s.round()) return;
  s.seeking = true;
  s.wake_caller.wait(lock, [&] { return s.busy == 0; });
  for (State::Slot& slot : s.slots) slot = {};
  s.base = consumed_samples;
  s.made = s.taken = 0;
  s.seeking = false;
  lock.unlock();
  s.wake_workers.notify_all();
}

std::int64_t Loader::consumed_samples() const {
  const std::lock_guard lock(state_->mutex);
  return state_->base + state_->taken * state_->round();
}

const Dataset& Loader::dataset() const {
  return *state_->dataset;
}

}  // namespace trireme
