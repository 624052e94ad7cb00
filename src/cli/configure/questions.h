// Questions with default answers: answered by flags, interactively, from a pipe, or all by their
// defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace trireme::cli {

// A question. `name` is the name of its flag and of its answer.
struct Question {
  const char* name;
  const char* text;
};

class Questions {
 public:
  // `given`: answers from flags, by name. `take_proposals`: use defaults without asking.
  Questions(std::map<std::string, std::string> given, bool take_proposals)
      : given_(std::move(given)), take_proposals_(take_proposals) {}

  // Adds answers from a file for questions not answered by flags; unused ones are allowed.
  void add_known(std::map<std::string, std::string> answers, std::string file) {
    known_ = std::move(answers);
    known_from_ = std::move(file);
  }

  // Returns an answer accepted by `check`, which returns "" or an error message. A wrong answer at
  // the terminal is asked again; one from a flag or a pipe is an error (exit code 2). `reason`: why
  // this default is proposed, or "".
  using Check = std::function<std::string(const std::string&)>;
  std::string ask(const Question& question, const std::string& proposal, const Check& check,
                  const std::string& reason = "");
  // `also`: additional check of the number, or empty.
  std::int64_t ask_count(const Question& question, std::int64_t proposal, std::int64_t largest,
                         const std::string& reason = "",
                         const std::function<std::string(std::int64_t)>& also = nullptr);
  std::string ask_one_of(const Question& question, const std::string& proposal,
                         std::span<const std::string> choices);

  // Call at the end: fails (exit code 2) if a flag answers a question that was not asked.
  void refuse_others() const;

  // Returns typed answers as the equivalent flags: " --machine this --ranks 4".
  std::string typed_as_flags() const;

 private:
  std::map<std::string, std::string> given_;  // not yet asked for
  std::map<std::string, std::string> known_;
  std::string known_from_;
  std::string typed_;
  bool take_proposals_;
};

}  // namespace trireme::cli
