// One pass over the text; here-documents are read where the line ends that announces them.
#include "megatron/shell_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme::megatron {
namespace {

constexpr int kDeepest = 32;
constexpr auto npos = std::string_view::npos;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_special(char c) {
  return is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' ||
         c == '(' || c == ')';
}

// Behind the closing quote of "..." whose first character inside is text[at].
std::size_t double_quoted_end(std::string_view text, std::size_t at, int depth) {
  while (at < text.size() && text[at] != '"') {
    if (text[at] == '\\') {
      at += 2;
    } else if (text[at] == '$' || text[at] == '`') {
      at = expansion_end(text, at, depth + 1);
    } else {
      ++at;
    }
  }
  return at < text.size() ? at + 1 : npos;
}

std::size_t after_char(std::string_view text, std::size_t at, char c) {
  const std::size_t end = text.find(c, at);
  return end == npos ? npos : end + 1;
}

// Behind whatever begins at text[at] inside of brackets or a word: a quoted part, an expansion, an
// escaped or a plain character.
std::size_t part_end(std::string_view text, std::size_t at, int depth) {
  switch (text[at]) {
    case '\\':
      return std::min(at + 2, text.size());
    case '\'':
      return after_char(text, at + 1, '\'');
    case '"':
      return double_quoted_end(text, at + 1, depth);
    case '$':
    case '`':
    case kUnset:
    case kUnknown:
      return expansion_end(text, at, depth + 1);
    default:
      return at + 1;
  }
}

// Behind the bracket that closes the one before text[at].
std::size_t bracket_end(std::string_view text, std::size_t at, char open, char close, int depth) {
  int level = 1;
  while (at < text.size()) {
    if (text[at] == open) ++level;
    if (text[at] == close && --level == 0) return at + 1;
    at = part_end(text, at, depth);
  }
  return npos;
}

bool is_keyword(const std::string& word) {
  static constexpr std::array words = {"if",    "then", "elif", "else", "while",
                                       "until", "do",   "!",    "{",    "time"};
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_list_start(const std::string& word) {
  if (word.size() < 2 || word.back() != '=' || !is_name_start(word[0])) return false;
  const std::size_t end = word.size() - (word[word.size() - 2] == '+' ? 2 : 1);
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), is_name_char);
}

bool is_number(const std::string& word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::vector<ShellCommand> run() {
    while (at_ < text_.size()) step();
    end_command("\n");
    return std::move(commands_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (is_blank(c)) {
      ++at_;
    } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      advance(at_ + 2);
    } else if (c == '\n') {
      end_of_line();
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (in_test_) {
      test_word();
    } else if (starts("((") && at_command_start()) {
      arithmetic_command();
    } else if (c == '<' || c == '>' || starts("&>")) {
      redirect();
    } else if (is_special(c)) {
      separator();
    } else {
      word();
    }
  }

  bool starts(std::string_view prefix) const { return text_.substr(at_, 2) == prefix; }

  bool at_command_start() const {
    return std::all_of(command_.words.begin(), command_.words.end(),
                       [](const ShellWord& word) { return is_keyword(word.raw); });
  }

  // Moves on, counting lines.
  void advance(std::size_t to) {
    if (to == npos) fail_input("{}:{}: a quote or bracket does not end", name_, line_);
    const auto part = text_.substr(at_, to - at_);
    line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n'));
    at_ = to;
  }

  void end_command(const char* after) {
    const bool marks_border = after[0] == '(' || after[0] == ')' || std::string(after) == ";;";
    if (!command_.words.empty() || !command_.redirects.empty() || marks_border) {
      if (command_.words.empty()) command_.line = line_;
      command_.after = after;
      commands_.push_back(std::move(command_));
    }
    command_ = {};
  }

  void end_of_line() {
    advance(at_ + 1);
    for (ShellRedirect* redirect : pending()) read_heredoc(*redirect);
    end_command("\n");
  }

  // The here-documents of this line; their commands may have ended already.
  std::vector<ShellRedirect*> pending() {
    std::vector<ShellRedirect*> found;
    const auto look = [&](ShellCommand& command) {
      for (ShellRedirect& redirect : command.redirects) {
        if (redirect.sign == "<<" || redirect.sign == "<<-") found.push_back(&redirect);
      }
    };
    for (; heredocs_from_ < commands_.size(); ++heredocs_from_) look(commands_[heredocs_from_]);
    look(command_);
    heredocs_from_ += command_.words.empty() && command_.redirects.empty() ? 0 : 1;
    return found;
  }

  void read_heredoc(ShellRedirect& redirect) {
    std::string delimiter;
    for (const char c : redirect.target) {
      if (c == '\'' || c == '"' || c == '\\') {
        redirect.literal = true;
      } else {
        delimiter += c;
      }
    }
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      advance(std::min(end + 1, text_.size()));
      if (redirect.sign == "<<-")
        line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == delimiter) return;
      redirect.heredoc += line;
      redirect.heredoc += '\n';
    }
  }

  void begin_word() {
    if (command_.words.empty()) command_.line = line_;
  }

  // Scans to the next special character outside of quotes; `specials` says whether they end it.
  std::string scan(bool specials) {
    const std::size_t begin = at_;
    std::size_t end = at_;
    while (end < text_.size()) {
      const char c = text_[end];
      if (is_blank(c) || c == '\n' || (specials && is_special(c))) break;
      end = part_end(text_, end, 0);
      if (end == npos) break;
    }
    advance(end);
    std::string word;
    for (std::size_t i = begin; i < at_; ++i) {
      const bool joined = text_[i] == '\\' && i + 1 < at_ && text_[i + 1] == '\n';
      if (joined) {
        ++i;
      } else {
        word += text_[i];
      }
    }
    return word;
  }

  void word() {
    begin_word();
    const bool first = at_command_start();
    ShellWord word{scan(true), false, {}};
    const char next = at_ < text_.size() ? text_[at_] : '\n';
    if ((next == '<' || next == '>') && is_number(word.raw)) return;  // the number of a file
    if (next == '<' && is_list_start(word.raw)) blank(word);
    if (next == '(' && is_list_start(word.raw)) {
      word.is_list = true;
      ++at_;
      list(word);
    }
    if (first && word.raw == "[[") in_test_ = true;
    command_.words.push_back(std::move(word));
  }

  // NAME=<path to the data>: a blank that the author left to fill in. The shell would open a file.
  void blank(ShellWord& word) {
    const std::size_t close = text_.find_first_of(">\n", at_);
    if (close == npos || text_[close] == '\n') return;
    word.raw += fmt::format("{}{}{}", kUnset, text_.substr(at_, close + 1 - at_), kMarkEnd);
    at_ = close + 1;
    word.raw += scan(true);
  }

  void list(ShellWord& word) {
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_];
      if (is_blank(c) || c == '\n') {
        advance(at_ + 1);
      } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        advance(at_ + 2);
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (is_special(c)) {
        fail_input("{}:{}: unexpected '{}' in a list", name_, line_, c);
      } else {
        word.elements.push_back(scan(true));
      }
    }
    advance(at_ < text_.size() ? at_ + 1 : npos);
  }

  // Inside [[ ]] operators are words.
  void test_word() {
    for (const char* sign : {"&&", "||"}) {
      if (!starts(sign)) continue;
      command_.words.push_back({sign, false, {}});
      at_ += 2;
      return;
    }
    const char c = text_[at_];
    const bool pattern = !command_.words.empty() && command_.words.back().raw == "=~";
    if (!pattern && is_special(c)) {
      command_.words.push_back({std::string(1, c), false, {}});
      ++at_;
      return;
    }
    ShellWord word{scan(!pattern), false, {}};
    if (word.raw == "]]") in_test_ = false;
    command_.words.push_back(std::move(word));
  }

  void arithmetic_command() {
    begin_word();
    const std::size_t begin = at_ + 2;
    const std::size_t end = bracket_end(text_, at_ + 1, '(', ')', 0);
    advance(end);
    const std::size_t length = at_ > begin + 2 ? at_ - begin - 2 : 0;
    command_.words.push_back({"((", false, {}});
    command_.words.push_back({std::string(text_.substr(begin, length)), false, {}});
  }

  void redirect() {
    std::size_t end = at_;
    while (end < text_.size() && end < at_ + 3 &&
           (text_[end] == '<' || text_[end] == '>' || text_[end] == '&' ||
            (text_[end] == '-' && text_.substr(at_, 2) == "<<") || text_[end] == '|')) {
      ++end;
    }
    ShellRedirect redirect;
    redirect.sign = text_.substr(at_, end - at_);
    at_ = end;
    if (at_ < text_.size() && text_[at_] == '(') {  // <(...): a command's output
      advance(bracket_end(text_, at_ + 1, '(', ')', 0));
      return;
    }
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (command_.words.empty()) command_.line = line_;
    redirect.target = scan(true);
    command_.redirects.push_back(std::move(redirect));
  }

  void separator() {
    for (const char* sign : {";;", "&&", "||"}) {
      if (!starts(sign)) continue;
      at_ += 2;
      end_command(sign);
      return;
    }
    const std::string sign(1, text_[at_]);
    ++at_;
    end_command(sign.c_str());
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool in_test_ = false;
  std::size_t heredocs_from_ = 0;
  ShellCommand command_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}

std::size_t expansion_end(std::string_view text, std::size_t at, int depth) {
  if (depth > kDeepest) fail_input("the script nests quotes and brackets too deeply");
  const char c = text[at];
  if (c == kUnset || c == kUnknown) return after_char(text, at, kMarkEnd);
  if (c == '`') return after_char(text, at + 1, '`');
  if (at + 1 >= text.size()) return at + 1;
  const char next = text[at + 1];
  if (next == '(') return bracket_end(text, at + 2, '(', ')', depth);
  if (next == '{') return bracket_end(text, at + 2, '{', '}', depth);
  if (next == '[') return bracket_end(text, at + 2, '[', ']', depth);
  if (next == '\'') return after_char(text, at + 2, '\'');
  if (!is_name_start(next)) {
    const bool special =
        (next >= '0' && next <= '9') || std::string_view("@*#?$!-").find(next) != npos;
    return special ? at + 2 : at + 1;
  }
  std::size_t end = at + 1;
  while (end < text.size() && is_name_char(text[end])) ++end;
  return end;
}

std::vector<ShellCommand> split_commands(std::string_view text, const std::string& name) {
  return Lexer(text, name).run();
}

}  // namespace trireme::megatron
