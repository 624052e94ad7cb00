// Host access to device memory through pinned buffers that are used again.
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

  // As Device::write() and read(), on a queue. A write returns before its copy has run; the buffer
  // is used again after that.
  void write(GpuQueue&, void* dst, std::int64_t bytes,
             const std::function<void(std::byte* host)>& fill);
  void read(GpuQueue&, const void* src, std::int64_t bytes,
            const std::function<void(const std::byte* host)>& use);

 private:
  struct Buffer {
    std::byte* memory;
    std::int64_t bytes;
    runtime::Event free;  // passed when its copy has run
  };

  Buffer take(std::int64_t bytes);
  void give_back(const Buffer&);
  // Calls body, which may throw; then the buffer is given back.
  template <class Body>
  void with(const Buffer&, const Body& body);

  std::mutex mutex_;            // checkpoints are written by a thread of their own
  std::deque<Buffer> buffers_;  // the one whose copy was enqueued first comes first
};

}  // namespace trireme::gpu
