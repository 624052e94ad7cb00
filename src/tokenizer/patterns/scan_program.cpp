// Parser of regular expressions; it builds programs from their ends, so each node knows the next.
#include "tokenizer/patterns/scan_program.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::size_t kMostNodes = 4096;
constexpr int kMostRepeats = 100;
constexpr int kMostDepth = 50;

// Thrown where a pattern has something that scanning does not know.
struct NotScannable {};

struct Part {
  enum class Kind { set, look, sequence, alternatives, repeat } kind;
  std::uint16_t set = 0;
  bool negated = false;     // look
  bool greedy = true;       // repeat
  int least = 0, most = 0;  // repeat; most -1: without limit
  std::vector<Part> parts;

  bool may_be_empty() const {
    const auto empty = [](const Part& part) { return part.may_be_empty(); };
    switch (kind) {
      case Kind::set:
        return false;
      case Kind::look:
        return true;
      case Kind::sequence:
        return std::all_of(parts.begin(), parts.end(), empty);
      case Kind::alternatives:
        return std::any_of(parts.begin(), parts.end(), empty);
      case Kind::repeat:
        return least == 0;
    }
    return true;
  }
};

class ScanParser {
 public:
  explicit ScanParser(std::string_view pattern) : rest_(pattern) {}

  Part parse() {
    Part all = alternatives(false);
    if (!rest_.empty() || all.may_be_empty()) throw NotScannable();
    return all;
  }
  std::vector<std::string> sets() && { return std::move(sets_); }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  Part alternatives(bool any_case) {
    if (++depth_ > kMostDepth) throw NotScannable();
    Part all{.kind = Part::Kind::alternatives};
    do {
      Part one{.kind = Part::Kind::sequence};
      before_ = '\0';
      after_any_case_ = false;
      while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
        one.parts.push_back(quantified(item(any_case)));
      }
      all.parts.push_back(std::move(one));
    } while (take("|"));
    after_any_case_ = any_case;
    --depth_;
    return all;
  }

  Part item(bool any_case) {
    // Two such parts in a row might have a pair of characters together, see check_single().
    if (any_case && rest_.starts_with("(")) throw NotScannable();
    if (rest_.starts_with("(?i:") && after_any_case_) throw NotScannable();
    if (take("(?i:")) return group(true);
    after_any_case_ = false;
    if (take("(?!")) return look(true);
    if (take("(?=")) return look(false);
    if (take("(?:")) return group(false);
    if (rest_.starts_with("(?")) throw NotScannable();
    if (take("(")) return group(false);
    return set(any_case);
  }

  Part group(bool any_case) {
    Part inner = alternatives(any_case);
    if (!take(")")) throw NotScannable();
    return inner;
  }

  Part look(bool negated) {
    Part part = set(false);
    if (!take(")")) throw NotScannable();
    part.kind = Part::Kind::look;
    part.negated = negated;
    return part;
  }

  // One character, escape or bracket.
  Part set(bool any_case) {
    const std::string_view text = rest_.substr(0, set_length());
    if (any_case) check_single(text);
    rest_.remove_prefix(text.size());
    std::string source = any_case ? "(?i:" + std::string(text) + ")" : std::string(text);
    const auto found = std::find(sets_.begin(), sets_.end(), source);
    const auto index = static_cast<std::uint16_t>(found - sets_.begin());
    if (found == sets_.end()) sets_.push_back(std::move(source));
    if (sets_.size() > ScanProgram::kMostSets) throw NotScannable();
    return {.kind = Part::Kind::set, .set = index};
  }

  // Without regard to case some pairs of characters are equal to a single one, as "ss" is to
  // U+00DF. Of ASCII characters these are among ff, fi, fl, ss and st.
  void check_single(std::string_view text) {
    const char c = text[0];
    if (text.size() != 1 || static_cast<unsigned char>(c) >= 0x80 || c == '.') throw NotScannable();
    const char now = static_cast<char>(c | 0x20);
    if ((before_ == 'f' && (now == 'f' || now == 'i' || now == 'l')) ||
        (before_ == 's' && (now == 's' || now == 't'))) {
      throw NotScannable();
    }
    before_ = now;
  }

  std::size_t set_length() const {
    if (rest_.empty()) throw NotScannable();
    if (rest_[0] == '[') return bracket_length();
    if (rest_[0] == '\\') return escape_length(0);
    if (std::string_view("^$*+?{})|(").find(rest_[0]) != std::string_view::npos) {
      throw NotScannable();
    }
    return decode_utf8(rest_.data(), rest_.data() + rest_.size()).length;
  }

  // Escapes that stand for one character, wherever they are.
  std::size_t escape_length(std::size_t at) const {
    const char kind = at + 1 < rest_.size() ? rest_[at + 1] : '\0';
    if (kind == 'p' || kind == 'P') {
      const std::size_t end = rest_.find('}', at);
      if (at + 2 >= rest_.size() || rest_[at + 2] != '{' || end == rest_.npos) throw NotScannable();
      return end + 1 - at;
    }
    const bool letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z');
    const bool digit = kind >= '0' && kind <= '9';
    const bool known = std::string_view("sSdDwWrntf").find(kind) != std::string_view::npos;
    if (kind == '\0' || static_cast<unsigned char>(kind) >= 0x80 || ((letter || digit) && !known)) {
      throw NotScannable();
    }
    return 2;
  }

  // A bracket with those in it. A ']' that comes first in one is a character.
  std::size_t bracket_length() const {
    int open = 0;
    for (std::size_t at = 0; at < rest_.size();) {
      if (rest_[at] == '\\') {
        at += escape_length(at);
      } else if (rest_[at] == '[') {
        ++open;
        ++at;
        if (at < rest_.size() && rest_[at] == '^') ++at;
        if (at < rest_.size() && (rest_[at] == ']' || rest_[at] == ':')) throw NotScannable();
      } else if (rest_[at] == ']') {
        ++at;
        if (--open == 0) return at;
      } else {
        ++at;
      }
    }
    throw NotScannable();
  }

  Part quantified(Part part) {
    int least = 0, most = 0;
    if (take("?")) {
      most = 1;
    } else if (take("*")) {
      most = -1;
    } else if (take("+")) {
      least = 1, most = -1;
    } else if (take("{")) {
      most = least = count();
      if (take(",")) most = rest_.starts_with("}") ? -1 : count();
      if (!take("}") || most == 0 || (most > 0 && most < least)) throw NotScannable();
      // What follows would not be part of this quantifier, as it is of others.
      if (rest_.starts_with("?")) throw NotScannable();
    } else {
      return part;
    }
    before_ = '\0';
    if (part.may_be_empty()) throw NotScannable();
    Part repeat{.kind = Part::Kind::repeat, .least = least, .most = most};
    repeat.greedy = !take("?");
    if (!rest_.empty() && std::string_view("?*+{").find(rest_[0]) != std::string_view::npos) {
      throw NotScannable();
    }
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  int count() {
    int value = 0;
    std::size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      value = 10 * value + (rest_[digits++] - '0');
      if (value > kMostRepeats) throw NotScannable();
    }
    if (digits == 0) throw NotScannable();
    rest_.remove_prefix(digits);
    return value;
  }

  std::string_view rest_;
  std::vector<std::string> sets_;
  int depth_ = 0;
  // In a group without regard to case: the character before, in lower case.
  char before_ = '\0';
  bool after_any_case_ = false;  // after such a group
};

class ScanBuilder {
 public:
  ScanProgram build(const Part& all, std::vector<std::string> sets) {
    program_.start = emit(all, add({.kind = ScanProgram::Kind::match}));
    program_.sets = std::move(sets);
    return std::move(program_);
  }

 private:
  using Kind = ScanProgram::Kind;

  std::uint16_t add(ScanProgram::Node node) {
    if (program_.nodes.size() == kMostNodes) throw NotScannable();
    program_.nodes.push_back(node);
    return static_cast<std::uint16_t>(program_.nodes.size() - 1);
  }

  // The first node of a part, after which `next` follows.
  std::uint16_t emit(const Part& part, std::uint16_t next) {
    switch (part.kind) {
      case Part::Kind::set:
        return add({.kind = Kind::character, .arg = part.set, .next = next});
      case Part::Kind::look:
        return add(
            {.kind = part.negated ? Kind::not_ahead : Kind::ahead, .arg = part.set, .next = next});
      case Part::Kind::sequence:
        for (std::size_t i = part.parts.size(); i-- > 0;) next = emit(part.parts[i], next);
        return next;
      case Part::Kind::alternatives: {
        std::uint16_t first = emit(part.parts.back(), next);
        for (std::size_t i = part.parts.size() - 1; i-- > 0;) {
          first = fork(emit(part.parts[i], next), first, true);
        }
        return first;
      }
      case Part::Kind::repeat:
        return emit_repeat(part, next);
    }
    return next;
  }

  std::uint16_t emit_repeat(const Part& part, std::uint16_t next) {
    const Part& inner = part.parts[0];
    std::uint16_t first = next;
    if (part.most < 0) {
      // A loop: the fork is made first and learns afterwards where the inner part begins.
      first = fork(0, next, part.greedy);
      const std::uint16_t body = emit(inner, first);
      (part.greedy ? program_.nodes[first].next : program_.nodes[first].other) = body;
    }
    for (int i = part.least; i < part.most; ++i) {
      first = fork(emit(inner, first), next, part.greedy);
    }
    for (int i = 0; i < part.least; ++i) first = emit(inner, first);
    return first;
  }

  std::uint16_t fork(std::uint16_t inner, std::uint16_t outer, bool inner_first) {
    if (!inner_first) std::swap(inner, outer);
    return add({.kind = Kind::fork, .next = inner, .other = outer});
  }

  ScanProgram program_;
};

}  // namespace

std::optional<ScanProgram> compile_scan_program(std::string_view pattern) {
  try {
    ScanParser parser(pattern);
    const Part all = parser.parse();
    return ScanBuilder().build(all, std::move(parser).sets());
  } catch (const NotScannable&) {
    return std::nullopt;
  }
}

}  // namespace trireme
