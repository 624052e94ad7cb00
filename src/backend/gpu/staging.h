// Host access to device memory through reusable pinned buffers.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "backend/gpu/queue.h"

namespace trireme::gpu {

class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // Device::write() and read() on a given queue. write() returns before its copy has run; the
  // buffer is reused only after that.
  void write(GpuQueue&, void* dst, std::int64_t bytes,
             const std::function<void(std::byte* host)>& fill);
  void read(GpuQueue&, const void* src, std::int64_t bytes,
            const std::function<void(const std::byte* host)>& use);

 private:
  struct Buffer {
    std::byte* memory;
    std::int64_t bytes;
    runtime::Event free;  // completes with the buffer's copy
  };

  Buffer take(std::int64_t bytes);
  void give_back(const Buffer&);
  // Calls body, which may throw, then returns the buffer to the pool.
  template <class Body>
  void with(const Buffer&, const Body& body);

  std::mutex mutex_;            // checkpoints are written by another thread
  std::deque<Buffer> buffers_;  // ordered by when their copies were enqueued
};

}  // namespace trireme::gpu
