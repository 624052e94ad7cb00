// Implements moves, and packing and unpacking of registers.
#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"

namespace trireme::ptx {
namespace {

template <class T>
void move(Warp& w, const Instruction& i) {
  const T* a = w.slot<T>(i.at[1]);
  set<T>(w, i.at[0], [&](int l) { return a[l]; });
}

// Packs `count` narrow registers, the first one lowest.
template <class T, class Part>
void join(Warp& w, const Instruction& i) {
  set<T>(w, i.at[0], [&](int l) {
    T whole = 0;
    for (std::size_t k = 0; k < i.count; ++k)
      whole |= static_cast<T>(T{w.slot<Part>(i.at[1 + k])[l]} << 8 * sizeof(Part) * k);
    return whole;
  });
}
template <class T, class Part>
void part(Warp& w, const Instruction& i) {
  const T* whole = w.slot<T>(i.at[15]);
  T copy[lanes];
  std::memcpy(copy, whole, sizeof copy);
  for (std::size_t k = 0; k < i.count; ++k) {
    if (i.at[k] == ~0u) continue;
    set<Part>(w, i.at[k],
              [&](int l) { return static_cast<Part>(copy[l] >> 8 * sizeof(Part) * k); });
  }
}

bool decode_join(Decoding& d, const std::vector<std::string>& parts) {
  const int bytes = d.type().bytes();
  const int narrow = bytes / static_cast<int>(parts.size());
  d.operand(0, bytes);
  d.to.count = static_cast<std::uint8_t>(parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k) d.to.at[1 + k] = d.slots.of(parts[k], narrow);
  if (bytes == 8 && narrow == 4) d.to.run = join<std::uint64_t, std::uint32_t>;
  if (bytes == 8 && narrow == 2) d.to.run = join<std::uint64_t, std::uint16_t>;
  if (bytes == 4 && narrow == 2) d.to.run = join<std::uint32_t, std::uint16_t>;
  return d.to.run != nullptr;
}
bool decode_parts(Decoding& d, const std::vector<std::string>& parts) {
  const int bytes = d.type().bytes();
  const int narrow = bytes / static_cast<int>(parts.size());
  d.to.at[15] = d.slots.of(d.operand_text(1), bytes);
  d.to.count = static_cast<std::uint8_t>(parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k)
    d.to.at[k] = parts[k] == "_" ? ~0u : d.slots.of(parts[k], narrow);
  if (bytes == 8 && narrow == 4) d.to.run = part<std::uint64_t, std::uint32_t>;
  if (bytes == 8 && narrow == 2) d.to.run = part<std::uint64_t, std::uint16_t>;
  if (bytes == 4 && narrow == 2) d.to.run = part<std::uint32_t, std::uint16_t>;
  return d.to.run != nullptr;
}

// Generic addresses: global addresses are unchanged, the other spaces have windows.
template <bool to_generic>
void convert_address(Warp& w, const Instruction& i) {
  const auto* a = w.slot<std::uint64_t>(i.at[1]);
  const auto window = static_cast<std::uint64_t>(i.number);
  for_active(w, [&](int l) {
    if (!to_generic && a[l] - window >= (std::uint64_t{1} << 56))
      throw Fault(l, "the address is of another kind of memory");
  });
  set<std::uint64_t>(w, i.at[0], [&](int l) { return to_generic ? a[l] + window : a[l] - window; });
}
bool decode_address_conversion(Decoding& d) {
  if (d.name() != "cvta" || d.type().bits != 64 ||
      !d.only({"to", "global", "shared", "local", "const", "param"}))
    return false;
  d.operand(0, 8), d.operand(1, 8);
  const std::uint64_t window = d.has("shared")  ? shared_window
                               : d.has("local") ? local_window
                               : d.has("param") ? parameter_window
                                                : 0;
  d.to.number = static_cast<std::int64_t>(window);
  d.to.run = d.has("to") ? convert_address<false> : convert_address<true>;
  return true;
}

void active_lanes(Warp& w, const Instruction& i) {
  const Mask active = w.active;
  set<Mask>(w, i.at[0], [&](int) { return active; });
}

}  // namespace

bool decode_moves(Decoding& d) {
  if (decode_address_conversion(d)) return true;
  if (d.name() == "activemask") {
    d.operand(0, 4);
    d.to.run = active_lanes;
    return true;
  }
  if (d.name() != "mov" || !d.only({}) || d.type().kind == 'p') return false;
  if (const auto parts = d.vector_text(0); parts.size() > 1) return decode_parts(d, parts);
  if (const auto parts = d.vector_text(1); parts.size() > 1) return decode_join(d, parts);
  const int bytes = d.type().bytes();
  d.operand(0, bytes), d.operand(1, bytes);
  if (bytes == 8) d.to.run = move<std::uint64_t>;
  if (bytes == 4) d.to.run = move<std::uint32_t>;
  if (bytes == 2) d.to.run = move<std::uint16_t>;
  return d.to.run != nullptr;
}

}  // namespace trireme::ptx
