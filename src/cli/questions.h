// Questions with proposals: answered by flags, at a terminal or by lines of a pipe, or all taken as
// proposed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace trireme::cli {

// One question. `name` is that of its flag, and of its answer.
struct Question {
  const char* name;
  const char* text;
};

class Questions {
 public:
  // `given`: answers by name, from flags. `take_proposals`: ask nothing.
  Questions(std::map<std::string, std::string> given, bool take_proposals)
      : given_(std::move(given)), take_proposals_(take_proposals) {}

  // Answers by name that a file has, for questions that no flag answers; not all need be asked for.
  void add_known(std::map<std::string, std::string> answers, std::string file) {
    known_ = std::move(answers);
    known_from_ = std::move(file);
  }

  // The answer, which `check` accepts: it returns "" or what is wrong. A wrong answer at the
  // terminal is asked for again; one by a flag, or one of a pipe, is an error (exit code 2).
  // `reason`: why this is proposed, or "".
  using Check = std::function<std::string(const std::string&)>;
  std::string ask(const Question& question, const std::string& proposal, const Check& check,
                  const std::string& reason = "");
  // `also`: what else has to hold of the number, or nothing.
  std::int64_t ask_count(const Question& question, std::int64_t proposal, std::int64_t largest,
                         const std::string& reason = "",
                         const std::function<std::string(std::int64_t)>& also = nullptr);
  std::string ask_one_of(const Question& question, const std::string& proposal,
                         std::span<const std::string> choices);

  // For the end: fails (exit code 2) where a flag answers what was not asked.
  void refuse_others() const;

  // The answers that were typed, as flags that give them again: " --machine this --ranks 4".
  std::string typed_as_flags() const;

 private:
  std::map<std::string, std::string> given_;  // and not yet asked for
  std::map<std::string, std::string> known_;
  std::string known_from_;
  std::string typed_;
  bool take_proposals_;
};

}  // namespace trireme::cli
