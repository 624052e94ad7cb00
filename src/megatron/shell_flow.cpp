// Control flow: which commands of the script are followed.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "megatron/shell_runner.h"
#include "megatron/shell_test.h"

namespace trireme::megatron {
namespace {

constexpr std::size_t kMostSteps = 100'000;
constexpr std::size_t kDeepestBlocks = 200;
constexpr std::size_t kMostNotes = 50;

}  // namespace

ShellRunner::ShellRunner(ShellRun& run, int depth, int line, std::vector<std::string> launcher)
    : run_(run), depth_(depth), line_(line), launcher_(std::move(launcher)) {}

void ShellRunner::run(std::string_view text) {
  const std::string& name = run_.state.script;
  commands_ = split_commands(text, name);
  while (at_ < commands_.size() && !stopped_) {
    if (++run_.steps > kMostSteps) {
      fail_input("{}: takes more than {} commands, which no launch script does", name, kMostSteps);
    }
    const std::size_t current = at_++;
    execute(commands_[current]);
  }
}

void ShellRunner::lose(int line, std::string text) {
  Note note{fmt::format("line {}", line), std::move(text)};
  std::vector<Note>& lost = run_.found->lost;
  const bool known = std::find(lost.begin(), lost.end(), note) != lost.end();
  if (!known && lost.size() < kMostNotes) lost.push_back(std::move(note));
}

void ShellRunner::execute(const ShellCommand& command) {
  Words words = command.words;
  if (!blocks_.empty() && blocks_.back().kind == Kind::choice && blocks_.back().pattern) {
    choose(command, words);
    return;
  }
  if (define(command, words)) return;
  bool known = true;
  while (!words.empty() && known && !stopped_) words = keyword(command, words, known);
  const std::size_t depth = blocks_.size();
  follow(command, words);
  if (command.after != ";;" || depth == 0 || depth > blocks_.size()) return;
  Block& block = blocks_[depth - 1];
  if (block.kind != Kind::choice) return;
  block.pattern = true;
  block.active = false;
}

void ShellRunner::follow(const ShellCommand& command, Words words) {
  if (words.empty() && command.redirects.empty()) return;
  if (!active() || stopped_) return note_skipped(words);
  const bool skipped =
      (before_ == "&&" && outcome_ != true) || (before_ == "||" && outcome_ != false);
  if (!skipped) {
    outcome_ = words.empty() ? std::optional(true) : simple(command, words);
  } else if (!outcome_ && !words.empty()) {
    const bool matters = words[0].is_list || words[0].raw.find('=') != std::string::npos;
    if (matters) lose(line_of(command), "depends on a condition that only running would decide");
  }
  before_ = command.after;
}

// Takes one keyword from the front; `known` becomes false where there is none.
ShellRunner::Words ShellRunner::keyword(const ShellCommand& command, Words words, bool& known) {
  const std::string& word = words[0].raw;
  const Words rest = words.subspan(1);
  if (blocks_.size() > kDeepestBlocks) fail_input("{}: nests too deeply", run_.state.script);
  if (word == "if" || word == "while" || word == "until") {
    begin_test(word == "if" ? Kind::condition : Kind::loop, command);
    blocks_.back().name = word;
  } else if (word == "then") {
    end_test(false);
  } else if (word == "elif" || word == "else") {
    other_branch(word == "else");
  } else if (word == "for" || word == "select") {
    begin_items(command, rest);
    return {};
  } else if (word == "do") {
    end_test(true);
  } else if (word == "done") {
    end_loop();
    return {};
  } else if (word == "fi" || word == "esac") {
    if (!blocks_.empty()) blocks_.pop_back();
    return {};
  } else if (word == "case") {
    return begin_choice(command, rest);
  } else if (word == "{") {
    begin_group();
  } else if (word == "}") {
    end_group();
    return {};
  } else if (word != "time") {
    known = false;
    return words;
  }
  before_.clear();
  return rest;
}

void ShellRunner::begin_test(Kind kind, const ShellCommand& command) {
  Block block{kind};
  block.outer = block.active = active();
  block.testing = true;
  block.line = line_of(command);
  block.start = at_ - 1;
  outcome_ = true;
  blocks_.push_back(std::move(block));
}

void ShellRunner::end_test(bool loop) {
  if (blocks_.empty()) return;
  Block& block = blocks_.back();
  if (loop && block.kind == Kind::items) {
    block.start = at_ - 1;
    return;
  }
  if (!block.testing) return;
  block.testing = false;
  if (!block.active) return;  // another branch was taken, or all is skipped
  std::optional<bool> holds = outcome_;
  if (block.name == "until" && holds) holds = !*holds;
  block.undecided = !holds;
  block.active = holds.value_or(false);
  block.taken = block.taken || block.active || !holds;
}

void ShellRunner::other_branch(bool last) {
  if (blocks_.empty() || blocks_.back().kind != Kind::condition) return;
  Block& block = blocks_.back();
  block.active = block.outer && !block.taken;
  block.testing = !last;
  outcome_ = true;
}

// for NAME in WORDS; the walk goes once through the body for each word.
void ShellRunner::begin_items(const ShellCommand& command, Words words) {
  Block block{Kind::items};
  block.outer = active();
  block.active = false;
  block.line = line_of(command);
  const bool is_list = words.size() >= 2 && words[1].raw == "in";
  if (block.outer && is_list) {
    block.name = words[0].raw;
    for (const ShellWord& word : words.subspan(2))
      ShellExpander(run_.state).words(word.raw, block.items);
    std::reverse(block.items.begin(), block.items.end());
    if (!block.items.empty()) {
      block.active = true;
      run_.state.variables[block.name] = {block.items.back()};
      block.items.pop_back();
    }
  } else if (block.outer) {
    block.undecided = true;
  }
  blocks_.push_back(std::move(block));
}

void ShellRunner::end_loop() {
  if (blocks_.empty()) return;
  Block& block = blocks_.back();
  if (block.kind == Kind::items && block.active && !block.items.empty()) {
    run_.state.variables[block.name] = {block.items.back()};
    block.items.pop_back();
    at_ = block.start;  // the command with `do`
    return;
  }
  const bool again = block.kind == Kind::loop && block.active;
  if (again) at_ = block.start;
  blocks_.pop_back();
}

// break: nothing more is followed until the innermost loop ends.
void ShellRunner::leave_loop() {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i].active = false;
    blocks_[i].taken = true;
    blocks_[i].outer = false;
    if (blocks_[i].kind == Kind::loop || blocks_[i].kind == Kind::items) return;
  }
}

ShellRunner::Words ShellRunner::begin_choice(const ShellCommand& command, Words words) {
  Block block{Kind::choice};
  block.outer = active();
  block.active = false;
  block.pattern = true;
  block.line = line_of(command);
  if (!words.empty() && block.outer) block.name = ShellExpander(run_.state).text(words[0].raw);
  block.undecided = has_unknown(block.name);
  block.name = without_unset(block.name);
  blocks_.push_back(std::move(block));
  const Words rest = words.size() > 2 ? words.subspan(2) : Words{};
  if (!rest.empty() || command.after == "|" || command.after == ")") choose(command, rest);
  return {};
}

// A pattern of a choice, or its end.
void ShellRunner::choose(const ShellCommand& command, Words words) {
  Block& block = blocks_.back();
  if (words.size() == 1 && words[0].raw == "esac") {
    blocks_.pop_back();
    return;
  }
  for (const ShellWord& word : words) {
    const std::string pattern = ShellExpander(run_.state).text(word.raw);
    if (block.outer && !block.taken && !block.undecided &&
        shell_match(block.name, pattern, run_.state)) {
      block.active = block.taken = true;
    }
  }
  if (command.after == ")") block.pattern = false;
}

void ShellRunner::begin_group() {
  if (calling_) {  // the block of the call is there already
    calling_ = false;
    return;
  }
  Block block{Kind::group};
  block.outer = block.active = active();
  if (!defining_.empty()) {
    if (block.outer) functions_[defining_] = at_ - 1;
    block.kind = Kind::definition;
    block.active = false;
    defining_.clear();
  }
  blocks_.push_back(std::move(block));
}

void ShellRunner::end_group() {
  if (blocks_.empty()) return;
  const Block block = std::move(blocks_.back());
  blocks_.pop_back();
  if (block.kind != Kind::call) return;
  at_ = block.start;
  run_.state.positional = block.items;
}

// `NAME () {` or `function NAME {`; true if that is all of the command.
bool ShellRunner::define(const ShellCommand& command, Words words) {
  if (words.size() == 1 && command.after == "(" && at_ < commands_.size() &&
      commands_[at_].words.empty() && commands_[at_].after == ")") {
    defining_ = words[0].raw;
    ++at_;
    return true;
  }
  if (words.size() < 2 || words[0].raw != "function") return false;
  defining_ = words[1].raw;
  if (command.after == "(") {
    ++at_;
  } else if (words.size() > 2 && words[2].raw == "{") {
    begin_group();
  }
  return true;
}

// A branch that nobody decided is worth a note where it would change something.
void ShellRunner::note_skipped(Words words) {
  for (const Block& block : blocks_) {
    if (!block.undecided || words.empty()) continue;
    const bool matters =
        words[0].is_list || words[0].raw.find('=') != std::string::npos || words[0].raw == "eval";
    if (!matters) return;
    lose(block.line, "only running would decide this; what depends on it was left out");
    return;
  }
}

void ShellRunner::leave_call() {
  while (!blocks_.empty()) {
    const bool is_call = blocks_.back().kind == Kind::call;
    end_group();
    if (is_call) return;
  }
  stopped_ = true;
}

void ShellRunner::call(const std::string& name, const std::vector<std::string>& argv) {
  Block block{Kind::call};
  block.start = at_;
  block.items = std::move(run_.state.positional);
  run_.state.positional.assign(argv.begin() + 1, argv.end());
  blocks_.push_back(std::move(block));
  at_ = functions_.find(name)->second;
  calling_ = true;
}

}  // namespace trireme::megatron
