// Asks on the terminal, and echoes answers on standard error.
#include "cli/configure/questions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>

#include "base/error.h"
#include "operations/slurm_script.h"

namespace trireme::cli {
namespace {

bool at_terminal() {
  return ::isatty(STDIN_FILENO) != 0;
}

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::string Questions::ask(const Question& question, const std::string& proposal,
                           const Check& check, const std::string& reason) {
  if (const auto found = given_.find(question.name); found != given_.end()) {
    const std::string answer = found->second;
    given_.erase(found);
    if (const std::string wrong = check(answer); !wrong.empty())
      fail_input("--{} '{}': {}", question.name, answer, wrong);
    return answer;
  }
  if (const auto found = known_.find(question.name); found != known_.end()) {
    if (const std::string wrong = check(found->second); !wrong.empty())
      fail_input("'{}': {} '{}': {}", known_from_, question.name, found->second, wrong);
    if (!take_proposals_)
      fmt::print(stderr, "{} {} (from {})\n", question.text, found->second, known_from_);
    return found->second;
  }
  if (take_proposals_) return proposal;
  for (;;) {
    if (!reason.empty()) fmt::print(stderr, "  ({})\n", reason);
    fmt::print(stderr, "{} [{}]: ", question.text, proposal);
    std::fflush(stderr);
    std::string line;
    if (!std::getline(std::cin, line)) {
      fmt::print(stderr, "\n");
      fail_input(
          "the input ended before the question '{}': --{} answers it, and --yes accepts all "
          "proposed values",
          question.text, question.name);
    }
    line = trimmed(line);
    if (!at_terminal()) fmt::print(stderr, "{}\n", line);
    const std::string answer = line.empty() ? proposal : line;
    const std::string wrong = check(answer);
    if (wrong.empty()) {
      typed_ += fmt::format(" --{} {}", question.name, shell_word(answer));
      return answer;
    }
    if (!at_terminal()) fail_input("{} '{}': {}", question.text, answer, wrong);
    fmt::print(stderr, "  {}\n", wrong);
  }
}

void Questions::refuse_others() const {
  if (given_.empty()) return;
  const auto& [name, answer] = *given_.begin();
  fail_input("--{} '{}' answers a question that the other answers make unnecessary: remove it",
             name, answer);
}

std::string Questions::typed_as_flags() const {
  return typed_;
}

std::int64_t Questions::ask_count(const Question& question, std::int64_t proposal,
                                  std::int64_t largest, const std::string& reason,
                                  const std::function<std::string(std::int64_t)>& also) {
  const std::string answer = ask(
      question, std::to_string(proposal),
      [&](const std::string& text) {
        std::int64_t count = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, count);
        const bool good = error == std::errc() && stop == end && count >= 1 && count <= largest;
        if (!good) return fmt::format("expected a whole number from 1 to {}", largest);
        return also ? also(count) : std::string();
      },
      reason);
  return std::stoll(answer);
}

std::string Questions::ask_one_of(const Question& question, const std::string& proposal,
                                  std::span<const std::string> choices) {
  return ask(question, proposal, [&](const std::string& text) {
    const bool known = std::find(choices.begin(), choices.end(), text) != choices.end();
    return known ? std::string() : fmt::format("expected one of {}", fmt::join(choices, ", "));
  });
}

}  // namespace trireme::cli
