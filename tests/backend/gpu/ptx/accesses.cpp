// Implements loads, stores, atomic operations and cp.async.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"
#include "backend/gpu/ptx/space.h"

namespace trireme::ptx {
namespace {

// The slot with the address of loads and stores.
constexpr std::size_t address_slot = 15;

std::uint64_t address_of(Warp& w, const Instruction& i, int l) {
  const std::uint64_t base = i.wide_address ? w.slot<std::uint64_t>(i.at[address_slot])[l]
                                            : w.slot<std::uint32_t>(i.at[address_slot])[l];
  return base + static_cast<std::uint64_t>(i.number);
}

// T: the type in memory. R: the register type.
template <Space space, class T, class R>
void load(Warp& w, const Instruction& i) {
  const std::size_t bytes = sizeof(T) * i.count;
  // Resolves all addresses first: an address register may also be one of the results.
  const std::byte* from[lanes];
  for_active(
      w, [&](int l) { from[l] = bytes_at<space>(w, l, address_of(w, i, l), bytes, Use::read); });
  for (std::size_t k = 0; k < i.count; ++k) {
    if (i.at[k] == ~0u) continue;
    R* const to = w.slot<R>(i.at[k]);
    for_active(w, [&](int l) {
      T value;
      std::memcpy(&value, from[l] + k * sizeof(T), sizeof value);
      to[l] = static_cast<R>(value);
    });
  }
}
template <Space space, class T, class R>
void store(Warp& w, const Instruction& i) {
  const std::size_t bytes = sizeof(T) * i.count;
  for_active(w, [&](int l) {
    std::byte* const to = bytes_at<space>(w, l, address_of(w, i, l), bytes, Use::write);
    for (std::size_t k = 0; k < i.count; ++k) {
      const auto value = static_cast<T>(w.slot<R>(i.at[k])[l]);
      std::memcpy(to + k * sizeof(T), &value, sizeof value);
    }
  });
}

template <Space space, class T, class R>
Run access(bool loads) {
  return loads ? load<space, T, R> : store<space, T, R>;
}
// Calls body<space>() for a state space.
template <class T, class R>
Run in_space(Space space, bool loads) {
  switch (space) {
    case Space::generic:
      return access<Space::generic, T, R>(loads);
    case Space::global:
      return access<Space::global, T, R>(loads);
    case Space::shared:
      return access<Space::shared, T, R>(loads);
    case Space::local:
      return access<Space::local, T, R>(loads);
    case Space::parameter:
      return loads ? load<Space::parameter, T, R> : nullptr;
  }
  return nullptr;
}
template <class T>
Run with_register(Space space, bool loads, int register_bytes) {
  if (register_bytes < static_cast<int>(sizeof(T))) return nullptr;
  if (register_bytes == 2) return in_space<T, std::uint16_t>(space, loads);
  if (register_bytes == 4) return in_space<T, std::uint32_t>(space, loads);
  return in_space<T, std::uint64_t>(space, loads);
}
Run access_of(Type type, Space space, bool loads, int register_bytes) {
  const bool sign = type.kind == 's';
  switch (type.bits) {
    case 8:
      return sign ? with_register<std::int8_t>(space, loads, register_bytes)
                  : with_register<std::uint8_t>(space, loads, register_bytes);
    case 16:
      return sign ? with_register<std::int16_t>(space, loads, register_bytes)
                  : with_register<std::uint16_t>(space, loads, register_bytes);
    case 32:
      return sign ? with_register<std::int32_t>(space, loads, register_bytes)
                  : with_register<std::uint32_t>(space, loads, register_bytes);
    case 64:
      return with_register<std::uint64_t>(space, loads, register_bytes);
    default:
      return nullptr;
  }
}

Space space_of(const Decoding& d) {
  if (d.has("global") || d.has("const")) return Space::global;
  if (d.has("shared")) return Space::shared;
  if (d.has("local")) return Space::local;
  if (d.has("param")) return Space::parameter;
  return Space::generic;
}

// --- atomic operations: lanes run one after another; integers do not depend on the order ---

enum Atomic : std::uint8_t { add, least, largest, bit_and, bit_or, bit_xor, exchange, compare };

template <class T>
T changed(std::uint8_t kind, T old, T value, T other) {
  switch (kind) {
    case add:
      return static_cast<T>(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(value));
    case least:
      return std::min(old, value);
    case largest:
      return std::max(old, value);
    case bit_and:
      return old & value;
    case bit_or:
      return old | value;
    case bit_xor:
      return old ^ value;
    case exchange:
      return value;
    default:
      return old == value ? other : old;
  }
}
template <class T>
void atomic(Warp& w, const Instruction& i) {
  const auto space = static_cast<Space>(i.targets[0]);
  for_active(w, [&](int l) {
    const std::uint64_t address = address_of(w, i, l);
    std::byte* const at = space == Space::shared
                              ? bytes_at<Space::shared>(w, l, address, sizeof(T), Use::read)
                              : bytes_at<Space::generic>(w, l, address, sizeof(T), Use::read);
    T old;
    std::memcpy(&old, at, sizeof old);
    const T value = w.slot<T>(i.at[1])[l];
    const T other = i.count == compare ? w.slot<T>(i.at[2])[l] : T{};
    const T now = changed(i.count, old, value, other);
    std::memcpy(at, &now, sizeof now);
    if (i.at[0] != ~0u) w.slot<T>(i.at[0])[l] = old;
  });
}

void nothing(Warp&, const Instruction&) {}

}  // namespace

bool decode_accesses(Decoding& d) {
  const bool loads = d.name() == "ld" || d.name() == "ldu";
  if ((d.name() == "membar" || d.name() == "fence")) {
    d.to.run = nothing;  // a warp's accesses happen immediately
    return true;
  }
  if ((!loads && d.name() != "st") ||
      !d.only({"global", "const", "shared", "local", "param", "v2", "v4", "nc", "volatile", "weak",
               "relaxed", "gpu", "ca", "cg", "cs", "lu", "cv", "wb", "wt"}))
    return false;
  const auto registers = d.vector_text(loads ? 0 : 1);
  d.address(loads ? 1 : 0, address_slot);
  d.to.count = static_cast<std::uint8_t>(registers.size());
  const Type type = d.type();
  int bytes = std::max(type.bytes(), 2);
  for (const std::string& name : registers) bytes = std::max(bytes, d.slots.register_bytes(name));
  for (std::size_t k = 0; k < registers.size(); ++k)
    d.to.at[k] = registers[k] == "_" ? ~0u : d.slots.of(registers[k], bytes);
  d.to.run = access_of(type, space_of(d), loads, bytes);
  return d.to.run != nullptr;
}

bool decode_atomics(Decoding& d) {
  const bool returns = d.name() == "atom";
  if ((!returns && d.name() != "red") ||
      !d.only({"global", "shared", "relaxed", "gpu", "cta", "add", "min", "max", "and", "or", "xor",
               "exch", "cas"}))
    return false;
  constexpr const char* names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas"};
  int kind = 0;
  while (kind < 8 && !d.has(names[kind])) ++kind;
  const Type type = d.type();
  if (kind == 8 || type.kind == 'f' || type.bits < 32) return false;
  const int first = returns ? 1 : 0;
  d.address(first, address_slot);
  d.to.at[0] =
      returns && d.operand_text(0) != "_" ? d.slots.of(d.operand_text(0), type.bytes()) : ~0u;
  d.to.at[1] = d.slots.of(d.operand_text(first + 1), type.bytes());
  if (kind == compare) d.to.at[2] = d.slots.of(d.operand_text(first + 2), type.bytes());
  d.to.count = static_cast<std::uint8_t>(kind);
  d.to.targets = {static_cast<std::int32_t>(space_of(d))};
  const bool sign = type.kind == 's';
  if (type.bits == 32) d.to.run = sign ? atomic<std::int32_t> : atomic<std::uint32_t>;
  if (type.bits == 64) d.to.run = sign ? atomic<std::int64_t> : atomic<std::uint64_t>;
  return d.to.run != nullptr;
}

}  // namespace trireme::ptx
