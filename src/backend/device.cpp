// What all devices share: the count of their memory.
#include "backend/device.h"

namespace trireme {

std::byte* Device::allocate(std::int64_t bytes) {
  std::byte* memory = do_allocate(bytes);
  if (memory) allocated_ += bytes;
  return memory;
}

void Device::release(std::byte* memory, std::int64_t bytes) {
  allocated_ -= bytes;
  do_release(memory, bytes);
}

}  // namespace trireme
