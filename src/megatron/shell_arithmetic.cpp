// Arithmetic of $((...)): a parser by precedence over 64-bit integers that refuses to overflow.
#include <charconv>
#include <functional>

#include "megatron/shell_expand.h"
#include "megatron/shell_lexer.h"

namespace trireme::megatron {
namespace {

constexpr int kDeepest = 24;
using Value = std::optional<std::int64_t>;

class Arithmetic {
 public:
  Arithmetic(std::string_view text, ShellState& state, int depth)
      : text_(text), state_(state), depth_(depth) {}

  Value run() {
    if (depth_ > kDeepest) return std::nullopt;
    state_.spend(text_.size());
    Value value = conditional();
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }

  bool take(std::string_view sign) {
    skip();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  struct Deeper {
    explicit Deeper(int& depth) : depth(++depth) {}
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& depth;
  };

  Value conditional() {
    const Deeper deeper(depth_);
    if (depth_ > kDeepest) return std::nullopt;
    Value condition = binary(0);
    if (!take("?")) return condition;
    Value yes = conditional();
    if (!take(":")) return std::nullopt;
    Value no = conditional();
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }

  // Operators by rising precedence; longer signs stand before their beginnings.
  Value binary(int level) {
    static const std::vector<std::vector<std::string_view>> levels = {
        {"||"}, {"&&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"**", "*", "/", "%"}};
    if (level == static_cast<int>(levels.size())) return unary();
    Value left = binary(level + 1);
    while (true) {
      std::string_view found;
      for (const std::string_view sign : levels[level]) {
        if (take(sign)) {
          found = sign;
          break;
        }
      }
      if (found.empty()) return left;
      const Value right = binary(level + 1);
      left = left && right ? apply(found, *left, *right) : std::nullopt;
    }
  }

  static Value power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0 || exponent > 64) return std::nullopt;
    std::int64_t result = 1;
    for (std::int64_t i = 0; i < exponent; ++i) {
      if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
    }
    return result;
  }

  static Value apply(std::string_view sign, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (sign == "||") return a != 0 || b != 0;
    if (sign == "&&") return a != 0 && b != 0;
    if (sign == "==") return a == b;
    if (sign == "!=") return a != b;
    if (sign == "<=") return a <= b;
    if (sign == ">=") return a >= b;
    if (sign == "<") return a < b;
    if (sign == ">") return a > b;
    if (sign == "**") return power(a, b);
    bool overflow = false;
    if (sign == "+") overflow = __builtin_add_overflow(a, b, &result);
    if (sign == "-") overflow = __builtin_sub_overflow(a, b, &result);
    if (sign == "*") overflow = __builtin_mul_overflow(a, b, &result);
    if (sign == "/" || sign == "%") {
      if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
      result = sign == "/" ? a / b : a % b;
    }
    return overflow ? std::nullopt : Value(result);
  }

  Value unary() {
    const Deeper deeper(depth_);
    if (depth_ > kDeepest) return std::nullopt;
    if (take("!")) {
      const Value value = unary();
      return value ? Value(*value == 0) : value;
    }
    if (take("-")) {
      const Value value = unary();
      return value ? apply("-", 0, *value) : value;
    }
    if (take("+")) return unary();
    if (take("(")) {
      const Value value = conditional();
      return take(")") ? value : std::nullopt;
    }
    return primary();
  }

  Value primary() {
    skip();
    if (at_ >= text_.size()) return std::nullopt;
    const std::size_t begin = at_;
    if (is_name_start(text_[at_])) {
      while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
      return variable(text_.substr(begin, at_ - begin));
    }
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  Value variable(std::string_view name) const {
    const auto found = state_.variables.find(name);
    if (found == state_.variables.end() || found->second.empty()) return 0;
    const std::string text = without_unset(found->second[0]);
    if (text.empty()) return 0;
    return Arithmetic(text, state_, depth_ + 1).run();
  }

  std::string_view text_;
  ShellState& state_;
  int depth_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression, ShellState& state) {
  if (expression.find_first_not_of(" \t\n") == std::string_view::npos) return 0;
  return Arithmetic(expression, state, 0).run();
}

}  // namespace trireme::megatron
