// Runs the built program as a user would: a child process with its own output.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace trireme::testing_cli {

struct Outcome {
  int code = -1;    // exit code; -signal if a signal ended it
  std::string out;  // stdout and stderr
};

inline std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A running `trireme` process, with its output in a file.
class Program {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  Program(const std::vector<std::string>& arguments, const fs::path& output,
          const Environment& environment = {})
      : output_(output) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int fd = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> argv = {const_cast<char*>(TRIREME_BINARY)};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(TRIREME_BINARY, argv.data());
    ::_exit(127);
  }

  pid_t pid() const { return pid_; }
  void kill(int signal) { ::kill(pid_, signal); }
  // Returns whether the process still runs; reaps it if not.
  bool running() {
    if (!collected_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) collected_ = true;
    return !collected_;
  }
  // Waits until the condition is true; returns false if the program ends first. Polls five times
  // per millisecond, and yields the processors in between.
  template <class Condition>
  bool runs_until(const Condition& holds) {
    while (running()) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return false;
  }
  Outcome wait() {
    if (!collected_) ::waitpid(pid_, &status_, 0);
    collected_ = true;
    return {WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_), contents(output_)};
  }

 private:
  pid_t pid_;
  fs::path output_;
  bool collected_ = false;
  int status_ = 0;
};

// Returns all values of a number in metrics.jsonl, in order.
inline std::vector<double> values_of(const std::string& metrics, const std::string& name) {
  std::vector<double> values;
  const std::string key = "\"" + name + "\": ";
  for (std::size_t at = 0; (at = metrics.find(key, at)) != std::string::npos; at += key.size())
    values.push_back(std::strtod(metrics.c_str() + at + key.size(), nullptr));
  return values;
}

// A folder with a small corpus, its tokenizer and token files, and a configuration.
class Workspace : public testing::Test {
 protected:
  Workspace() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = info->name();
    std::replace(name.begin(), name.end(), '/', '_');  // in the names of parameterized tests
    folder_ = fs::path(testing::TempDir()) / ("trireme_" + name + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~Workspace() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }

  Outcome run(const std::vector<std::string>& arguments,
              const Program::Environment& environment = {}) const {
    return Program(arguments, path("output.txt"), environment).wait();
  }

  // Sentences of a tiny grammar, so that there is something to learn.
  void prepare_data() const {
    const char* subjects[] = {"the ship", "a rower", "the wind", "one oar", "the captain"};
    const char* verbs[] = {"turns", "sees", "carries", "follows", "meets"};
    std::string text;
    unsigned state = 1;
    const auto draw = [&state] { return (state = state * 1664525u + 1013904223u) >> 16; };
    for (int document = 0; document < 60; ++document) {
      for (unsigned line = 0, lines = 3 + draw() % 8; line < lines; ++line) {
        text += std::string(subjects[draw() % 5]) + " " + verbs[draw() % 5] + " " +
                subjects[draw() % 5] + ".\n";
      }
      text += "\n";
    }
    write("corpus.txt", text);
    ASSERT_EQ(run({"tokenizer", "train", "--input", path("corpus.txt"), "--vocab-size", "300",
                   "--output", path("tok")})
                  .code,
              0);
    const Outcome made =
        run({"preprocess", "--input", path("corpus.txt"), "--documents", "paragraph",
             "--append-eod", "--tokenizer-type", "gpt2", "--vocab-file", path("tok/vocab.json"),
             "--merge-file", path("tok/merges.txt"), "--output-prefix", path("corpus")});
    ASSERT_EQ(made.code, 0) << made.out;
    write("run.toml", configuration());
  }

  std::string configuration() const {
    return "[run]\nprecision = \"bf16\"\n"
           "[model]\nfamily = \"gpt\"\nnum_layers = 2\nhidden_size = 32\nnum_heads = 4\nseq_length "
           "= 16\nhidden_dropout = 0.1\n"
           "[data]\npath = [\"" +
           path("corpus_text_document") +
           "\"]\nsplit = \"90,10,0\"\ntokenizer = \"gpt2\"\n"
           "vocab_file = \"" +
           path("tok/vocab.json") + "\"\nmerge_file = \"" + path("tok/merges.txt") +
           "\"\n"
           "[train]\nmicro_batch_size = 2\nglobal_batch_size = 8\niters = 30\neval_interval = "
           "10\neval_iters = 1\nlog_interval = 10\n"
           "[optimizer]\nlr = 1e-2\nwarmup_iters = 3\n"
           "[checkpoint]\ninterval = 2\nkeep = 3\n";
  }

  // `trireme train run.toml run.dir=<name> more...`
  std::vector<std::string> train_arguments(const std::string& dir,
                                           std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train", path("run.toml"), "run.dir=" + path(dir)});
    return more;
  }
  Outcome train(const std::string& dir, const std::vector<std::string>& more = {},
                const Program::Environment& environment = {}) const {
    return run(train_arguments(dir, more), environment);
  }
  std::string metrics(const std::string& dir) const {
    return contents(folder_ / dir / "metrics.jsonl");
  }

  fs::path folder_;
};

}  // namespace trireme::testing_cli
