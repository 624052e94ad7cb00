// Common to all devices: memory accounting, and a host clock for those without their own.
#include "backend/device.h"

#include <chrono>

#include "base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void Queue::record_timed(Event& event) {
  record(event);
  event.native = std::make_shared<Clock::time_point>(Clock::now());
}

double Queue::seconds_between(const Event& begin, const Event& end) {
  const auto time_of = [](const Event& event) {
    return *static_cast<const Clock::time_point*>(event.native.get());
  };
  return std::chrono::duration<double>(time_of(end) - time_of(begin)).count();
}

std::byte* Device::allocate(std::int64_t bytes) {
  std::byte* memory = do_allocate(bytes);
  if (memory) allocated_ += bytes;
  return memory;
}

void Device::release(std::byte* memory, std::int64_t bytes) {
  allocated_ -= bytes;
  do_release(memory, bytes);
}

std::byte* Device::allocate_host(std::int64_t bytes) {
  std::byte* memory = do_allocate_host(bytes);
  if (memory) allocated_host_ += bytes;
  return memory;
}

void Device::release_host(std::byte* memory, std::int64_t bytes) {
  allocated_host_ -= bytes;
  do_release_host(memory, bytes);
}

std::shared_ptr<const GroupedProduct> Device::grouped(DType, Product, const GroupedShape&) {
  fail("{} does not support grouped GEMMs, which experts require: use run.device = \"cpu\"",
       name());
}

}  // namespace trireme
