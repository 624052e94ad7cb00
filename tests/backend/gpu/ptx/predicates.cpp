// Implements comparisons, predicates and selections.
#include <cmath>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"

namespace trireme::ptx {
namespace {

enum class Order { eq, ne, lt, le, gt, ge };

template <Order order, class T>
bool holds(T a, T b) {
  if constexpr (order == Order::eq) return a == b;
  if constexpr (order == Order::ne) return a < b || a > b;  // false for NaN
  if constexpr (order == Order::lt) return a < b;
  if constexpr (order == Order::le) return a <= b;
  if constexpr (order == Order::gt) return a > b;
  return a >= b;
}
template <class T>
bool unordered(T a, T b) {
  return a != a || b != b;
}

// How a comparison is combined with an earlier predicate.
enum Combine : std::int64_t { alone, with_and, with_or, with_xor };

void finish(Warp& w, const Instruction& i, Mask result) {
  const Mask third = i.number == alone ? 0 : *w.slot<Mask>(i.at[3]);
  const auto combined = [&](Mask p) {
    if (i.number == with_and) return p & third;
    if (i.number == with_or) return p | third;
    if (i.number == with_xor) return p ^ third;
    return p;
  };
  set_predicate(w, i.at[0], combined(result));
  if (i.count == 2) set_predicate(w, i.at[4], combined(~result));
}

template <class T, class Test>
void compare(Warp& w, const Instruction& i) {
  const T *a = w.slot<T>(i.at[1]), *b = w.slot<T>(i.at[2]);
  finish(w, i, mask_of([&](int l) { return Test::of(a[l], b[l]); }));
}
template <Order order>
struct Ordered {
  template <class T>
  static bool of(T a, T b) {
    return holds<order>(a, b);
  }
};
template <Order order>
struct OrUnordered {
  template <class T>
  static bool of(T a, T b) {
    return unordered(a, b) || holds<order>(a, b);
  }
};
struct BothNumbers {
  template <class T>
  static bool of(T a, T b) {
    return !unordered(a, b);
  }
};
struct NotBothNumbers {
  template <class T>
  static bool of(T a, T b) {
    return unordered(a, b);
  }
};
template <class F>
struct FlushedTest {
  static bool of(float a, float b) {
    const auto flushed = [](float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; };
    return F::of(flushed(a), flushed(b));
  }
};

template <class T>
Run comparison(const std::string& name) {
  if (name == "eq") return compare<T, Ordered<Order::eq>>;
  if (name == "ne") return compare<T, Ordered<Order::ne>>;
  if (name == "lt" || name == "lo") return compare<T, Ordered<Order::lt>>;
  if (name == "le" || name == "ls") return compare<T, Ordered<Order::le>>;
  if (name == "gt" || name == "hi") return compare<T, Ordered<Order::gt>>;
  if (name == "ge" || name == "hs") return compare<T, Ordered<Order::ge>>;
  if constexpr (std::is_floating_point_v<T>) {
    if (name == "equ") return compare<T, OrUnordered<Order::eq>>;
    if (name == "neu") return compare<T, OrUnordered<Order::ne>>;
    if (name == "ltu") return compare<T, OrUnordered<Order::lt>>;
    if (name == "leu") return compare<T, OrUnordered<Order::le>>;
    if (name == "gtu") return compare<T, OrUnordered<Order::gt>>;
    if (name == "geu") return compare<T, OrUnordered<Order::ge>>;
    if (name == "num") return compare<T, BothNumbers>;
    if (name == "nan") return compare<T, NotBothNumbers>;
  }
  return nullptr;
}
Run flushed_comparison(const std::string& name) {
  if (name == "lt") return compare<float, FlushedTest<Ordered<Order::lt>>>;
  if (name == "le") return compare<float, FlushedTest<Ordered<Order::le>>>;
  if (name == "gt") return compare<float, FlushedTest<Ordered<Order::gt>>>;
  if (name == "ge") return compare<float, FlushedTest<Ordered<Order::ge>>>;
  if (name == "eq") return compare<float, FlushedTest<Ordered<Order::eq>>>;
  if (name == "neu") return compare<float, FlushedTest<OrUnordered<Order::ne>>>;
  return nullptr;
}

Run comparison_of(const Decoding& d) {
  const std::string& name = d.statement.operation[1];
  const Type type = d.type();
  if (type.kind == 'f') {
    if (d.has("ftz")) return flushed_comparison(name);
    if (type.bits == 32) return comparison<float>(name);
    if (type.bits == 64) return comparison<double>(name);
    return nullptr;
  }
  if (type.kind == 's') {
    if (type.bits == 16) return comparison<std::int16_t>(name);
    if (type.bits == 32) return comparison<std::int32_t>(name);
    return comparison<std::int64_t>(name);
  }
  if (type.bits == 16) return comparison<std::uint16_t>(name);
  if (type.bits == 32) return comparison<std::uint32_t>(name);
  if (type.bits == 64) return comparison<std::uint64_t>(name);
  return nullptr;
}

// Decodes setp.lt.and.f32 p|q, a, b, c.
bool decode_comparison(Decoding& d) {
  if (d.name() != "setp" || d.statement.operation.size() < 3) return false;
  d.to.run = comparison_of(d);
  if (!d.to.run) return false;
  d.to.number = d.has("and") ? with_and : d.has("or") ? with_or : d.has("xor") ? with_xor : alone;
  const std::string& results = d.operand_text(0);
  const std::size_t bar = results.find('|');
  d.to.count = bar == std::string::npos ? 1 : 2;
  d.to.at[0] = d.slots.of_predicate(results.substr(0, bar));
  if (d.to.count == 2) d.to.at[4] = d.slots.of_predicate(results.substr(bar + 1));
  d.operand(1, d.type().bytes()), d.operand(2, d.type().bytes());
  if (d.to.number != alone) d.predicate(3);
  return true;
}

template <class T>
void select(Warp& w, const Instruction& i) {
  const T *a = w.slot<T>(i.at[1]), *b = w.slot<T>(i.at[2]);
  const Mask p = *w.slot<Mask>(i.at[3]);
  set<T>(w, i.at[0], [&](int l) { return has(p, l) ? a[l] : b[l]; });
}
bool decode_selection(Decoding& d) {
  if (d.name() != "selp") return false;
  const int bytes = d.type().bytes();
  for (int k = 0; k < 3; ++k) d.operand(k, bytes);
  d.predicate(3);
  d.to.run = bytes == 8   ? select<std::uint64_t>
             : bytes == 4 ? select<std::uint32_t>
                          : select<std::uint16_t>;
  return bytes >= 2;
}

enum Logic : std::int64_t { logic_and, logic_or, logic_xor, logic_not, logic_move };

void combine(Warp& w, const Instruction& i) {
  const Mask a = *w.slot<Mask>(i.at[1]);
  const Mask b = i.number < logic_not ? *w.slot<Mask>(i.at[2]) : 0;
  const Mask results[] = {a & b, a | b, a ^ b, ~a, a};
  set_predicate(w, i.at[0], results[i.number]);
}
bool decode_logic(Decoding& d) {
  if (d.type().kind != 'p' || !d.only({})) return false;
  const std::string& name = d.name();
  if (name == "and" || name == "or" || name == "xor") {
    d.to.number = name == "and" ? logic_and : name == "or" ? logic_or : logic_xor;
    d.predicate(2);
  } else if (name == "not" || name == "mov") {
    d.to.number = name == "not" ? logic_not : logic_move;
  } else {
    return false;
  }
  d.predicate(0), d.predicate(1);
  d.to.run = combine;
  return true;
}

enum Kind : std::int64_t { finite, infinite, number, not_a_number, normal, subnormal };

template <class T>
void test_kind(Warp& w, const Instruction& i) {
  const T* a = w.slot<T>(i.at[1]);
  set_predicate(w, i.at[0], mask_of([&](int l) {
                  switch (i.number) {
                    case finite:
                      return std::isfinite(a[l]);
                    case infinite:
                      return std::isinf(a[l]);
                    case number:
                      return !std::isnan(a[l]);
                    case not_a_number:
                      return std::isnan(a[l]);
                    case normal:
                      return std::isnormal(a[l]);
                    default:
                      return std::fpclassify(a[l]) == FP_SUBNORMAL;
                  }
                }));
}
bool decode_kinds(Decoding& d) {
  if (d.name() != "testp" || d.type().kind != 'f') return false;
  constexpr const char* names[] = {"finite",     "infinite", "number",
                                   "notanumber", "normal",   "subnormal"};
  for (std::int64_t k = 0; k < 6; ++k) {
    if (d.statement.operation[1] != names[k]) continue;
    d.to.number = k;
    d.predicate(0), d.operand(1, d.type().bytes());
    d.to.run = d.type().bits == 64 ? test_kind<double> : test_kind<float>;
    return true;
  }
  return false;
}

}  // namespace

bool decode_predicates(Decoding& d) {
  return decode_comparison(d) || decode_selection(d) || decode_logic(d) || decode_kinds(d);
}

}  // namespace trireme::ptx
