// Implements cvt: between integers, between floats, and between both, with every rounding.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"
#include "base/dtype.h"

namespace trireme::ptx {
namespace {

// A decoded cvt.
struct Conversion {
  Type to, from;
  int to_bytes, from_bytes;  // sizes of registers, which may be wider
  char rounding;             // 'n' nearest, 'z' to zero, 'm' down, 'p' up
  bool saturate, flush;
};
std::int64_t pack(const Conversion& c) {
  const auto type = [](Type t) { return std::int64_t{t.kind} << 8 | t.bits; };
  return type(c.to) | type(c.from) << 16 | std::int64_t{c.rounding} << 32 |
         std::int64_t{c.saturate} << 40 | std::int64_t{c.flush} << 41 |
         std::int64_t{c.to_bytes} << 44 | std::int64_t{c.from_bytes} << 48;
}
Conversion unpack(std::int64_t n) {
  const auto type = [](std::int64_t t) {
    return Type{static_cast<char>(t >> 8 & 0xff), static_cast<int>(t & 0xff)};
  };
  return {type(n),
          type(n >> 16),
          static_cast<int>(n >> 44 & 15),
          static_cast<int>(n >> 48 & 15),
          static_cast<char>(n >> 32 & 0xff),
          (n >> 40 & 1) != 0,
          (n >> 41 & 1) != 0};
}

// --- integers to integers ---

template <class D, class S>
void widen_or_narrow(Warp& w, const Instruction& i) {
  const S* a = w.slot<S>(i.at[1]);
  set<D>(w, i.at[0], [&](int l) { return static_cast<D>(a[l]); });
}
std::uint64_t bits_of(Warp& w, std::uint32_t at, int bytes, int l) {
  switch (bytes) {
    case 2:
      return w.slot<std::uint16_t>(at)[l];
    case 4:
      return w.slot<std::uint32_t>(at)[l];
    default:
      return w.slot<std::uint64_t>(at)[l];
  }
}
void set_bits(Warp& w, std::uint32_t at, int bytes, int l, std::uint64_t value) {
  switch (bytes) {
    case 2:
      w.slot<std::uint16_t>(at)[l] = static_cast<std::uint16_t>(value);
      break;
    case 4:
      w.slot<std::uint32_t>(at)[l] = static_cast<std::uint32_t>(value);
      break;
    default:
      w.slot<std::uint64_t>(at)[l] = value;
  }
}
// Returns the lowest bits of value, sign-extended or zero-extended.
std::int64_t extended(std::uint64_t value, Type type) {
  const int unused = 64 - type.bits;
  if (type.kind == 's') return static_cast<std::int64_t>(value << unused) >> unused;
  return static_cast<std::int64_t>(value << unused >> unused);
}
std::int64_t clamped(std::int64_t value, Type from, Type to) {
  const bool huge = from.kind != 's' && value < 0;  // above 2^63
  if (to.kind == 's') {
    const std::int64_t largest = std::numeric_limits<std::int64_t>::max() >> (64 - to.bits);
    if (huge || value > largest) return largest;
    return value < -largest - 1 ? -largest - 1 : value;
  }
  if (from.kind == 's' && value < 0) return 0;
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - to.bits);
  return static_cast<std::uint64_t>(value) > largest ? static_cast<std::int64_t>(largest) : value;
}
void integer_to_integer(Warp& w, const Instruction& i) {
  const Conversion c = unpack(i.number);
  for_active(w, [&](int l) {
    std::int64_t value = extended(bits_of(w, i.at[1], c.from_bytes, l), c.from);
    if (c.saturate) value = clamped(value, c.from, c.to);
    set_bits(w, i.at[0], c.to_bytes, l,
             static_cast<std::uint64_t>(extended(static_cast<std::uint64_t>(value), c.to)));
  });
}
Run plain_integers(const Conversion& c) {
  if (c.saturate || c.to.bits != 8 * c.to_bytes || c.from.bits != 8 * c.from_bytes) return nullptr;
  const bool sign = c.from.kind == 's';
  if (c.to.bits == 64 && c.from.bits == 32)
    return sign ? widen_or_narrow<std::int64_t, std::int32_t>
                : widen_or_narrow<std::uint64_t, std::uint32_t>;
  if (c.to.bits == 32 && c.from.bits == 64) return widen_or_narrow<std::uint32_t, std::uint64_t>;
  if (c.to.bits == 32 && c.from.bits == 16)
    return sign ? widen_or_narrow<std::int32_t, std::int16_t>
                : widen_or_narrow<std::uint32_t, std::uint16_t>;
  if (c.to.bits == 16 && c.from.bits == 32) return widen_or_narrow<std::uint16_t, std::uint32_t>;
  return nullptr;
}

// --- floats ---

double whole(double x, char rounding) {
  switch (rounding) {
    case 'z':
      return std::trunc(x);
    case 'm':
      return std::floor(x);
    case 'p':
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}
float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
float canonical(float x) {
  return x != x ? std::bit_cast<float>(0x7fffffffu) : x;
}
double value_of(Warp& w, const Instruction& i, const Conversion& c, int l) {
  if (c.from.kind == 'x')
    return static_cast<float>(std::bit_cast<bf16>(w.slot<std::uint16_t>(i.at[1])[l]));
  if (c.from.bits == 16)
    return static_cast<float>(std::bit_cast<f16>(w.slot<std::uint16_t>(i.at[1])[l]));
  if (c.from.bits == 64) return w.slot<double>(i.at[1])[l];
  const float x = w.slot<float>(i.at[1])[l];
  return c.flush ? flushed(x) : x;
}

// NaN becomes 0, values that are too large become the largest integer.
void float_to_integer(Warp& w, const Instruction& i) {
  const Conversion c = unpack(i.number);
  const double above = std::ldexp(1.0, c.to.kind == 's' ? c.to.bits - 1 : c.to.bits);
  const double lowest = c.to.kind == 's' ? -above : 0;
  for_active(w, [&](int l) {
    const double x = whole(value_of(w, i, c, l), c.rounding);
    std::uint64_t result = 0;
    if (x >= above) {
      result = ~std::uint64_t{0} >> (c.to.kind == 's' ? 65 - c.to.bits : 64 - c.to.bits);
    } else if (x <= lowest) {
      result = c.to.kind == 's' ? std::uint64_t{1} << (c.to.bits - 1) : 0;
    } else if (x == x) {
      result = x < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(x))
                     : static_cast<std::uint64_t>(x);
    }
    set_bits(w, i.at[0], c.to_bytes, l, static_cast<std::uint64_t>(extended(result, c.to)));
  });
}

void integer_to_float(Warp& w, const Instruction& i) {
  const Conversion c = unpack(i.number);
  for_active(w, [&](int l) {
    const std::int64_t value = extended(bits_of(w, i.at[1], c.from_bytes, l), c.from);
    const auto as = [&]<class T>(T) {
      return c.from.kind == 's' ? static_cast<T>(value)
                                : static_cast<T>(static_cast<std::uint64_t>(value));
    };
    if (c.to.bits == 64) {
      w.slot<double>(i.at[0])[l] = as(double{});
    } else if (c.to.bits == 32) {
      w.slot<float>(i.at[0])[l] = as(float{});
    } else {
      w.slot<std::uint16_t>(i.at[0])[l] = std::bit_cast<std::uint16_t>(f16(as(float{})));
    }
  });
}

// Returns a double as single precision, rounded as requested.
float narrowed(double x, char rounding) {
  const auto f = static_cast<float>(x);
  const double back = f;
  if (rounding == 'n' || x != x || back == x) return f;
  const bool down = rounding == 'm' || (rounding == 'z' && x > 0);
  if (down && back > x) return std::nextafter(f, -std::numeric_limits<float>::infinity());
  if (!down && back < x) return std::nextafter(f, std::numeric_limits<float>::infinity());
  return f;
}
constexpr std::uint16_t nan_of_16_bits = 0x7fff;

template <class T>
std::uint16_t bits_of_16(float f) {
  return f != f ? nan_of_16_bits : std::bit_cast<std::uint16_t>(T(f));
}
// Rounds two floats: cvt.rn.bf16x2.f32 and cvt.rn.f16x2.f32. The first becomes the upper half.
template <class T>
void float_pair(Warp& w, const Instruction& i) {
  const auto *a = w.slot<float>(i.at[1]), *b = w.slot<float>(i.at[2]);
  set<std::uint32_t>(w, i.at[0], [&](int l) {
    return std::uint32_t{bits_of_16<T>(a[l])} << 16 | bits_of_16<T>(b[l]);
  });
}
bool decode_pair(Decoding& d) {
  const auto& operation = d.statement.operation;
  if (operation.size() != 4 || operation[1] != "rn" || operation[3] != "f32") return false;
  if (operation[2] != "bf16x2" && operation[2] != "f16x2") return false;
  d.operand(0, 4), d.operand(1, 4), d.operand(2, 4);
  d.to.run = operation[2] == "bf16x2" ? float_pair<bf16> : float_pair<f16>;
  return true;
}

void float_to_float(Warp& w, const Instruction& i) {
  const Conversion c = unpack(i.number);
  for_active(w, [&](int l) {
    double x = value_of(w, i, c, l);
    if (c.saturate) x = x > 0 ? (x < 1 ? x : 1) : 0;
    if (c.to.bits == 64) {
      w.slot<double>(i.at[0])[l] = x;
    } else if (c.to.bits == 32) {
      const float f = canonical(narrowed(x, c.rounding));
      w.slot<float>(i.at[0])[l] = c.flush ? flushed(f) : f;
    } else {
      const auto f = static_cast<float>(x);  // was single precision before
      w.slot<std::uint16_t>(i.at[0])[l] =
          c.to.kind == 'x' ? bits_of_16<bf16>(f) : bits_of_16<f16>(f);
    }
  });
}
// Rounds to an integer that stays a float: cvt.rni.f32.f32.
void float_to_whole(Warp& w, const Instruction& i) {
  const Conversion c = unpack(i.number);
  for_active(w, [&](int l) {
    double x = whole(value_of(w, i, c, l), c.rounding);
    if (c.saturate) x = x > 0 ? (x < 1 ? x : 1) : 0;
    if (c.to.bits == 64) {
      w.slot<double>(i.at[0])[l] = x;
    } else {
      w.slot<float>(i.at[0])[l] = canonical(static_cast<float>(x));
    }
  });
}

void bf16_to_float(Warp& w, const Instruction& i) {
  const auto* a = w.slot<std::uint16_t>(i.at[1]);
  set<std::uint32_t>(w, i.at[0], [&](int l) { return std::uint32_t{a[l]} << 16; });
}

bool is_float(Type type) {
  return type.kind == 'f' || type.kind == 'x';
}

// Returns the rounding letter, and sets whether to round to an integer.
char rounding_of(const Decoding& d, bool& to_whole) {
  to_whole = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  if (d.has("rz") || d.has("rzi")) return 'z';
  if (d.has("rm") || d.has("rmi")) return 'm';
  if (d.has("rp") || d.has("rpi")) return 'p';
  return 'n';
}

Run conversion(const Conversion& c, bool to_whole) {
  if (!is_float(c.to) && !is_float(c.from)) {
    const Run plain = plain_integers(c);
    return plain ? plain : integer_to_integer;
  }
  if (!is_float(c.to)) return to_whole ? float_to_integer : nullptr;
  if (!is_float(c.from)) return c.rounding == 'n' && c.to.kind == 'f' ? integer_to_float : nullptr;
  if (to_whole) return c.to.bits >= 32 ? float_to_whole : nullptr;
  if (c.to.bits == 16 && (c.from.bits != 32 || c.rounding != 'n' || c.flush)) return nullptr;
  if (c.to.bits == 32 && c.from.kind == 'x' && !c.saturate) return bf16_to_float;
  return float_to_float;
}

}  // namespace

bool decode_conversions(Decoding& d) {
  if (d.name() == "cvt" && decode_pair(d)) return true;
  if (d.name() != "cvt" || d.statement.operation.size() < 3 ||
      !d.only({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "ftz", "sat"}, 2))
    return false;
  bool to_whole = false;
  Conversion c{};
  c.to = d.type_before(), c.from = d.type();
  if (c.to.bits == 0 || c.from.bits == 0 || c.to.bits > 64 || c.from.bits > 64) return false;
  if (std::string_view("usfx").find(c.to.kind) == std::string_view::npos ||
      std::string_view("usfx").find(c.from.kind) == std::string_view::npos ||
      (c.to.kind == 'x' && c.to.bits != 16))
    return false;
  c.rounding = rounding_of(d, to_whole);
  c.saturate = d.has("sat"), c.flush = d.has("ftz");
  c.to_bytes = d.slots.register_bytes(d.operand_text(0));
  c.from_bytes = d.slots.register_bytes(d.operand_text(1));
  if (c.from_bytes == 0) c.from_bytes = c.from.bytes() < 2 ? 2 : c.from.bytes();
  if (c.to_bytes < c.to.bytes() || c.from_bytes < c.from.bytes()) return false;
  d.operand(0, c.to_bytes), d.operand(1, c.from_bytes);
  d.to.number = pack(c);
  d.to.run = conversion(c, to_whole);
  return d.to.run != nullptr;
}

}  // namespace trireme::ptx
