// Expansion follows the shell's order; what it cannot know becomes a mark (shell_lexer.h).
#include "megatron/shell_expand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "megatron/shell_lexer.h"

namespace trireme::megatron {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr int kDeepest = 32;
constexpr std::size_t kLongestValue = 1 << 20;

std::string mark(char kind, std::string_view source) {
  return fmt::format("{}{}{}", kind, without_marks(source), kMarkEnd);
}

// "$NAME", "${NAME}", "$1": how a message names what nobody set.
std::string unset(std::string_view name) {
  return mark(kUnset,
              !is_name_start(name[0]) ? fmt::format("${}", name) : fmt::format("${{{}}}", name));
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

// What stands before the last slash, and behind it.
std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string base_of(const std::string& path, const std::string& suffix) {
  std::string base = fs::path(path).filename().string();
  if (base.size() > suffix.size() && base.ends_with(suffix))
    base.resize(base.size() - suffix.size());
  return base;
}

// The output of commands that only rewrite their arguments; nothing for all others.
std::optional<std::string> output_of(const std::vector<std::string>& argv) {
  if (argv.empty()) return "";
  const std::string& name = argv[0];
  if (name == "pwd") return ".";
  if (name == "echo") {
    return fmt::format("{}", fmt::join(argv.begin() + 1, argv.end(), " "));
  }
  if (name == "dirname" && argv.size() == 2) return folder_of(argv[1]);
  if (name == "basename" && argv.size() >= 2)
    return base_of(argv[1], argv.size() > 2 ? argv[2] : "");
  const bool resolves = name == "realpath" || name == "readlink";
  if (resolves && argv.size() >= 2 && !argv.back().starts_with('-')) return argv.back();
  return std::nullopt;
}

// The shortest or longest beginning or end that matches is cut off.
std::string cut(const std::string& value, std::string_view pattern, bool front, bool longest,
                ShellState& state) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t size = longest ? value.size() - i : i;
    const std::string_view part = front ? std::string_view(value).substr(0, size)
                                        : std::string_view(value).substr(value.size() - size);
    if (!shell_match(part, pattern, state)) continue;
    return front ? value.substr(size) : value.substr(0, value.size() - size);
  }
  return value;
}

}  // namespace

void ShellExpander::append(std::string_view bytes) {
  if (bytes.size() > state_.budget || word_.size() + bytes.size() > kLongestValue) {
    fail_input("the script makes texts that are too long to be a launch");
  }
  state_.budget -= bytes.size();
  word_ += bytes;
}

void ShellExpander::end_word() {
  if (has_word_ && out_ != nullptr) {
    if (state_.budget < sizeof(std::string)) fail_input("the script makes too many words");
    state_.budget -= sizeof(std::string);
    out_->push_back(std::move(word_));
    word_.clear();
  }
  has_word_ = false;
}

void ShellExpander::words(std::string_view raw, std::vector<std::string>& out) {
  if (depth_ > kDeepest) fail_input("the script nests expansions too deeply");
  state_.spend(raw.size());
  out_ = &out;
  splits_ = true;
  word_.clear();
  has_word_ = false;
  for (std::size_t at = home(raw); at < raw.size();) part(raw, at, Quote::none);
  end_word();
}

std::string ShellExpander::text(std::string_view raw) {
  if (depth_ > kDeepest) fail_input("the script nests expansions too deeply");
  state_.spend(raw.size());
  splits_ = false;
  word_.clear();
  for (std::size_t at = home(raw); at < raw.size();) part(raw, at, Quote::none);
  return std::move(word_);
}

// A leading ~/ is the home folder; gives where the rest of the word begins.
std::size_t ShellExpander::home(std::string_view raw) {
  if (!raw.starts_with("~/")) return 0;
  expansion("${HOME}", Quote::quoted);
  return 1;
}

std::string ShellExpander::heredoc(std::string_view raw) {
  state_.spend(raw.size());
  splits_ = false;
  word_.clear();
  for (std::size_t at = 0; at < raw.size();) {
    const char c = raw[at];
    if (c == '"' || c == '\'') {
      append(raw.substr(at++, 1));
    } else {
      part(raw, at, Quote::quoted);
    }
  }
  return std::move(word_);
}

void ShellExpander::part(std::string_view raw, std::size_t& at, Quote quote) {
  const char c = raw[at];
  if (c == '$' || c == '`' || c == kUnset || c == kUnknown) {
    const std::size_t end = std::min(expansion_end(raw, at, depth_), raw.size());
    const std::string_view source = raw.substr(at, end - at);
    at = end;
    return expansion(source, quote);
  }
  if (c == '\\') {
    const char next = at + 1 < raw.size() ? raw[at + 1] : '\\';
    at += 2;
    has_word_ = true;
    if (next == '\n') return;
    const bool kept = quote == Quote::quoted && std::string_view("$`\"\\").find(next) == npos;
    if (kept) append("\\");
    return append({&next, 1});
  }
  if (quote == Quote::none && c == '\'') {
    const std::size_t end = std::min(raw.find('\'', at + 1), raw.size());
    has_word_ = true;
    append(raw.substr(at + 1, end - at - 1));
    at = std::min(end + 1, raw.size());
    return;
  }
  if (quote == Quote::none && c == '"') return quoted(raw, ++at);
  has_word_ = true;
  append(raw.substr(at++, 1));
}

void ShellExpander::quoted(std::string_view raw, std::size_t& at) {
  // "$@" of nothing makes no word, "" does.
  const bool only_list = raw.substr(at).starts_with("$@\"") || raw.substr(at).starts_with("${");
  if (!only_list) has_word_ = true;
  while (at < raw.size() && raw[at] != '"') part(raw, at, Quote::quoted);
  ++at;
}

void ShellExpander::expansion(std::string_view source, Quote quote) {
  if (source[0] == kUnset || source[0] == kUnknown) {
    has_word_ = true;
    return append(source);
  }
  if (source[0] == '`') return emit(command(source, source.substr(1, source.size() - 2)), quote);
  if (source.size() == 1) {
    has_word_ = true;
    return append(source);
  }
  if (source.starts_with("$((") && source.ends_with("))")) {
    const std::string inner =
        ShellExpander(state_, depth_ + 1).heredoc(source.substr(3, source.size() - 5));
    const auto value = shell_arithmetic(without_unset(inner), state_);
    return emit(value ? fmt::format("{}", *value) : mark(kUnknown, source), quote);
  }
  if (source.starts_with("$("))
    return emit(command(source, source.substr(2, source.size() - 3)), quote);
  if (source.starts_with("$[")) {
    const std::string inner =
        ShellExpander(state_, depth_ + 1).heredoc(source.substr(2, source.size() - 3));
    const auto value = shell_arithmetic(without_unset(inner), state_);
    return emit(value ? fmt::format("{}", *value) : mark(kUnknown, source), quote);
  }
  if (source.starts_with("$'")) {
    has_word_ = true;
    return append(source.substr(2, source.size() - 3));
  }
  if (source.starts_with("${"))
    return parameter(source, source.substr(2, source.size() - 3), quote);
  parameter(source, source.substr(1), quote);
}

std::optional<std::vector<std::string>> ShellExpander::lookup(std::string_view name,
                                                              std::string_view index) {
  if (name == "@" || name == "*") return state_.positional;
  if (name == "#") return std::vector{fmt::format("{}", state_.positional.size())};
  if (name == "0" || name == "BASH_SOURCE") return std::vector{state_.script};
  if (name == "?") return std::vector<std::string>{"0"};
  if (name == "PWD") return std::vector<std::string>{"."};
  if (name[0] >= '1' && name[0] <= '9') {
    std::size_t place = 0;
    std::from_chars(name.data(), name.data() + name.size(), place);
    if (place < 1 || place > state_.positional.size()) return std::nullopt;
    return std::vector{state_.positional[place - 1]};
  }
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end()) return std::nullopt;
  if (index == "@" || index == "*") return found->second;
  std::size_t place = 0;
  if (!index.empty()) {
    const std::string expanded = ShellExpander(state_, depth_ + 1).text(index);
    const auto value = shell_arithmetic(without_unset(expanded), state_);
    if (!value || *value < 0) return std::nullopt;
    place = static_cast<std::size_t>(*value);
  }
  if (place >= found->second.size()) return std::nullopt;
  return std::vector{found->second[place]};
}

void ShellExpander::parameter(std::string_view source, std::string_view inner, Quote quote) {
  const bool braced = source.starts_with("${");
  bool count = false;
  if (braced && inner.size() > 1 && inner[0] == '#') {
    count = true;
    inner.remove_prefix(1);
  }
  if (braced && inner.size() > 1 && inner[0] == '!') return emit(mark(kUnknown, source), quote);
  std::size_t end = 0;
  if (!inner.empty() && (is_name_start(inner[0]) || (inner[0] >= '0' && inner[0] <= '9'))) {
    while (end < inner.size() && is_name_char(inner[end])) ++end;
  } else {
    end = std::min<std::size_t>(1, inner.size());
  }
  const std::string_view name = inner.substr(0, end);
  std::string_view rest = inner.substr(end);
  std::string_view index;
  if (rest.starts_with('[')) {
    const std::size_t close = std::min(rest.find(']'), rest.size());
    index = rest.substr(1, close - 1);
    rest = rest.substr(std::min(close + 1, rest.size()));
  }
  if (name.empty()) return emit(mark(kUnknown, source), quote);
  const auto values = lookup(name, index);
  if (values) {
    for (const std::string& value : *values) state_.spend(value.size() + 1);
  }
  if (count) {
    const bool list = index == "@" || index == "*";
    const std::size_t size = !values ? 0 : list ? values->size() : values->at(0).size();
    return emit(fmt::format("{}", size), quote);
  }
  const bool list = name == "@" || name == "*" || index == "@" || index == "*";
  std::string joined = values ? fmt::format("{}", fmt::join(*values, " ")) : "";
  const bool empty = without_unset(joined).empty();
  std::string_view operation = rest;
  if (operation.starts_with(':') && operation.size() > 1 &&
      std::string_view("-=+?").find(operation[1]) != npos) {
    operation.remove_prefix(1);
  } else if (!operation.empty() && std::string_view("-=+?").find(operation[0]) != npos && values &&
             empty) {
    // Without the colon an empty value counts as one.
    if (operation[0] != '+') return emit(joined, quote);
  }
  const char sign = operation.empty() ? '\0' : operation[0];
  const bool absent = !values || empty;
  if (sign == '-' || sign == '=' || sign == '+') {
    if (absent == (sign == '+')) {
      if (sign != '+') return list ? emit_list(*values, quote, false) : emit(joined, quote);
      return;
    }
    ShellExpander other(state_, depth_ + 1);
    if (quote == Quote::none && splits_) {
      std::vector<std::string> made;
      other.words(operation.substr(1), made);
      if (sign == '=') {
        state_.variables[std::string(name)] = {fmt::format("{}", fmt::join(made, " "))};
      }
      return emit_list(made, Quote::quoted, false);
    }
    const std::string value = other.text(operation.substr(1));
    if (sign == '=') state_.variables[std::string(name)] = {value};
    return emit(value, quote);
  }
  if (!values) {
    if (name == "@" || name == "*" || list) return;
    const bool computed =
        name == "$" || name == "!" || name == "RANDOM" || name == "SECONDS" || name == "LINENO";
    return emit(computed ? mark(kUnknown, source) : unset(name), quote);
  }
  if (list && sign == '\0') return emit_list(*values, quote, name == "*" || index == "*");
  emit(operated(std::move(joined), rest), quote);
}

// ${NAME%x} ${NAME%%x} ${NAME#x} ${NAME##x} ${NAME/a/b} ${NAME//a/b}; "" leaves the value alone.
std::string ShellExpander::operated(std::string value, std::string_view operation) {
  if (operation.empty() || operation[0] == '?' || operation.starts_with(":?")) return value;
  const char sign = operation[0];
  if (value.find(kUnset) != npos || has_unknown(value)) return value;
  if (sign == '%' || sign == '#') {
    const bool longest = operation.size() > 1 && operation[1] == sign;
    const std::string pattern =
        ShellExpander(state_, depth_ + 1).text(operation.substr(longest ? 2 : 1));
    return cut(value, pattern, sign == '#', longest, state_);
  }
  if (sign == '/') {
    const bool all = operation.starts_with("//");
    operation.remove_prefix(all ? 2 : 1);
    const std::size_t slash = std::min(operation.find('/'), operation.size());
    ShellExpander inner(state_, depth_ + 1);
    const std::string from = inner.text(operation.substr(0, slash));
    const std::string to = inner.text(operation.substr(std::min(slash + 1, operation.size())));
    if (from.empty()) return value;
    std::string result;
    std::size_t at = 0;
    for (std::size_t found = value.find(from); found != std::string::npos;
         found = all ? value.find(from, at) : std::string::npos) {
      result += value.substr(at, found - at) + to;
      at = found + from.size();
      if (result.size() > kLongestValue) fail_input("the script makes texts that are too long");
    }
    return result + value.substr(at);
  }
  if (operation == ",,") {
    std::transform(value.begin(), value.end(), value.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return value;
  }
  return mark(kUnknown, value);
}

// `cd FOLDER && pwd` names the folder; a single command that rewrites its arguments is computed.
std::string ShellExpander::command(std::string_view source, std::string_view inner) {
  if (depth_ > kDeepest) fail_input("the script nests commands too deeply");
  state_.spend(inner.size());
  std::vector<ShellCommand> commands = split_commands(inner, "a command in the script");
  std::vector<std::vector<std::string>> argvs;
  for (const ShellCommand& command : commands) {
    std::vector<std::string> argv;
    for (const ShellWord& word : command.words)
      ShellExpander(state_, depth_ + 1).words(word.raw, argv);
    const bool simple = command.after == "\n" || command.after == "&&" || command.after == ";";
    if (!simple) return mark(kUnknown, source);
    argvs.push_back(std::move(argv));
  }
  if (argvs.size() == 2 && !argvs[0].empty() && argvs[0][0] == "cd" && !argvs[1].empty() &&
      argvs[1][0] == "pwd") {
    return argvs[0].back();
  }
  if (argvs.size() != 1) return mark(kUnknown, source);
  return output_of(argvs[0]).value_or(mark(kUnknown, source));
}

void ShellExpander::emit(std::string_view value, Quote quote) {
  if (quote == Quote::quoted || !splits_) {
    has_word_ = true;
    return append(value);
  }
  for (std::size_t at = 0; at < value.size();) {
    if (is_blank(value[at])) {
      end_word();
      ++at;
      continue;
    }
    has_word_ = true;
    const bool marked = value[at] == kUnset || value[at] == kUnknown;
    const std::size_t end =
        marked ? std::min(value.find(kMarkEnd, at), value.size() - 1) + 1 : at + 1;
    append(value.substr(at, end - at));
    at = end;
  }
}

void ShellExpander::emit_list(const std::vector<std::string>& values, Quote quote, bool one_word) {
  const bool joined = !splits_ || (one_word && quote == Quote::quoted);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && joined) {
      append(" ");
    } else if (i > 0) {
      end_word();
    }
    emit(values[i], quote);
  }
}

}  // namespace trireme::megatron
