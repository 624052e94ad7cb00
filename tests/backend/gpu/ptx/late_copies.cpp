// Implements cp.async: copies from global to shared memory that arrive as late as allowed, which is
// when a thread waits for them; with another launch order, some arrive immediately.
#include <cstring>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"
#include "backend/gpu/ptx/space.h"

namespace trireme::ptx {
namespace {

constexpr std::size_t to_slot = 0, from_slot = 1, size_slot = 2;

void arrive_now(Warp& w, const LateCopy& copy) {
  std::byte* const to = bytes_at<Space::shared>(w, copy.lane, copy.to, copy.bytes, Use::write);
  std::memset(to, 0, copy.bytes);
  if (copy.read == 0) return;
  std::memcpy(to, bytes_at<Space::global>(w, copy.lane, copy.from, copy.bytes, Use::read),
              copy.read);
}

// Checks both addresses; a copy that reads fewer bytes than it writes needs only those to exist.
void check(Warp& w, const LateCopy& copy) {
  bytes_at<Space::shared>(w, copy.lane, copy.to, copy.bytes, Use::write);
  if (copy.read > 0) bytes_at<Space::global>(w, copy.lane, copy.from, copy.bytes, Use::read);
}

bool is_early(const Warp& w, const LateCopy& copy) {
  const std::uint64_t order = w.block->launch->order;
  return order != 0 && ((order ^ copy.to >> 4) * 0x9e3779b97f4a7c15u >> 63) != 0;
}

void start(Warp& w, const Instruction& i) {
  for_active(w, [&](int l) {
    LateCopy copy{};
    copy.lane = l;
    copy.group = w.committed[static_cast<std::size_t>(l)] + 1;
    copy.to = w.slot<std::uint32_t>(i.at[to_slot])[l];
    copy.from = w.slot<std::uint64_t>(i.at[from_slot])[l] + static_cast<std::uint64_t>(i.number);
    copy.bytes = i.count;
    copy.read = i.at[size_slot] == ~0u ? i.count : w.slot<std::uint32_t>(i.at[size_slot])[l];
    if (copy.read > copy.bytes) throw Fault(l, "more bytes are read than are copied");
    check(w, copy);
    if (is_early(w, copy)) {
      arrive_now(w, copy);
    } else {
      w.copies.push_back(copy);
    }
  });
}
void commit(Warp& w, const Instruction&) {
  for_active(w, [&](int l) { ++w.committed[static_cast<std::size_t>(l)]; });
}
// Completes all but the newest `number` groups of the active lanes.
void wait_for_groups(Warp& w, const Instruction& i) {
  std::size_t kept = 0;
  for (const LateCopy& copy : w.copies) {
    const std::uint32_t committed = w.committed[static_cast<std::size_t>(copy.lane)];
    if (has(w.active, copy.lane) && copy.group + i.number <= committed) {
      arrive_now(w, copy);
    } else {
      w.copies[kept++] = copy;
    }
  }
  w.copies.resize(kept);
}
void wait_for_all(Warp& w, const Instruction& i) {
  commit(w, i);
  wait_for_groups(w, i);
}

}  // namespace

bool decode_late_copies(Decoding& d) {
  if (d.name() != "cp" || !d.has("async")) return false;
  if (d.has("commit_group")) {
    d.to.run = commit;
    return true;
  }
  if (d.has("wait_all")) {
    d.to.run = wait_for_all;
    return true;
  }
  if (d.has("wait_group")) {
    d.to.number = std::stoll(d.operand_text(0));
    d.to.run = wait_for_groups;
    return true;
  }
  if (!d.has("shared") || !d.has("global")) return false;
  d.address(0, to_slot);
  if (d.to.number != 0 || d.to.wide_address) return false;
  d.address(1, from_slot);
  d.to.count = static_cast<std::uint8_t>(std::stoi(d.operand_text(2)));
  d.to.at[size_slot] = d.statement.operands.size() > 3 ? d.slots.of(d.operand_text(3), 4) : ~0u;
  d.to.run = start;
  return d.to.count == 4 || d.to.count == 8 || d.to.count == 16;
}

}  // namespace trireme::ptx
