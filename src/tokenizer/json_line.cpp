// One pass that checks the grammar and notes where values lie; then the strings asked for.
#include "tokenizer/json_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using namespace std::string_view_literals;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Scanner {
 public:
  explicit Scanner(std::string_view line) : line_(line) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (line.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }

  // Calls `on_field(quoted key, value)` for each field of the object that the line is.
  template <class OnField>
  void read_object(const OnField& on_field) {
    skip_blanks();
    const std::size_t begin = at_;
    if (peek() != '{') {
      value(0);
      read_end();
      fail_input("not a JSON object but {}", shown(line_.substr(begin)));
    }
    ++at_;
    for (bool first = true;; first = false) {
      skip_blanks();
      if (first && peek() == '}') break;
      if (peek() != '"') refuse("expected a key in double quotes");
      const std::string_view key = string();
      skip_blanks();
      if (peek() != ':') refuse("expected a ':'");
      ++at_;
      skip_blanks();
      const std::size_t from = at_;
      value(1);
      on_field(key, line_.substr(from, at_ - from));
      skip_blanks();
      if (peek() == '}') break;
      if (peek() != ',') refuse("expected a ',' or '}'");
      ++at_;
    }
    ++at_;
    read_end();
  }

  // Calls `on_value(value)` for each value of a list that is known to be one.
  template <class OnValue>
  void read_list(const OnValue& on_value) {
    ++at_;
    for (skip_blanks(); peek() != ']'; skip_blanks()) {
      if (peek() == ',') {
        ++at_;
        skip_blanks();
      }
      const std::size_t from = at_;
      value(1);
      on_value(line_.substr(from, at_ - from));
    }
  }

  // Formats a value that is known to be well-formed for a message.
  static std::string shown(std::string_view value) {
    if (value.starts_with('{')) return "an object";
    if (value.starts_with('[')) return "a list";
    value = value.substr(0, value.find_last_not_of(" \t\r\n") + 1);
    const std::string kind = value.starts_with('"')                         ? "the string "
                             : value.starts_with('-') || is_digit(value[0]) ? "the number "
                                                                            : "";
    return kind + to_valid_utf8(value.size() <= 80 ? value : value.substr(0, 77)) +
           (value.size() <= 80 ? "" : "...");
  }

 private:
  char peek() const { return at_ < line_.size() ? line_[at_] : '\n'; }
  bool ended() const { return at_ == line_.size(); }

  void skip_blanks() {
    while (!ended() && " \t\r\n"sv.find(line_[at_]) != std::string_view::npos) ++at_;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    if (ended()) what = "the text ends before its value is complete";
    if (peek() == '\0') what = "there are NUL bytes, as in a file that is padded or was cut off";
    const std::string_view before = line_.substr(0, at_);
    const auto column =
        1 + std::ranges::count_if(before, [](char c) { return (c & 0xC0) != 0x80; });
    fail_input("not JSON: column {}: {}", column, what);
  }

  void read_end() {
    skip_blanks();
    if (!ended()) refuse("unexpected text after the end");
  }

  void value(int depth) {
    if (depth >= max_json_depth && (peek() == '{' || peek() == '[')) {
      refuse(fmt::format("values are nested more than {} levels deep", max_json_depth));
    }
    switch (peek()) {
      case '"':
        string();
        return;
      case '{':
        return fields(depth);
      case '[':
        return values(depth);
      default:
        if (peek() == '-' || is_digit(peek())) return number();
        return word();
    }
  }

  void fields(int depth) {
    ++at_;
    for (bool first = true;; first = false) {
      skip_blanks();
      if (first && peek() == '}') break;
      if (peek() != '"') refuse("expected a key in double quotes");
      string();
      skip_blanks();
      if (peek() != ':') refuse("expected a ':'");
      ++at_;
      skip_blanks();
      value(depth + 1);
      skip_blanks();
      if (peek() == '}') break;
      if (peek() != ',') refuse("expected a ',' or '}'");
      ++at_;
    }
    ++at_;
  }

  void values(int depth) {
    ++at_;
    for (bool first = true;; first = false) {
      skip_blanks();
      if (first && peek() == ']') break;
      value(depth + 1);
      skip_blanks();
      if (peek() == ']') break;
      if (peek() != ',') refuse("expected a ',' or ']'");
      ++at_;
    }
    ++at_;
  }

  // The string with its quotes.
  std::string_view string() {
    const std::size_t begin = at_++;
    for (;; ++at_) {
      if (ended()) refuse("a string has no closing quote");
      const char c = line_[at_];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < ' ') {
        refuse("a string contains an unescaped control character, such as a line break");
      }
      if (c == '\\') escape();
    }
    ++at_;
    return line_.substr(begin, at_ - begin);
  }

  void escape() {
    ++at_;
    if (ended()) refuse("");
    if (line_[at_] != 'u') {
      if ("\"\\/bfnrt"sv.find(line_[at_]) == std::string_view::npos) {
        refuse("a backslash in a string does not begin an escape");
      }
      return;
    }
    for (int digit = 0; digit < 4; ++digit) {
      ++at_;
      if (ended()) refuse("");
      if (!std::isxdigit(static_cast<unsigned char>(line_[at_]))) {
        refuse("a backslash in a string does not begin an escape");
      }
    }
  }

  void digits() {
    if (!is_digit(peek())) refuse("a number is malformed");
    while (is_digit(peek())) ++at_;
  }

  void number() {
    if (peek() == '-') {
      ++at_;
      if (peek() == 'I') return word();
    }
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
  }

  void word() {
    for (const std::string_view known : {"true"sv, "false"sv, "null"sv, "NaN"sv, "Infinity"sv}) {
      if (line_.substr(at_, known.size()) != known) continue;
      at_ += known.size();
      return;
    }
    refuse("expected a value");
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

int hex4(std::string_view digits) {
  int value = 0;
  for (const char c : digits.substr(0, 4)) {
    value = value << 4 | (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

// Decodes an escape `\uHHHH` at the beginning of `rest`, and a second one that completes a pair of
// surrogates; takes them off. An unpaired surrogate is replaced.
char32_t take_code_point(std::string_view& rest, bool& replaced) {
  const int unit = hex4(rest.substr(2));
  rest.remove_prefix(6);
  if (unit < 0xD800 || unit >= 0xE000) return static_cast<char32_t>(unit);
  const int low = unit < 0xDC00 && rest.starts_with("\\u") ? hex4(rest.substr(2)) : 0;
  if (low < 0xDC00 || low >= 0xE000) {
    replaced = true;
    return kReplacement;
  }
  rest.remove_prefix(6);
  return static_cast<char32_t>(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
}

// Decodes a well-formed string that has escapes, without its quotes.
std::string decoded(std::string_view rest, bool& replaced) {
  constexpr std::string_view letters = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
  std::string out;
  out.reserve(rest.size());
  while (!rest.empty()) {
    const std::size_t plain = std::min(rest.find('\\'), rest.size());
    out += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    if (rest[1] == 'u') {
      append_utf8(take_code_point(rest, replaced), out);
    } else {
      out += characters[letters.find(rest[1])];
      rest.remove_prefix(2);
    }
  }
  return out;
}

std::string decoded_name(std::string_view name) {
  bool replaced = false;
  return decoded(name, replaced);
}

}  // namespace

std::string_view JsonLine::text_of(std::string_view quoted) {
  std::string_view text = quoted.substr(1, quoted.size() - 2);
  const bool plain = text.find('\\') == text.npos, valid = is_valid_utf8(text);
  if (plain && valid) return text;
  repaired_ = repaired_ || !valid;
  // Repaired first: escapes are ASCII, and decode to valid text.
  std::string repaired;
  if (!valid) text = repaired = to_valid_utf8(text);
  return decoded_.emplace_back(plain ? std::move(repaired) : decoded(text, repaired_));
}

const std::vector<std::vector<std::string_view>>& JsonLine::read(std::string_view line) {
  std::vector<std::string_view> values(keys_.size());  // empty: none
  Scanner(line).read_object([&](std::string_view quoted, std::string_view value) {
    const std::string_view name = quoted.substr(1, quoted.size() - 2);
    const bool plain = name.find('\\') == name.npos;
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      if (plain ? name == keys_[k] : decoded_name(name) == keys_[k]) values[k] = value;
    }
  });
  texts_.resize(keys_.size());
  decoded_.clear();
  repaired_ = false;
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    texts_[k].clear();
    const std::string_view value = values[k];
    if (value.empty()) {
      nlohmann::json object = nlohmann::json::object();
      Scanner(line).read_object([&](std::string_view quoted, std::string_view) {
        object[decoded_name(to_valid_utf8(quoted.substr(1, quoted.size() - 2)))] = nullptr;
      });
      fail_input("no key \"{}\"; {}{}", keys_[k], json_keys_shown(object),
                 choice_.empty() ? "" : fmt::format(" ({} chooses)", choice_));
    }
    if (value.starts_with('"')) {
      texts_[k].push_back(text_of(value));
      continue;
    }
    if (!value.starts_with('[')) {
      fail_input("the value of \"{}\" is {}, not a string", keys_[k], Scanner::shown(value));
    }
    Scanner(value).read_list([&](std::string_view text) {
      if (!text.starts_with('"')) {
        fail_input("the list at \"{}\" holds {}, not only strings", keys_[k], Scanner::shown(text));
      }
      texts_[k].push_back(text_of(text));
    });
  }
  return texts_;
}

}  // namespace trireme
