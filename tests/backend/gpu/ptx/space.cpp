// Checks memory accesses.
#include "backend/gpu/ptx/space.h"

#include <cstdio>

namespace trireme::ptx {
namespace {

std::byte* parameter_at(Warp& w, int lane, std::uint64_t offset, std::size_t bytes, Use use) {
  const auto size = static_cast<std::uint64_t>(w.block->launch->parameters.size());
  if (use == Use::write) fail_access(lane, "a write to a parameter", offset, bytes);
  if (offset >= size || offset + bytes > size)
    fail_access(lane, "outside of the kernel's parameters", offset, bytes);
  return const_cast<std::byte*>(w.block->launch->parameters.data()) + offset;
}

std::byte* local_at(Warp& w, int lane, std::uint64_t offset, std::size_t bytes) {
  const auto size = static_cast<std::uint64_t>(w.block->launch->program->local_bytes);
  if (offset >= size || offset + bytes > size)
    fail_access(lane, "outside of the thread's local memory", offset, bytes);
  const auto thread = static_cast<std::uint64_t>(w.index * lanes + lane);
  return w.block->local.data() + thread * size + offset;
}

}  // namespace

void fail_access(int lane, const char* what, std::uint64_t address, std::size_t bytes) {
  char text[160];
  std::snprintf(text, sizeof text, "%s: %zu bytes at 0x%llx", what, bytes,
                static_cast<unsigned long long>(address));
  throw Fault(lane, text);
}

void fail_global(int lane, std::uint64_t address, std::size_t bytes, Use use) {
  throw Fault(lane, std::string(use == Use::read ? "a read of " : "a write to ") +
                        DeviceMemory::instance().explain(address, bytes));
}

void note_use(Warp& w, int lane, std::size_t offset, std::size_t bytes, Use use) {
  const std::uint32_t epoch = w.block->epoch;
  const Mask me = Mask{1} << w.index;
  SharedUse* const uses = w.block->uses->data() + offset;
  for (std::size_t i = 0; i < bytes; ++i) {
    SharedUse& u = uses[i];
    if (u.epoch != epoch) u = {epoch, -1, 0};
    if (u.writer >= 0 && u.writer != w.index)
      throw Fault(lane, "warp " + std::to_string(u.writer) +
                            " wrote these bytes of shared memory since the last barrier: byte " +
                            std::to_string(offset + i));
    if (use == Use::read) {
      u.readers |= me;
      continue;
    }
    if (u.readers & ~me)
      throw Fault(lane,
                  "another warp read these bytes of shared memory since the last barrier: "
                  "byte " +
                      std::to_string(offset + i));
    u.writer = w.index;
  }
}

std::byte* other_at(Warp& w, int lane, Space space, std::uint64_t address, std::size_t bytes,
                    Use use) {
  if (space == Space::parameter) return parameter_at(w, lane, address, bytes, use);
  if (space == Space::local) return local_at(w, lane, address, bytes);
  const std::uint64_t window = address & ~((std::uint64_t{1} << 56) - 1);
  if (window == shared_window) return shared_at(w, lane, address - window, bytes, use);
  if (window == local_window) return local_at(w, lane, address - window, bytes);
  if (window == parameter_window) return parameter_at(w, lane, address - window, bytes, use);
  return bytes_at<Space::global>(w, lane, address, bytes, use);
}

}  // namespace trireme::ptx
