// Implements integer arithmetic and bit operations.
#include <bit>
#include <type_traits>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"

namespace trireme::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
struct WideOf;
template <>
struct WideOf<std::uint16_t> : std::type_identity<std::uint32_t> {};
template <>
struct WideOf<std::int16_t> : std::type_identity<std::int32_t> {};
template <>
struct WideOf<std::uint32_t> : std::type_identity<std::uint64_t> {};
template <>
struct WideOf<std::int32_t> : std::type_identity<std::int64_t> {};
template <>
struct WideOf<std::uint64_t> : std::type_identity<unsigned __int128> {};
template <>
struct WideOf<std::int64_t> : std::type_identity<__int128> {};
template <class T>
using Wide = typename WideOf<T>::type;

// Sums and products wrap around.
struct Add {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
  }
};
struct Subtract {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  }
};
struct MultiplyLow {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(std::uint64_t(a) * std::uint64_t(b));
  }
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(std::uint64_t(a) * std::uint64_t(b) + std::uint64_t(c));
  }
};
struct MultiplyHigh {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Wide<T>(a) * Wide<T>(b) >> 8 * sizeof(T));
  }
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(of(a, b), c);
  }
};
struct MultiplyWide {
  template <class T>
  static Wide<T> of(T a, T b) {
    return Wide<T>(a) * Wide<T>(b);
  }
  template <class T>
  static Wide<T> of(T a, T b, Wide<T> c) {
    return Add::of(of(a, b), c);
  }
};
// Division by 0 gives all ones, as on the hardware; the smallest number divided by -1 gives itself.
struct Divide {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Subtract::of(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Largest {
  template <class T>
  static T of(T a, T b) {
    return b > a ? b : a;
  }
};
struct Negate {
  template <class T>
  static T of(T a) {
    return Subtract::of(T{0}, a);
  }
};
struct Absolute {
  template <class T>
  static T of(T a) {
    return a < 0 ? Subtract::of(T{0}, a) : a;
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return static_cast<T>(~a);
  }
};
// Shift distances are clamped to the width.
struct ShiftLeft {
  template <class T>
  static T of(T a, std::uint32_t by) {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, std::uint32_t by) {
    constexpr std::uint32_t width = 8 * sizeof(T);
    if (std::is_signed_v<T>) return static_cast<T>(a >> (by >= width ? width - 1 : by));
    return by >= width ? T{0} : static_cast<T>(a >> by);
  }
};
// Returns the upper or the lower half of two words that are shifted together.
struct FunnelLeft {
  static std::uint32_t of(std::uint32_t low, std::uint32_t high, std::uint32_t by) {
    return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << (by & 31) >> 32);
  }
};
struct FunnelRight {
  static std::uint32_t of(std::uint32_t low, std::uint32_t high, std::uint32_t by) {
    return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (by & 31));
  }
};
struct FunnelLeftClamped {
  static std::uint32_t of(std::uint32_t low, std::uint32_t high, std::uint32_t by) {
    return by >= 32 ? low : FunnelLeft::of(low, high, by);
  }
};
struct FunnelRightClamped {
  static std::uint32_t of(std::uint32_t low, std::uint32_t high, std::uint32_t by) {
    return by >= 32 ? high : FunnelRight::of(low, high, by);
  }
};
struct ExtractField {
  template <class T>
  static T of(T a, std::uint32_t position, std::uint32_t length) {
    constexpr std::uint32_t width = 8 * sizeof(T);
    position &= 0xff, length &= 0xff;
    const bool negative = std::is_signed_v<T> && length > 0 &&
                          Unsigned<T>(a) >> std::min(position + length - 1, width - 1) & 1;
    T result = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      const bool bit =
          i < length && position + i < width ? Unsigned<T>(a) >> (position + i) & 1 : negative;
      result = static_cast<T>(Unsigned<T>(result) | Unsigned<T>(bit) << i);
    }
    return result;
  }
};
struct InsertField {
  template <class T>
  static T of(T a, T b, std::uint32_t position, std::uint32_t length) {
    constexpr std::uint32_t width = 8 * sizeof(T);
    position &= 0xff, length &= 0xff;
    for (std::uint32_t i = 0; i < length && position + i < width; ++i) {
      const T bit = static_cast<T>(T{1} << (position + i));
      b = static_cast<T>((b & ~bit) | ((a >> i & 1) != 0 ? bit : T{0}));
    }
    return b;
  }
};
struct PermuteBytes {
  static std::uint32_t of(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) {
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t selector = selectors >> 4 * i & 15;
      std::uint32_t byte = both >> 8 * (selector & 7) & 0xff;
      if (selector & 8) byte = byte & 0x80 ? 0xff : 0;  // replicates its sign
      result |= byte << 8 * i;
    }
    return result;
  }
};
struct CountOnes {
  template <class T>
  static std::uint32_t of(T a) {
    return static_cast<std::uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  static std::uint32_t of(T a) {
    return static_cast<std::uint32_t>(std::countl_zero(a));
  }
};
struct ReverseBits {
  template <class T>
  static T of(T a) {
    T result = 0;
    for (std::size_t i = 0; i < 8 * sizeof(T); ++i) result = result << 1 | (a >> i & 1);
    return result;
  }
};

// Computes any function of three bits from its truth table.
void logic_of_three(Warp& w, const Instruction& i) {
  const auto *a = w.slot<std::uint32_t>(i.at[1]), *b = w.slot<std::uint32_t>(i.at[2]),
             *c = w.slot<std::uint32_t>(i.at[3]);
  set<std::uint32_t>(w, i.at[0], [&](int l) {
    std::uint32_t result = 0;
    for (int row = 0; row < 8; ++row)
      if (i.number >> row & 1)
        result |= (row & 4 ? a[l] : ~a[l]) & (row & 2 ? b[l] : ~b[l]) & (row & 1 ? c[l] : ~c[l]);
    return result;
  });
}

// Calls body(T{}) with an unsigned integer of the type's width; null unless 16, 32 or 64 bits.
template <class Body>
Run for_bits(Type type, const Body& body) {
  if (type.bits == 16) return body(std::uint16_t{});
  if (type.bits == 32) return body(std::uint32_t{});
  if (type.bits == 64) return body(std::uint64_t{});
  return nullptr;
}
// The same with the type's own signedness.
template <class Body>
Run for_integer(Type type, const Body& body) {
  if (type.kind != 's') return for_bits(type, body);
  if (type.bits == 16) return body(std::int16_t{});
  if (type.bits == 32) return body(std::int32_t{});
  if (type.bits == 64) return body(std::int64_t{});
  return nullptr;
}

template <class F>
Run unary(Type type) {
  return for_integer(type, []<class T>(T) -> Run { return apply<F, T, T>; });
}
template <class F>
Run binary(Type type) {
  return for_integer(type, []<class T>(T) -> Run { return apply<F, T, T, T>; });
}
template <class F>
Run ternary(Type type) {
  return for_integer(type, []<class T>(T) -> Run { return apply<F, T, T, T, T>; });
}

// Sets `sources` operands of the type's width after the result, whose width may differ.
bool finish(Decoding& d, Run run, int sources, int result_bytes = 0, int last_bytes = 0) {
  const int bytes = d.type().bytes();
  d.to.run = run;
  d.operand(0, result_bytes ? result_bytes : bytes);
  for (int k = 1; k <= sources; ++k) d.operand(k, k == sources && last_bytes ? last_bytes : bytes);
  return run != nullptr;
}

Run with_one_operand(const std::string& name, Type type) {
  if (name == "neg") return unary<Negate>(type);
  if (name == "abs") return unary<Absolute>(type);
  if (name == "not") return unary<Not>(type);
  if (name == "brev")
    return for_bits(type, []<class T>(T) -> Run { return apply<ReverseBits, T, T>; });
  return nullptr;
}
Run with_two_operands(const std::string& name, Type type) {
  if (name == "add") return binary<Add>(type);
  if (name == "sub") return binary<Subtract>(type);
  if (name == "div") return binary<Divide>(type);
  if (name == "rem") return binary<Remainder>(type);
  if (name == "min") return binary<Least>(type);
  if (name == "max") return binary<Largest>(type);
  if (name == "and") return binary<And>(type);
  if (name == "or") return binary<Or>(type);
  if (name == "xor") return binary<Xor>(type);
  return nullptr;
}

bool decode_products(Decoding& d) {
  const bool sum = d.name() == "mad";
  const Type type = d.type();
  if ((!sum && d.name() != "mul") || !d.only({"lo", "hi", "wide"})) return false;
  const int sources = sum ? 3 : 2;
  if (d.has("lo"))
    return finish(d, sum ? ternary<MultiplyLow>(type) : binary<MultiplyLow>(type), sources);
  if (d.has("hi"))
    return finish(d, sum ? ternary<MultiplyHigh>(type) : binary<MultiplyHigh>(type), sources);
  if (type.bits > 32) return false;
  const Run run = for_integer(type, [&]<class T>(T) -> Run {
    if constexpr (sizeof(T) == 8) {
      return nullptr;
    } else {
      return sum ? apply<MultiplyWide, Wide<T>, T, T, Wide<T>> : apply<MultiplyWide, Wide<T>, T, T>;
    }
  });
  return finish(d, run, sources, 2 * type.bytes(), sum ? 2 * type.bytes() : 0);
}

bool decode_shifts(Decoding& d) {
  const Type type = d.type();
  if (d.name() == "shl" && d.only({}))
    return finish(
        d, for_bits(type, []<class T>(T) -> Run { return apply<ShiftLeft, T, T, std::uint32_t>; }),
        2, 0, 4);
  if (d.name() == "shr" && d.only({}))
    return finish(
        d,
        for_integer(type, []<class T>(T) -> Run { return apply<ShiftRight, T, T, std::uint32_t>; }),
        2, 0, 4);
  if (d.name() == "shf" && d.only({"l", "r", "wrap", "clamp"}) && type.bits == 32) {
    using U = std::uint32_t;
    const bool wrap = d.has("wrap");
    const Run left = wrap ? apply<FunnelLeft, U, U, U, U> : apply<FunnelLeftClamped, U, U, U, U>;
    const Run right = wrap ? apply<FunnelRight, U, U, U, U> : apply<FunnelRightClamped, U, U, U, U>;
    return finish(d, d.has("l") ? left : right, 3);
  }
  return false;
}

bool decode_bits(Decoding& d) {
  using U = std::uint32_t;
  const Type type = d.type();
  if (!d.only({"b32"})) return false;
  if (d.name() == "prmt" && d.statement.operation.size() == 2)
    return finish(d, apply<PermuteBytes, U, U, U, U>, 3);
  if (d.name() == "popc")
    return finish(d, for_bits(type, []<class T>(T) -> Run { return apply<CountOnes, U, T>; }), 1,
                  4);
  if (d.name() == "clz")
    return finish(d, for_bits(type, []<class T>(T) -> Run { return apply<LeadingZeros, U, T>; }), 1,
                  4);
  if (d.name() == "lop3") {
    for (int k = 0; k < 4; ++k) d.operand(k, 4);
    d.to.number = std::stoll(d.operand_text(4), nullptr, 0);
    d.to.run = logic_of_three;
    return true;
  }
  if (d.name() == "bfe" && type.bits >= 32) {
    d.operand(0, type.bytes()), d.operand(1, type.bytes()), d.operand(2, 4), d.operand(3, 4);
    d.to.run = for_integer(type, []<class T>(T) -> Run { return apply<ExtractField, T, T, U, U>; });
    return true;
  }
  if (d.name() == "bfi" && type.bits >= 32) {
    for (int k = 0; k < 3; ++k) d.operand(k, type.bytes());
    d.operand(3, 4), d.operand(4, 4);
    d.to.run = for_bits(type, []<class T>(T) -> Run { return apply<InsertField, T, T, T, U, U>; });
    return true;
  }
  return false;
}

}  // namespace

bool decode_integers(Decoding& d) {
  const Type type = d.type();
  if (std::string_view("usb").find(type.kind) == std::string_view::npos || type.bits == 0)
    return false;
  if (decode_products(d) || decode_shifts(d) || decode_bits(d)) return true;
  if (!d.only({})) return false;
  if (const Run run = with_one_operand(d.name(), type)) return finish(d, run, 1);
  if (const Run run = with_two_operands(d.name(), type)) return finish(d, run, 2);
  return false;
}

}  // namespace trireme::ptx
