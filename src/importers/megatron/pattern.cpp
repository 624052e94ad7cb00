// Recursive-descent parser for layer patterns.
#include "importers/megatron/pattern.h"

#include <charconv>

namespace trireme::megatron {
namespace {

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> read() {
    std::vector<std::int64_t> pattern;
    const bool good = sum(pattern) && skip_spaces() == text_.size();
    if (!good) return std::nullopt;
    return pattern;
  }

 private:
  static constexpr std::size_t longest = 100000;

  std::size_t skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_;
  }
  bool take(char c) {
    if (skip_spaces() == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool number(std::int64_t& value) {
    skip_spaces();
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    at_ += static_cast<std::size_t>(end - begin);
    return error == std::errc() && value >= 0;
  }
  bool sum(std::vector<std::int64_t>& out) {
    do {
      if (!product(out)) return false;
    } while (take('+'));
    return true;
  }
  bool product(std::vector<std::int64_t>& out) {
    std::vector<std::int64_t> part;
    if (take('(')) {
      if (!sum(part) || !take(')')) return false;
    } else if (!list(part)) {
      return false;
    }
    std::int64_t times = 1;
    if (take('*') && !number(times)) return false;
    if (part.empty()) return true;
    if (times > static_cast<std::int64_t>(longest / part.size())) return false;
    for (std::int64_t i = 0; i < times; ++i) out.insert(out.end(), part.begin(), part.end());
    return out.size() <= longest;
  }
  bool list(std::vector<std::int64_t>& out) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!number(out.emplace_back())) return false;
    } while (take(','));
    return take(']');
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<Pattern> read_pattern(std::string_view text) {
  std::int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc() && end == last) return Pattern{true, {number}};
  auto values = PatternReader(text).read();
  if (!values) return std::nullopt;
  return Pattern{false, *std::move(values)};
}

}  // namespace trireme::megatron
