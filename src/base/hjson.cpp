// A recursive-descent parser with bounded depth.
#include "base/hjson.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_bytes.h"
#include "base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

bool is_blank(char c) {
  return static_cast<unsigned char>(c) <= 0x20;
}

bool is_punctuation(char c) {
  return std::string_view("{}[],:").find(c) != std::string_view::npos;
}

class HjsonParser {
 public:
  HjsonParser(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  Json whole() {
    skip();
    if (end()) fault("the text is empty");
    Json result = peek() == '{' || peek() == '[' ? value(1) : members(1, true);
    skip();
    if (!end()) fault("expected the end of the text");
    return result;
  }

 private:
  bool end() const { return at_ >= text_.size(); }
  char peek() const { return end() ? '\0' : text_[at_]; }
  bool starts(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  [[noreturn]] void fault(const std::string& what) const {
    refuse_if_foreign(name_, text_);
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const std::size_t line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t last = before.rfind('\n');
    const std::size_t column = before.size() - (last == before.npos ? 0 : last + 1) + 1;
    fail_input("'{}' is not JSON: line {}, column {}: {}", name_, line, column, what);
  }

  bool at_comment() const { return peek() == '#' || starts("//") || starts("/*"); }

  void skip() {
    for (;;) {
      while (!end() && is_blank(peek())) ++at_;
      if (end() || !at_comment()) return;
      const bool block = starts("/*");
      const std::size_t stop = text_.find(block ? "*/" : "\n", at_);
      if (block && stop == text_.npos) fault("this comment has no end");
      at_ = stop == text_.npos ? text_.size() : stop + (block ? 2 : 1);
    }
  }

  Json value(int depth) {
    if (depth > max_json_depth)
      fault(fmt::format("values are nested more than {} levels deep", max_json_depth));
    if (peek() == '{' || peek() == '[') {
      const bool object = peek() == '{';
      ++at_;
      return object ? members(depth, false) : elements(depth);
    }
    if (starts("'''")) return text_in_lines();
    if (peek() == '"' || peek() == '\'') return quoted();
    return plain();
  }

  // Parses members up to the closing brace, or to the end of the text.
  Json members(int depth, bool to_the_end) {
    Json object = Json::object();
    for (;;) {
      skip();
      if (end() && to_the_end) return object;
      if (end()) fault("the text ends within an object");
      if (peek() == '}' && !to_the_end) {
        ++at_;
        return object;
      }
      const std::size_t begin = at_;
      const std::string key = name();
      if (object.contains(key)) {
        at_ = begin;
        fault(fmt::format("duplicate key '{}'", key));
      }
      skip();
      if (peek() != ':') fault(fmt::format("expected a colon after the key '{}'", key));
      ++at_;
      skip();
      object[key] = value(depth + 1);
      skip();
      if (peek() == ',') ++at_;
    }
  }

  Json elements(int depth) {
    Json list = Json::array();
    for (;;) {
      skip();
      if (end()) fault("the text ends within a list");
      if (peek() == ']') {
        ++at_;
        return list;
      }
      list.push_back(value(depth + 1));
      skip();
      if (peek() == ',') ++at_;
    }
  }

  std::string name() {
    if (peek() == '"' || peek() == '\'') return quoted();
    const std::size_t begin = at_;
    while (!end() && !is_blank(peek()) && !is_punctuation(peek())) ++at_;
    if (at_ == begin) fault("expected a key");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string quoted() {
    const std::size_t begin = at_;
    const char quote = text_[at_++];
    std::string json = "\"";
    while (!end() && peek() != quote) {
      if (peek() == '\n') fault("a string in quotes must end on the same line");
      if (peek() == '"') json += '\\';  // double quote inside single quotes
      const bool escape = peek() == '\\' && at_ + 1 < text_.size();
      if (escape && text_[at_ + 1] == '\'')
        ++at_;
      else if (escape)
        json += text_[at_++];
      json += text_[at_++];
    }
    if (end()) fault("a string in quotes has no end");
    ++at_;
    const Json parsed = Json::parse(json + "\"", nullptr, false);
    if (parsed.is_string()) return parsed.get<std::string>();
    at_ = begin;
    fault("this string has an invalid escape, or is not UTF-8");
  }

  // ''' strings: the indentation of the first line is removed from all lines.
  std::string text_in_lines() {
    const std::size_t line = text_.rfind('\n', at_);
    const std::size_t indentation = at_ - (line == text_.npos ? 0 : line + 1);
    at_ += 3;
    const std::size_t stop = text_.find("'''", at_);
    if (stop == text_.npos) fault("a string in ''' has no end");
    std::string_view rest = text_.substr(at_, stop - at_);
    at_ = stop + 3;
    const std::size_t first = rest.find_first_not_of(" \t\r");
    if (first != rest.npos && rest[first] == '\n') rest.remove_prefix(first + 1);
    std::string result;
    for (bool more = true; more;) {
      const std::size_t stop_of_line = rest.find('\n');
      more = stop_of_line != rest.npos;
      std::string_view one = rest.substr(0, stop_of_line);
      std::size_t blanks = 0;
      while (blanks < std::min(indentation, one.size()) && is_blank(one[blanks])) ++blanks;
      one.remove_prefix(blanks);
      if (one.ends_with('\r')) one.remove_suffix(1);
      result += one;
      if (more) result += '\n';
      if (more) rest.remove_prefix(stop_of_line + 1);
    }
    if (result.ends_with('\n')) result.pop_back();
    return result;
  }

  // A number, true, false or null if a comma, a bracket, a comment or the end of the line follows;
  // otherwise the rest of the line is an unquoted string.
  Json plain() {
    if (is_punctuation(peek()) || end()) fault("expected a value");
    const std::size_t begin = at_;
    for (;; ++at_) {
      const bool line_ends = end() || peek() == '\n';
      if (!line_ends && peek() != ',' && peek() != '}' && peek() != ']' && !at_comment()) continue;
      std::string_view word = text_.substr(begin, at_ - begin);
      while (!word.empty() && is_blank(word.back())) word.remove_suffix(1);
      const Json parsed = word.size() < 64 ? Json::parse(word, nullptr, false) : Json();
      if (parsed.is_number() || parsed.is_boolean() || word == "null") return parsed;
      if (line_ends) return std::string(word);
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

}  // namespace

nlohmann::json parse_hjson(std::string_view text, const std::string& name) {
  return HjsonParser(text, name).whole();
}

}  // namespace trireme
