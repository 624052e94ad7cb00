// Implements float arithmetic. Sums, products, quotients and roots follow IEEE; single-precision
// NaN is canonical, as on the hardware. Approximations deviate by NVIDIA's documented bounds.
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/gpu/ptx/approximations.h"
#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"

namespace trireme::ptx {
namespace {

float canonical(float x) {
  return x != x ? std::bit_cast<float>(0x7fffffffu) : x;
}
double canonical(double x) {
  return x;
}

struct Add {
  template <class T>
  static T of(T a, T b) {
    return canonical(a + b);
  }
};
struct Subtract {
  template <class T>
  static T of(T a, T b) {
    return canonical(a - b);
  }
};
struct Multiply {
  template <class T>
  static T of(T a, T b) {
    return canonical(a * b);
  }
};
struct MultiplyAdd {
  template <class T>
  static T of(T a, T b, T c) {
    return canonical(std::fma(a, b, c));
  }
};
struct Divide {
  template <class T>
  static T of(T a, T b) {
    return canonical(a / b);
  }
};
struct SquareRoot {
  template <class T>
  static T of(T a) {
    return canonical(std::sqrt(a));
  }
};
struct Reciprocal {
  template <class T>
  static T of(T a) {
    return canonical(1 / a);
  }
};
struct Negate {
  template <class T>
  static T of(T a) {
    return -a;
  }
};
struct Absolute {
  template <class T>
  static T of(T a) {
    return std::fabs(a);
  }
};
// Returns the other number if one of the two is NaN; -0 is less than 0.
template <bool largest>
struct Extreme {
  template <class T>
  static T of(T a, T b) {
    if (a != a) return canonical(b);
    if (b != b) return a;
    if (a == b) return std::signbit(a) == largest ? b : a;
    return (a < b) == largest ? b : a;
  }
};
// Returns NaN if one of the two is NaN.
template <bool largest>
struct ExtremeOrNaN {
  template <class T>
  static T of(T a, T b) {
    return a != a || b != b ? canonical(a + b) : Extreme<largest>::of(a, b);
  }
};
struct CopySign {
  template <class T>
  static T of(T sign, T size) {
    return std::copysign(size, sign);
  }
};

// --- single precision with directed rounding ---

enum class Rounding { down, up, to_zero };

// Returns hi + lo, computed exactly, as the float that the rounding mode requires.
template <Rounding rounding>
float rounded(double hi, double lo) {
  float f = static_cast<float>(hi);
  if (!std::isfinite(f)) return canonical(f);
  const bool down = rounding == Rounding::down || (rounding == Rounding::to_zero && hi > 0);
  const double as_double = f;
  const float infinity = std::numeric_limits<float>::infinity();
  if (down && (as_double > hi || (as_double == hi && lo < 0))) f = std::nextafter(f, -infinity);
  if (!down && (as_double < hi || (as_double == hi && lo > 0))) f = std::nextafter(f, infinity);
  return f;
}
// Returns the rounding error of the sum of two doubles.
double rest_of(double a, double b, double sum) {
  const double from_b = sum - a;
  return (a - (sum - from_b)) + (b - from_b);
}
template <Rounding rounding>
struct DirectedMultiplyAdd {
  static float of(float a, float b, float c) {
    const double product = double{a} * b;  // exact
    const double sum = product + c;
    return rounded<rounding>(sum, rest_of(product, c, sum));
  }
};
template <Rounding rounding>
struct DirectedAdd {
  static float of(float a, float b) {
    const double sum = double{a} + b;
    return rounded<rounding>(sum, rest_of(a, b, sum));
  }
};
template <Rounding rounding>
struct DirectedMultiply {
  static float of(float a, float b) { return rounded<rounding>(double{a} * b, 0); }
};

// --- modifiers ---

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
// .ftz: subnormal numbers become zero.
template <class F>
struct Flushed {
  template <class... T>
  static float of(T... x) {
    return flushed(F::of(flushed(x)...));
  }
};
// .sat: clamps to [0, 1]; NaN becomes 0.
template <class F>
struct Saturated {
  template <class... T>
  static float of(T... x) {
    const float y = F::of(x...);
    return y > 0 ? (y < 1 ? y : 1.0f) : 0.0f;
  }
};

template <class F, int sources>
struct Single {
  template <class G>
  static Run with() {
    if constexpr (sources == 1) return apply<G, float, float>;
    if constexpr (sources == 2) return apply<G, float, float, float>;
    if constexpr (sources == 3) return apply<G, float, float, float, float>;
  }
  static Run run(bool ftz, bool sat) {
    if (sat) return ftz ? with<Saturated<Flushed<F>>>() : with<Saturated<F>>();
    return ftz ? with<Flushed<F>>() : with<F>();
  }
};
template <class F, int sources>
Run of_type(const Decoding& d) {
  if (d.type().bits == 32) return Single<F, sources>::run(d.has("ftz"), d.has("sat"));
  if constexpr (sources == 1) return apply<F, double, double>;
  if constexpr (sources == 2) return apply<F, double, double, double>;
  if constexpr (sources == 3) return apply<F, double, double, double, double>;
}
template <template <Rounding> class F, int sources>
Run directed(const Decoding& d) {
  if (d.type().bits != 32) return nullptr;
  const bool ftz = d.has("ftz"), sat = d.has("sat");
  if (d.has("rm")) return Single<F<Rounding::down>, sources>::run(ftz, sat);
  if (d.has("rp")) return Single<F<Rounding::up>, sources>::run(ftz, sat);
  return Single<F<Rounding::to_zero>, sources>::run(ftz, sat);
}

Run rounded_operation(const Decoding& d, int& sources) {
  const std::string& name = d.name();
  const bool nearest = !d.has("rm") && !d.has("rp") && !d.has("rz");
  sources = name == "fma" || name == "mad" ? 3 : name == "sqrt" || name == "rcp" ? 1 : 2;
  if (name == "fma" || name == "mad")
    return nearest ? of_type<MultiplyAdd, 3>(d) : directed<DirectedMultiplyAdd, 3>(d);
  if (name == "add") return nearest ? of_type<Add, 2>(d) : directed<DirectedAdd, 2>(d);
  if (name == "mul") return nearest ? of_type<Multiply, 2>(d) : directed<DirectedMultiply, 2>(d);
  if (!nearest) return nullptr;
  if (name == "sub") return of_type<Subtract, 2>(d);
  if (name == "div") return of_type<Divide, 2>(d);
  if (name == "sqrt") return of_type<SquareRoot, 1>(d);
  if (name == "rcp") return of_type<Reciprocal, 1>(d);
  return nullptr;
}

Run unrounded_operation(const Decoding& d, int& sources) {
  const std::string& name = d.name();
  sources = name == "neg" || name == "abs" ? 1 : 2;
  if (name == "neg") return of_type<Negate, 1>(d);
  if (name == "abs") return of_type<Absolute, 1>(d);
  if (name == "copysign") return of_type<CopySign, 2>(d);
  if (name == "min")
    return d.has("NaN") ? of_type<ExtremeOrNaN<false>, 2>(d) : of_type<Extreme<false>, 2>(d);
  if (name == "max")
    return d.has("NaN") ? of_type<ExtremeOrNaN<true>, 2>(d) : of_type<Extreme<true>, 2>(d);
  return nullptr;
}

Run approximated_operation(const Decoding& d, int& sources) {
  sources = d.name() == "div" ? 2 : 1;
  if (d.type().bits != 32) return nullptr;
  if (d.name() == "ex2") return of_type<approximated::PowerOfTwo, 1>(d);
  if (d.name() == "lg2") return of_type<approximated::Logarithm, 1>(d);
  if (d.name() == "rcp") return of_type<approximated::Reciprocal, 1>(d);
  if (d.name() == "sqrt") return of_type<approximated::Root, 1>(d);
  if (d.name() == "rsqrt") return of_type<approximated::ReciprocalRoot, 1>(d);
  if (d.name() == "sin") return of_type<approximated::Sine, 1>(d);
  if (d.name() == "cos") return of_type<approximated::Cosine, 1>(d);
  if (d.name() == "tanh") return of_type<approximated::HyperbolicTangent, 1>(d);
  if (d.name() == "div") return of_type<approximated::Quotient, 2>(d);
  return nullptr;
}

}  // namespace

bool decode_floats(Decoding& d) {
  const Type type = d.type();
  if (type.kind != 'f' || type.bits < 32) return false;
  Run run = nullptr;
  int sources = 0;
  if (d.only({"rn", "rz", "rm", "rp", "ftz", "sat"})) run = rounded_operation(d, sources);
  if (!run && d.only({"ftz", "NaN"})) run = unrounded_operation(d, sources);
  if (!run && (d.has("approx") || d.has("full")) && d.only({"approx", "full", "ftz"}))
    run = approximated_operation(d, sources);
  if (!run) return false;
  for (int k = 0; k <= sources; ++k) d.operand(k, type.bytes());
  d.to.run = run;
  return true;
}

}  // namespace trireme::ptx
