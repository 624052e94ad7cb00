// Jobs of several processes, started as by a user: a small model, a small corpus, and the
// comparisons that layouts must pass.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "cli/program.h"
#include "sample.h"

namespace trireme::testing_cli {

// A number of processes with these settings: "parallel.tp=2 parallel.zero=3".
struct Layout {
  int ranks;
  std::string settings;

  std::string text() const { return std::to_string(ranks) + " ranks " + settings; }
};

inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

inline bool have_mpirun() {
  return ::access(TRIREME_MPIEXEC, X_OK) == 0;
}

// The run that layouts are compared on: a dozen steps with two evaluations, since ranks that share
// two cores spend most of their time waking each other. Moments, clipping and learning rate decay
// show within a few steps.
constexpr int compared_steps = 12;
inline const std::string compared_run = "train.iters=12 train.eval_interval=6 ";

// Configures the launcher for more processes than cores and for root in a container: in variables,
// which Open MPI understands and others ignore.
inline std::string mpirun() {
  return "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe " TRIREME_MPIEXEC;
}

// Returns the largest relative difference between two lists; infinite if they do not match.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

class Jobs : public Workspace {
 protected:
  using Clock = std::chrono::steady_clock;

  void SetUp() override {
    if (!have_mpirun())
      GTEST_SKIP() << "mpirun was not found: layouts of several ranks are not run";
    prepare_data();
    write("run.toml", small_model());
  }

  // 8 layers for 8 stages, 4 heads for 4 tensor-parallel ranks, and a vocabulary of 300 that no
  // degree divides.
  std::string small_model() const {
    return "[run]\nprecision = \"fp32\"\n"
           "[model]\nfamily = \"gpt\"\nnum_layers = 8\nhidden_size = 32\nnum_heads = 4\n"
           "seq_length = 16\nhidden_dropout = 0.1\nattention_dropout = 0.1\n"
           "[data]\npath = [\"" +
           path("corpus_text_document") +
           "\"]\nsplit = \"90,10,0\"\ntokenizer = \"gpt2\"\nvocab_file = \"" +
           path("tok/vocab.json") + "\"\nmerge_file = \"" + path("tok/merges.txt") +
           "\"\n"
           "[train]\nmicro_batch_size = 1\nglobal_batch_size = 8\niters = 30\neval_interval = 15\n"
           "eval_iters = 1\nlog_interval = 10\ntimeout_s = 60\n"
           "[optimizer]\nlr = 3e-3\nwarmup_iters = 3\n";
  }

  std::vector<std::string> job_arguments(const std::string& dir, const Layout& layout,
                                         const std::string& more = "") const {
    std::vector<std::string> arguments = words_of(layout.settings + " " + more);
    if (layout.ranks > 1)
      arguments.insert(arguments.end(), {"--nproc", std::to_string(layout.ranks)});
    return train_arguments(dir, arguments);
  }
  // When a rank is dead, the launcher kills the others immediately, not a second later.
  Program start(const std::string& dir, const Layout& layout, const std::string& more = "") const {
    return Program(job_arguments(dir, layout, more), path(dir + ".out"),
                   {{"TRIREME_THREADS", "1"},
                    {"TRIREME_TEST_JOB", path(dir)},
                    {"OMPI_MCA_odls_base_sigkill_timeout", "0"}});
  }
  // Trains to the end, for at most two minutes.
  Outcome train_on(const std::string& dir, const Layout& layout,
                   const std::string& more = "") const {
    Program program = start(dir, layout, more);
    return wait_for(program, 600);
  }
  static Outcome wait_for(Program& program, double seconds) {
    const Clock::time_point end =
        Clock::now() + std::chrono::milliseconds(static_cast<long>(1000 * seconds));
    while (program.running() && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (program.running()) {
      ADD_FAILURE() << "the job did not end within " << seconds << " s";
      program.kill(SIGKILL);  // kills the launcher; without it its ranks end too
    }
    return program.wait();
  }

  std::string read(const std::string& name) const { return contents(folder_ / name); }
  std::vector<double> losses(const std::string& dir) const {
    return values_of(metrics(dir), "loss");
  }

  // Returns the largest relative difference between the losses of a layout and an earlier run.
  double difference_to(const std::string& reference, const Layout& layout,
                       const std::string& more = "") const {
    const std::string dir = "job" + std::to_string(jobs_++);
    const Outcome outcome = train_on(dir, layout, more);
    EXPECT_EQ(outcome.code, 0) << layout.text() << "\n" << outcome.out;
    const double largest =
        std::max(largest_difference(losses(dir), losses(reference)),
                 largest_difference(values_of(metrics(dir), "valid_loss"),
                                    values_of(metrics(reference), "valid_loss")));
    fs::remove_all(folder_ / dir);
    return largest;
  }

  mutable int jobs_ = 0;
};

// Returns a checkpoint in full: names, types, shapes and all bytes.
inline std::vector<std::pair<std::string, std::string>> tensors_of(const fs::path& path) {
  CheckpointReader reader(path);
  std::vector<std::pair<std::string, std::string>> all;
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\0');
    const TargetSlice target{tensor.name, tensor.dtype, tensor.shape, Region::whole(tensor.shape),
                             reinterpret_cast<std::byte*>(bytes.data())};
    reader.read({&target, 1});
    all.emplace_back(
        tensor.name + " " + std::string(name_of(tensor.dtype)) + " " + tensor.shape.text(),
        std::move(bytes));
  }
  return all;
}

// Returns "" if both contain the same bits, else the first tensor that differs.
inline std::string first_difference(const fs::path& a, const fs::path& b) {
  const auto left = tensors_of(a), right = tensors_of(b);
  if (left.size() != right.size()) return "number of tensors";
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].first != right[i].first) return left[i].first + " / " + right[i].first;
    if (left[i].second != right[i].second) return left[i].first;
  }
  return "";
}

}  // namespace trireme::testing_cli
