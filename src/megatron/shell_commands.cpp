// The commands that are followed: assignments, tests, builtins, files, launches.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "megatron/shell_runner.h"
#include "megatron/shell_test.h"

namespace trireme::megatron {
namespace {

constexpr int kDeepest = 12;
constexpr std::size_t kMostVariables = 10'000;
constexpr std::size_t kMostElements = 100'000;
constexpr std::size_t kMostFiles = 16;

template <class List>
bool contains(const List& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Where the name of an assignment ends, 0 if the word is none: NAME= NAME+= NAME[index]=
std::size_t assigned_name(const std::string& raw) {
  std::size_t end = 0;
  if (raw.empty() || !is_name_start(raw[0])) return 0;
  while (end < raw.size() && is_name_char(raw[end])) ++end;
  std::size_t sign = end;
  if (sign < raw.size() && raw[sign] == '[') {
    sign = raw.find(']', sign);
    if (sign == std::string::npos) return 0;
    ++sign;
  }
  if (raw.compare(sign, 1, "=") == 0 || raw.compare(sign, 2, "+=") == 0) return end;
  return 0;
}

// "pretrain_gpt.py" in any folder.
bool is_pretraining(const std::string& word) {
  const std::size_t slash = word.rfind('/');
  const std::string base = slash == std::string::npos ? word : word.substr(slash + 1);
  return base.starts_with("pretrain_") && base.ends_with(".py");
}

// A text with a launch inside: bash -c "... pretrain_gpt.py ..."
bool holds_launch(const std::string& word) {
  return word.find("pretrain_") != std::string::npos && word.find(".py") != std::string::npos &&
         word.find_first_of(" \t\n") != std::string::npos;
}

}  // namespace

std::optional<bool> ShellRunner::simple(const ShellCommand& command, Words words) {
  if (words[0].raw == "!") {
    const std::optional<bool> outcome = words.size() > 1 ? simple(command, words.subspan(1)) : true;
    return outcome ? std::optional(!*outcome) : outcome;
  }
  if (words[0].raw == "((" && words.size() == 2) {
    const std::string inner = ShellExpander(run_.state).heredoc(words[1].raw);
    const auto value = shell_arithmetic(without_unset(inner), run_.state);
    return value ? std::optional(*value != 0) : std::nullopt;
  }
  if (words[0].raw == "[[" || words[0].raw == "[" || words[0].raw == "test") return test(words);
  while (!words.empty() && assign(words[0])) words = words.subspan(1);
  if (words.empty()) return true;
  std::vector<std::string> argv;
  for (const ShellWord& word : words) ShellExpander(run_.state).words(word.raw, argv);
  write_file(command, argv);
  if (argv.empty()) return true;
  bool known = true;
  const std::optional<bool> outcome = builtin(command, words, argv, known);
  if (known) return outcome;
  launch(argv);
  return true;
}

bool ShellRunner::assign(const ShellWord& word) {
  const std::size_t end = assigned_name(word.raw);
  if (end == 0) return false;
  const std::string name = word.raw.substr(0, end);
  const std::size_t equals = word.raw.find('=', end);
  const bool appends = word.raw[equals - 1] == '+';
  auto& variables = run_.state.variables;
  if (variables.size() > kMostVariables) fail_input("{}: too many variables", run_.state.script);
  if (word.is_list) {
    std::vector<std::string> elements;
    for (const std::string& element : word.elements)
      ShellExpander(run_.state).words(element, elements);
    std::vector<std::string>& list = variables[name];
    if (!appends) list.clear();
    if (list.size() + elements.size() > kMostElements)
      fail_input("{}: a list grows too long", run_.state.script);
    list.insert(list.end(), elements.begin(), elements.end());
    return true;
  }
  std::string value = ShellExpander(run_.state).text(std::string_view(word.raw).substr(equals + 1));
  std::vector<std::string>& list = variables[name];
  std::size_t place = 0;
  if (word.raw[end] == '[') {
    const std::string index = word.raw.substr(end + 1, word.raw.find(']', end) - end - 1);
    const auto number = shell_arithmetic(ShellExpander(run_.state).text(index), run_.state);
    if (!number || *number < 0 || *number > 1000) return true;
    place = static_cast<std::size_t>(*number);
  } else if (!appends) {
    list.clear();
  }
  if (list.size() <= place) list.resize(place + 1);
  if (appends) {
    if (list[place].size() + value.size() > run_.state.budget)
      fail_input("{}: a text grows too long", run_.state.script);
    run_.state.budget -= list[place].size() + value.size();
    list[place] += value;
  } else {
    list[place] = std::move(value);
  }
  return true;
}

std::optional<bool> ShellRunner::test(Words words) {
  const bool patterns = words[0].raw == "[[";
  std::vector<std::string> argv;
  for (const ShellWord& word : words.subspan(1)) {
    if (word.raw == "]]" || (word.raw == "]" && words[0].raw == "[")) break;
    if (patterns) {
      argv.push_back(ShellExpander(run_.state).text(word.raw));
    } else {
      ShellExpander(run_.state).words(word.raw, argv);
    }
  }
  return shell_test(argv, patterns, run_.state);
}

void ShellRunner::declare(Words words) {
  for (const ShellWord& word : words) assign(word);
}

std::optional<bool> ShellRunner::builtin(const ShellCommand& command, Words words,
                                         const std::vector<std::string>& argv, bool& known) {
  static constexpr std::array declarations = {"export", "declare", "local", "readonly", "typeset"};
  static constexpr std::array silent = {
      "echo",   "cat",    "printf", "mkdir", "cd",       "rm",  "cp",   "mv",   "ls",
      "ulimit", "module", "wait",   "sleep", "trap",     "pip", "pip3", "true", ":",
      "date",   "tee",    "chmod",  "touch", "hostname", "ln",  "grep", "sed"};
  const std::string& name = argv[0];
  const bool is_function = functions_.contains(name);
  if (is_function) {
    if (blocks_.size() > 100)
      fail_input("{}: functions call each other without end", run_.state.script);
    call(name, argv);
  } else if (contains(declarations, name)) {
    declare(words.subspan(1));
  } else if (name == "exit") {
    stopped_ = true;
  } else if (name == "return") {
    leave_call();
  } else if (name == "break" || name == "continue") {
    if (name == "continue") lose(line_of(command), "`continue` is not followed");
    leave_loop();
  } else if (name == "shift") {
    std::size_t count = 1;
    if (argv.size() > 1) std::from_chars(argv[1].data(), argv[1].data() + argv[1].size(), count);
    auto& positional = run_.state.positional;
    positional.erase(positional.begin(), positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                  count, positional.size())));
  } else if (name == "set") {
    const auto dashes = std::find(argv.begin(), argv.end(), "--");
    if (dashes != argv.end()) run_.state.positional.assign(dashes + 1, argv.end());
  } else if (name == "unset") {
    for (const std::string& variable : argv) run_.state.variables.erase(variable);
  } else if (name == "source" || name == ".") {
    lose(line_of(command), fmt::format("'{}' is not read; give what it sets with --set NAME=VALUE",
                                       without_marks(argv.size() > 1 ? argv[1] : "")));
  } else if (name == "eval") {
    nested(fmt::format("{}", fmt::join(argv.begin() + 1, argv.end(), " ")), launcher_);
  } else if (name == "false") {
    return false;
  } else if (name == "read") {
    lose(line_of(command), "`read` is not followed");
  } else if (!contains(silent, name)) {
    known = false;
  }
  return true;
}

// What `cat > FILE <<END` and `echo TEXT > FILE` write: often the configuration of DeepSpeed.
void ShellRunner::write_file(const ShellCommand& command, const std::vector<std::string>& argv) {
  if (argv.empty() || (argv[0] != "cat" && argv[0] != "echo")) return;
  std::string target, text;
  bool has_text = false;
  for (const ShellRedirect& redirect : command.redirects) {
    if (redirect.sign == ">") target = ShellExpander(run_.state).text(redirect.target);
    if (redirect.sign != "<<" && redirect.sign != "<<-") continue;
    has_text = true;
    text =
        redirect.literal ? redirect.heredoc : ShellExpander(run_.state).heredoc(redirect.heredoc);
  }
  if (argv[0] == "echo") {
    has_text = true;
    text = fmt::format("{}", fmt::join(argv.begin() + 1, argv.end(), " "));
  }
  if (target.empty() || !has_text || run_.found->files.size() >= kMostFiles) return;
  run_.found->files[without_marks(target)] = with_null(text);
}

void ShellRunner::nested(const std::string& text, std::vector<std::string> launcher) {
  if (depth_ > kDeepest) fail_input("{}: evaluates itself too deeply", run_.state.script);
  const int line = line_ > 0 ? line_ : commands_[at_ - 1].line;
  ShellRunner(run_, depth_ + 1, line, std::move(launcher)).run(text);
}

bool ShellRunner::launch(const std::vector<std::string>& argv) {
  const auto script = std::find_if(argv.begin(), argv.end(), is_pretraining);
  if (script == argv.end()) {
    const auto inner = std::find_if(argv.begin(), argv.end(), holds_launch);
    if (inner == argv.end()) return false;
    std::vector<std::string> launcher = launcher_;
    launcher.insert(launcher.end(), argv.begin(), inner);
    nested(*inner, std::move(launcher));
    return true;
  }
  const int line = line_ > 0 ? line_ : commands_[at_ - 1].line;
  Launch found;
  found.line = line;
  found.script = without_marks(*script);
  const bool bert = found.script.find("bert") != std::string::npos;
  const bool gpt = found.script.find("gpt") != std::string::npos ||
                   found.script.find("llama") != std::string::npos;
  if (!bert && !gpt) {
    lose(line, fmt::format("'{}' trains a model that is not there", found.script));
    return true;
  }
  found.program = bert ? Program::bert : Program::gpt;
  found.launcher = launcher_;
  const auto plain = [](const std::string& word) { return without_marks(word); };
  std::transform(argv.begin(), script, std::back_inserter(found.launcher), plain);
  std::transform(script + 1, argv.end(), std::back_inserter(found.arguments), plain);
  run_.found->launches.push_back(std::move(found));
  return true;
}

}  // namespace trireme::megatron
