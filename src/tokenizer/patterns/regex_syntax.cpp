// One pass over a pattern, which knows escapes, groups and POSIX brackets and leaves the rest to
// the engine.
#include "tokenizer/patterns/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 15> kPosixNames = {
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit",  "graph", "lower",
    "print", "punct", "space", "upper", "word",  "xdigit", ""};

// Properties for which a fallback agrees with the character that it replaces: the sets of
// make_unicode_ranges.py and what follows from them. In the loose spelling of names.
constexpr std::string_view kExactProperties =
    " any assigned c l m n p s z cc cf cn co cs ll lm lo lt lu mc me mn nd nl no pc pd pe pf pi po "
    "ps sc sk sm so zl zp zs other letter mark number punctuation symbol separator lowercaseletter "
    "uppercaseletter titlecaseletter modifierletter otherletter decimalnumber alphabetic alpha "
    "alnum word space digit upper lower whitespace emoji extendedpictographic common inherited "
    "latin han hiragana katakana hangul cyrillic greek arabic hebrew thai devanagari joincontrol ";

std::string loose(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-' && c != '^') {
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
  }
  return out;
}

class Reader {
 public:
  Reader(std::string_view pattern, const std::string& where) : rest_(pattern), where_(where) {}

  RegexSyntax read() {
    while (!rest_.empty()) {
      const int opened = std::exchange(opened_, 0);
      if (rest_.starts_with('\\')) {
        read_escape();
      } else if (rest_.starts_with("[:")) {
        read_posix_bracket();
      } else if (rest_.starts_with("(?") || rest_.starts_with("(*")) {
        read_group();
      } else {
        follow_brackets(rest_[0], opened);
        read_character();
      }
    }
    if (folds_case_ && names_word_) refuse("\\p{Word} without regard to case");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    fail_input(
        "{}: the regular expression uses {}, whose meaning differs between versions of Oniguruma, "
        "so the result might differ from that of Hugging Face's library; write it without",
        where_, construct);
  }

  void take(std::size_t count) {
    out_.pattern += rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  // `opened` is 1 right after a '[' and 2 after '[^', where a ']' is literal.
  void follow_brackets(char c, int opened) {
    if (c == '[') {
      ++brackets_;
      opened_ = 1;
    } else if (c == '^' && opened == 1) {
      opened_ = 2;
    } else if (c == ']' && opened == 0 && brackets_ > 0) {
      --brackets_;
    }
  }

  void read_character() {
    const DecodedChar c = decode_utf8(rest_.data(), rest_.data() + rest_.size());
    take(c.length);
    if (c.value == '-' && before_dash_ == kNone && last_ != kNone) {
      before_dash_ = last_;
    } else {
      name(c.value);
    }
  }

  void name(char32_t c) {
    if (c >= 0x80) out_.named.push_back(c);
    if (before_dash_ != kNone) out_.ranges.emplace_back(before_dash_, c);
    before_dash_ = kNone;
    last_ = c;
  }

  void read_escape() {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    if (kind == 'z' || kind == 'Z' || kind == 'R') refuse(fmt::format("\\{}", kind));
    if (kind == 'p' || kind == 'P') return read_property();
    if (kind == 'x' || kind == 'u') return read_code_point();
    if (std::string_view("123456789kgXyY").find(kind) != std::string_view::npos && kind != '\0') {
      out_.looks_closer = true;
    }
    take(1);
    if (!rest_.empty()) read_character();
  }

  void read_property() {
    const std::size_t end = rest_.starts_with("\\p{") || rest_.starts_with("\\P{")
                                ? rest_.find('}')
                                : std::string_view::npos;
    if (end == std::string_view::npos) return take(2);
    const std::string_view given = rest_.substr(3, end - 3);
    const std::string name = loose(given);
    if (name == "punct" || name == "posixpunct") refuse("\\p{" + name + "}");
    names_word_ = names_word_ || name == "word";
    if (name == "word" && brackets_ == 0) {
      // Outside of brackets the reference takes it for \w, which has six characters more.
      const bool negated = (rest_[1] == 'P') != (given.find('^') != given.npos);
      out_.pattern += negated ? "\\W" : "\\w";
      rest_.remove_prefix(end + 1);
      return;
    }
    if (kExactProperties.find(" " + name + " ") == std::string_view::npos) out_.looks_closer = true;
    take(end + 1);
  }

  // \xHH, \x{H ... H} or \uHHHH. Several code points in one pair of braces are left to the engine,
  // which 6.9.8 knows too, but their values are not read here.
  void read_code_point() {
    const bool braces = rest_.size() > 2 && rest_[2] == '{';
    const std::size_t begin = braces ? 3 : 2;
    const std::size_t most = braces ? 8 : rest_[1] == 'x' ? 2 : 4;
    std::size_t end = begin;
    while (end < rest_.size() && end < begin + most &&
           std::isxdigit(static_cast<unsigned char>(rest_[end]))) {
      ++end;
    }
    std::uint32_t value = 0;
    std::from_chars(rest_.data() + begin, rest_.data() + end, value, 16);
    name(static_cast<char32_t>(value));
    if (braces && end < rest_.size() && rest_[end] != '}') out_.looks_closer = true;
    take(end);
  }

  // [:punct:] gained the symbols in 6.9.9, and [:^alpha:] had a fault before it.
  void read_posix_bracket() {
    const std::size_t end = rest_.find(":]");
    std::string_view name = end == std::string_view::npos ? "" : rest_.substr(2, end - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.empty() ||
        std::find(kPosixNames.begin(), kPosixNames.end(), name) == kPosixNames.end()) {
      refuse("'[:' outside of a POSIX bracket such as [:alpha:]");
    }
    names_word_ = names_word_ || name == "word";
    if (name == "graph" || name == "print") out_.looks_closer = true;
    const std::string members = name == "punct" ? "\\p{P}\\p{S}" : "[:" + std::string(name) + ":]";
    out_.pattern += (negated ? "[^" : "[") + members + "]";
    rest_.remove_prefix(end + 2);
  }

  void read_group() {
    if (rest_[1] == '*') refuse("a callout (*...)");
    std::size_t end = 2;
    while (end < rest_.size() &&
           (std::isalpha(static_cast<unsigned char>(rest_[end])) || rest_[end] == '-')) {
      ++end;
    }
    const char next = end < rest_.size() ? rest_[end] : '\0';
    const std::string_view options = rest_.substr(2, end - 2);
    if (end == 2 && next == '(') refuse("a condition (?(...)");
    if (end == 2 && next == '~') refuse("an absent group (?~...)");
    if (end == 2 && next == '{') refuse("a callout (?{...})");
    if ((next == ':' || next == ')') && options.find_first_of("ILC") != std::string_view::npos) {
      refuse(fmt::format("the option (?{})", options));
    }
    folds_case_ = folds_case_ || options.find('i') != std::string_view::npos;
    if (next == 'y' || options.find('y') != std::string_view::npos) out_.looks_closer = true;
    take(end);
  }

  std::string_view rest_;
  const std::string& where_;
  RegexSyntax out_;
  static constexpr char32_t kNone = 0xFFFFFFFF;
  char32_t last_ = kNone;          // the character before
  char32_t before_dash_ = kNone;   // the one before a '-' that was just read
  int brackets_ = 0, opened_ = 0;  // see follow_brackets()
  bool folds_case_ = false;
  bool names_word_ = false;
};

}  // namespace

RegexSyntax read_regex_syntax(std::string_view pattern, const std::string& where) {
  return Reader(pattern, where).read();
}

}  // namespace trireme
