// Pool of pinned buffers.
#include "backend/gpu/staging.h"

#include <algorithm>
#include <bit>

#include "backend/gpu/host_wait.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

constexpr std::int64_t smallest = 64 << 10;
// Buffers kept for reuse; an additional one is created if all are in use.
constexpr std::size_t most_kept = 8;

}  // namespace

Staging::~Staging() {
  for (const Buffer& buffer : buffers_) {
    wait_on_host(buffer.free);
    runtime::destroy(buffer.free);
    runtime::release_pinned(buffer.memory, buffer.bytes);
  }
}

Staging::Buffer Staging::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const Buffer& b) {
    return b.bytes >= bytes && (buffers_.size() >= most_kept || runtime::has_passed(b.free));
  };
  const auto found = std::find_if(buffers_.begin(), buffers_.end(), fits);
  if (found != buffers_.end()) {
    const Buffer buffer = *found;
    buffers_.erase(found);
    wait_on_host(buffer.free);
    return buffer;
  }
  const auto size = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, smallest))));
  auto* const memory = static_cast<std::byte*>(runtime::allocate_pinned(size));
  if (!memory) fail("cannot allocate {} bytes of pinned memory for copies to the device", size);
  return {memory, size, runtime::make_event()};
}

void Staging::give_back(const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  buffers_.push_back(buffer);
  if (buffers_.size() <= most_kept) return;
  const Buffer oldest = buffers_.front();
  buffers_.pop_front();
  wait_on_host(oldest.free);
  runtime::destroy(oldest.free);
  runtime::release_pinned(oldest.memory, oldest.bytes);
}

template <class Body>
void Staging::with(const Buffer& buffer, const Body& body) {
  try {
    body();
  } catch (...) {
    give_back(buffer);
    throw;
  }
}

void Staging::write(GpuQueue& queue, void* dst, std::int64_t bytes,
                    const std::function<void(std::byte* host)>& fill) {
  const Buffer buffer = take(bytes);
  with(buffer, [&] { fill(buffer.memory); });
  runtime::copy(dst, buffer.memory, bytes, queue.stream());
  runtime::record(buffer.free, queue.stream());
  give_back(buffer);
}

void Staging::read(GpuQueue& queue, const void* src, std::int64_t bytes,
                   const std::function<void(const std::byte* host)>& use) {
  const Buffer buffer = take(bytes);
  runtime::copy(buffer.memory, src, bytes, queue.stream());
  runtime::record(buffer.free, queue.stream());
  wait_on_host(buffer.free);
  with(buffer, [&] { use(buffer.memory); });
  give_back(buffer);
}

}  // namespace trireme::gpu
