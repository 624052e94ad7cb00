// A parser by precedence over the words of a test; "not known" spreads as in three-valued logic.
#include "megatron/shell_test.h"

#include <algorithm>
#include <array>

namespace trireme::megatron {
namespace {

constexpr int kDeepest = 32;
using Truth = std::optional<bool>;

Truth both(Truth a, Truth b) {
  if ((a && !*a) || (b && !*b)) return false;
  return a && b ? Truth(true) : std::nullopt;
}

Truth opposite(Truth a) {
  return a ? Truth(!*a) : a;
}

Truth either(Truth a, Truth b) {
  return opposite(both(opposite(a), opposite(b)));
}

bool is_binary(const std::string& word) {
  static constexpr std::array signs = {"=",   "==",  "!=",  "=~",  "<",   ">",
                                       "-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
  return std::find(signs.begin(), signs.end(), word) != signs.end();
}

class Test {
 public:
  Test(const std::vector<std::string>& words, bool patterns, ShellState& state)
      : words_(words), patterns_(patterns), state_(state) {}

  Truth run() {
    const Truth value = disjunction(0);
    return at_ == words_.size() ? value : std::nullopt;
  }

 private:
  bool take(const char* sign) {
    if (at_ >= words_.size() || words_[at_] != sign) return false;
    ++at_;
    return true;
  }

  Truth disjunction(int depth) {
    Truth value = conjunction(depth);
    while (take("||") || take("-o")) value = either(value, conjunction(depth));
    return value;
  }

  Truth conjunction(int depth) {
    Truth value = term(depth);
    while (take("&&") || take("-a")) value = both(value, term(depth));
    return value;
  }

  Truth term(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (at_ >= words_.size()) return false;
    const bool compares = at_ + 2 < words_.size() && is_binary(words_[at_ + 1]);
    if (!compares && take("!")) return opposite(term(depth + 1));
    if (!compares && take("(")) {
      const Truth value = disjunction(depth + 1);
      return take(")") ? value : std::nullopt;
    }
    const std::string first = words_[at_++];
    if (at_ < words_.size() && is_binary(words_[at_])) {
      const std::string sign = words_[at_++];
      // An empty variable without quotes leaves nothing to compare with.
      const std::string second = at_ < words_.size() ? words_[at_++] : "";
      return compare(first, sign, second);
    }
    if (first.size() == 2 && first[0] == '-' && at_ < words_.size()) return unary(first[1]);
    if (has_unknown(first)) return std::nullopt;
    const bool lonely_sign = first == "-z";
    return lonely_sign || !without_unset(first).empty();
  }

  Truth unary(char sign) {
    const std::string word = words_[at_++];
    if (sign == 'v') return state_.variables.contains(word);
    if (sign != 'z' && sign != 'n') return std::nullopt;  // files, terminals
    if (has_unknown(word)) return std::nullopt;
    return without_unset(word).empty() == (sign == 'z');
  }

  Truth compare(const std::string& first, const std::string& sign,
                const std::string& second) const {
    if (has_unknown(first) || has_unknown(second) || sign == "=~") return std::nullopt;
    const std::string a = without_unset(first), b = without_unset(second);
    if (sign[0] == '-') return compare_numbers(a, sign, b);
    if (sign == "<") return a < b;
    if (sign == ">") return a > b;
    const bool equal = patterns_ ? shell_match(a, b, state_) : a == b;
    return equal == (sign != "!=");
  }

  Truth compare_numbers(const std::string& first, const std::string& sign,
                        const std::string& second) const {
    const auto a = shell_arithmetic(first, state_), b = shell_arithmetic(second, state_);
    if (!a || !b) return std::nullopt;
    if (sign == "-eq") return *a == *b;
    if (sign == "-ne") return *a != *b;
    if (sign == "-lt") return *a < *b;
    if (sign == "-le") return *a <= *b;
    if (sign == "-gt") return *a > *b;
    return *a >= *b;
  }

  const std::vector<std::string>& words_;
  bool patterns_;
  ShellState& state_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<bool> shell_test(const std::vector<std::string>& words, bool patterns,
                               ShellState& state) {
  return Test(words, patterns, state).run();
}

}  // namespace trireme::megatron
