// Parses statements: each ends at its semicolon; labels and braces are separate.
#include "backend/gpu/ptx/text.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace trireme::ptx {
namespace {

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

std::string trimmed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

// Splits at commas outside of brackets.
std::vector<std::string> split_operands(std::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    if (const std::string part = trimmed(text.substr(0, end)); !part.empty()) parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Splits a text into words at blanks.
std::vector<std::string> words(std::string_view text) {
  return split(trimmed(text), ' ');
}

Statement statement(const std::string& text, int line) {
  Statement s;
  s.text = text;
  s.line = line;
  std::string_view rest = text;
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    s.guard_negated = rest.starts_with('!');
    if (s.guard_negated) rest.remove_prefix(1);
    const std::size_t end = rest.find(' ');
    s.guard = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
  const std::size_t end = std::min(rest.find(' '), rest.size());
  s.operation = split(rest.substr(0, end), '.');
  s.operands = split_operands(rest.substr(end));
  return s;
}

class Parser {
 public:
  explicit Parser(std::string_view text, int line = 1) : text_(text), line_(line) {}

  ModuleText run() {
    while (skip_blanks()) {
      if (at(".visible") || at(".weak") || at(".extern") || at(".entry") || at(".global") ||
          at(".const") || at(".shared") || at(".func")) {
        declaration();
      } else {
        take_line();  // .version, .target, .address_size and debug information
      }
    }
    return std::move(module_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("PTX line " + std::to_string(line_) + ": " + what);
  }
  bool at(std::string_view word) const { return text_.substr(position_).starts_with(word); }
  char next() const { return text_[position_]; }
  void advance(std::size_t count = 1) {
    for (; count > 0 && position_ < text_.size(); --count)
      if (text_[position_++] == '\n') ++line_;
  }

  // Returns false at the end of the text.
  bool skip_blanks() {
    for (;;) {
      if (position_ >= text_.size() || next() == '\0') return false;
      if (std::isspace(static_cast<unsigned char>(next()))) {
        advance();
      } else if (at("//")) {
        take_line();
      } else if (at("/*")) {
        while (position_ < text_.size() && !at("*/")) advance();
        advance(2);
      } else {
        return true;
      }
    }
  }
  std::string take_line() { return take_to("\n"); }
  // Reads up to and including one of `ends`, which is not returned; drops comments.
  std::string take_to(std::string_view ends) {
    std::string taken;
    while (position_ < text_.size() && ends.find(next()) == std::string_view::npos) {
      if (at("//")) {
        while (position_ < text_.size() && next() != '\n') advance();
        continue;
      }
      taken += next();
      advance();
    }
    advance();
    return trimmed(taken);
  }

  void declaration() {
    const std::size_t before = position_;
    std::string head;
    // Either a variable, which ends at a semicolon, or a kernel with its parameters follows.
    while (position_ < text_.size() && next() != ';' && next() != '(' && next() != '=') {
      head += next();
      advance();
    }
    head = trimmed(head);
    if (head.find(".entry") != std::string::npos) return kernel(words(head).back());
    if (head.find(".func") != std::string::npos) fail("functions that are called are not known");
    position_ = before;
    variable(take_to(";"));
  }

  // Parses "[.visible] .global .align 4 .b8 name[16] = {1, 2}".
  void variable(const std::string& text) {
    const std::size_t equals = text.find('=');
    Variable v = declared(text.substr(0, equals));
    if (text.find(".shared") != std::string::npos) {
      if (text.find("[]") != std::string::npos) return module_.dynamic_shared.push_back(v.name);
      return module_.shared.push_back(v);
    }
    if (equals != std::string::npos) v.init = initial(text.substr(equals + 1), v);
    module_.global.push_back(v);
  }
  Variable declared(const std::string& text) const {
    Variable v;
    std::int64_t element = 0;
    const auto parts = words(text);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == ".align") {
        v.align = std::stoll(parts[++i]);
      } else if (parts[i][0] == '.') {
        if (const Type type = type_of(parts[i].substr(1)); type.bits > 0) element = type.bytes();
      } else {
        v.name += parts[i];
      }
    }
    v.bytes = element;
    if (const std::size_t bracket = v.name.find('['); bracket != std::string::npos) {
      const std::string count = v.name.substr(bracket + 1);
      v.bytes = count[0] == ']' ? 0 : element * std::stoll(count);
      v.name.resize(bracket);
    }
    v.align = std::max(v.align, element);
    if (element == 0) fail("a variable of unknown type: " + text);
    return v;
  }
  std::vector<std::byte> initial(std::string text, const Variable& v) const {
    std::erase_if(text, [](char c) { return c == '{' || c == '}'; });
    const auto values = split(text, ',');
    if (values.empty() || v.bytes % static_cast<std::int64_t>(values.size()) != 0)
      fail("initial values of " + v.name + " that are not understood");
    const auto width = static_cast<std::size_t>(v.bytes) / values.size();
    std::vector<std::byte> bytes;
    for (const std::string& value : values) {
      const auto bits = static_cast<std::uint64_t>(std::stoll(value, nullptr, 0));
      for (std::size_t i = 0; i < width; ++i) bytes.push_back(std::byte(bits >> 8 * i));
    }
    return bytes;
  }

  void kernel(const std::string& name) {
    KernelText k;
    k.name = name;
    advance();  // (
    for (const std::string& text : split_operands(take_to(")"))) {
      Variable v = declared(text);
      v.offset = (k.parameter_bytes + v.align - 1) / v.align * v.align;
      k.parameter_bytes = v.offset + v.bytes;
      k.parameters.push_back(std::move(v));
    }
    const std::string properties = take_to("{");
    if (const std::size_t at = properties.find(".maxntid"); at != std::string::npos) {
      k.most_threads = 1;
      for (const std::string& n : split(properties.substr(at + 8), ',')) {
        k.most_threads *= std::stoi(n);
        if (n.find(' ') != std::string::npos) break;  // start of the next property
      }
    }
    k.body_line = line_;
    const std::size_t begin = position_;
    for (int depth = 1; depth > 0; advance()) {
      if (position_ >= text_.size()) fail("the end of a kernel is missing");
      depth += next() == '{' ? 1 : next() == '}' ? -1 : 0;
    }
    k.body = text_.substr(begin, position_ - 1 - begin);
    module_.kernels.push_back(std::move(k));
  }

 public:
  void body(KernelText& k) {
    while (skip_blanks()) {
      if (next() == '{' || next() == '}') {
        advance();
      } else if (at(".loc ") || at(".file ")) {
        take_line();
      } else if (const std::string label = take_label(); !label.empty()) {
        labeled(k, label);
      } else {
        const int line = line_;
        one(k, take_to(";"), line);
      }
    }
  }

 private:
  std::string take_label() {
    std::size_t end = position_;
    while (end < text_.size() && in_name(text_[end])) ++end;
    if (end == position_ || end >= text_.size() || text_[end] != ':') return {};
    if (end + 1 < text_.size() && text_[end + 1] == ':') return {};
    std::string label(text_.substr(position_, end - position_));
    advance(end + 1 - position_);
    return label;
  }
  void labeled(KernelText& k, const std::string& label) {
    if (skip_blanks() && at(".branchtargets")) {
      advance(std::string_view(".branchtargets").size());
      k.branch_lists[label] = split_operands(take_to(";"));
    } else {
      k.labels[label] = static_cast<int>(k.statements.size());
    }
  }
  void one(KernelText& k, const std::string& text, int line) {
    if (text.starts_with(".reg")) {
      registers(k, text);
    } else if (text.starts_with(".shared")) {
      k.shared.push_back(declared(text));
    } else if (text.starts_with(".local")) {
      k.local.push_back(declared(text));
    } else if (!text.starts_with('.')) {  // .pragma
      k.statements.push_back(statement(text, line));
    }
  }
  // Parses ".reg .b32 %r<10>" or ".reg .pred p, q".
  void registers(KernelText& k, const std::string& text) {
    const auto parts = words(text);
    const Type type = type_of(parts.at(1).substr(1));
    if (type.bits == 0) fail("registers of unknown type: " + text);
    const std::size_t names = text.find(parts[1]) + parts[1].size();
    for (const std::string& name : split_operands(std::string_view(text).substr(names))) {
      const std::size_t angle = name.find('<');
      if (angle == std::string::npos) {
        k.registers[name] = type;
        continue;
      }
      const int count = std::stoi(name.substr(angle + 1));
      for (int i = 0; i < count; ++i) k.registers[name.substr(0, angle) + std::to_string(i)] = type;
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int line_;
  ModuleText module_;
};

}  // namespace

Type type_of(std::string_view name) {
  if (name == "pred") return {'p', 32};
  if (name == "bf16") return {'x', 16};
  if (name == "bf16x2") return {'x', 32};
  if (name == "f16x2") return {'h', 32};
  if (name.size() < 2 || std::string_view("busf").find(name[0]) == std::string_view::npos)
    return {};
  int bits = 0;
  for (const char c : name.substr(1)) {
    if (c < '0' || c > '9') return {};
    bits = 10 * bits + (c - '0');
  }
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? Type{name[0], bits}
                                                                            : Type{};
}

ModuleText parse(std::string_view text) {
  return Parser(text).run();
}

void parse_body(KernelText& kernel) {
  Parser(kernel.body, kernel.body_line).body(kernel);
}

}  // namespace trireme::ptx
