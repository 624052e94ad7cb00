// A GPU queue: a stream of the GPU's runtime.
#pragma once

#include "backend/device.h"
#include "backend/gpu/runtime.h"

namespace trireme::gpu {

class GpuQueue final : public Queue {
 public:
  // Work of an urgent queue has priority over that of others.
  explicit GpuQueue(bool urgent = false) : stream_(runtime::make_stream(urgent)) {}
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;
  ~GpuQueue() override { runtime::destroy(stream_); }

  void copy(void* dst, const void* src, std::int64_t bytes) override {
    runtime::copy(dst, src, bytes, stream_);
  }
  void fill(void* dst, std::uint8_t byte, std::int64_t bytes) override {
    runtime::fill(dst, byte, bytes, stream_);
  }
  void record(Event& event) override;
  void wait(const Event& event) override;
  bool has_passed(const Event& event) override;
  void synchronize() override;
  void record_timed(Event& event) override;
  double seconds_between(const Event& begin, const Event& end) override;

  runtime::Stream stream() const { return stream_; }

 private:
  runtime::Stream stream_;
};

inline runtime::Stream stream_of(Queue& queue) {
  return static_cast<GpuQueue&>(queue).stream();
}

}  // namespace trireme::gpu
