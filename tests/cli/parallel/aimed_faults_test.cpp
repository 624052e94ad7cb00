// Tests of ranks that die or stop at a chosen point of a step: in a forward pass, in a backward
// pass, in the reduction of gradients. (For saves, see faults_test.cpp.)
#include "faults.h"

namespace trireme::testing_cli {
namespace {

// Each of the two ranks has four micro-batches per step; the forward pass of the layers takes a
// third of a micro-batch's products, the head and the backward pass take the rest.
const Layout layout{2, ""};
constexpr long steps = 60, micro_batches = 4;

class SlowAimedFaults : public Faults {
 protected:
  Program start_aimed(const std::string& dir, int rank, const std::string& kind, long number,
                      int signal) const {
    return Program(
        job_arguments(dir, layout, settings_), path(dir + ".out"),
        {{"TRIREME_THREADS", "1"},
         {"TRIREME_TEST_JOB", path(dir)},
         {"OMPI_MCA_odls_base_sigkill_timeout", "0"},
         {"LD_PRELOAD", TRIREME_TEST_AIM},
         {"TRIREME_TEST_COUNTS", path("counts")},
         {"TRIREME_TEST_AIM", std::to_string(rank) + " " + kind + " " + std::to_string(number) +
                                  " " + std::to_string(signal)}});
  }
  // Counts the products and long messages of one step.
  void count() {
    Program program = start_aimed("whole", 0, "none", 0, 0);
    ASSERT_EQ(wait_for(program, 600).code, 0) << read("whole.out");
    long products = 0, messages = 0;
    ASSERT_EQ(std::sscanf(read("counts.0").c_str(), "%ld %ld", &products, &messages), 2);
    ASSERT_GT(products, 0);
    ASSERT_GT(messages, 0);
    ASSERT_EQ(products % (steps * micro_batches), 0);
    products_ = products / steps;
    messages_ = messages / steps;
  }
  // Injects a fault into step 7: every other step has a checkpoint, so step 6 is saved.
  void hit(const std::string& kind, long number, int signal, int rank) const {
    Program program = start_aimed("run", rank, kind, number, signal);
    advance(program, "run", 6, 0);
    expect_end(program, "run", (signal == SIGSTOP ? timeout_s : 0) + end_s);
    const std::size_t done = values_of(metrics("run"), "loss").size();
    EXPECT_EQ(done, 6u) << "the signal came elsewhere";
    expect_resumes("run", layout, settings_);
    fs::remove_all(folder_ / "run");
  }

  const std::string settings_ = exact_ + " train.eval_iters=0";
  long products_ = 0, messages_ = 0;
};

TEST_F(SlowAimedFaults, InForwardBackwardAndReduction) {
  ASSERT_NO_FATAL_FAILURE(count());
  const long micro_batch = products_ / micro_batches;
  const std::pair<std::string, long> places[] = {
      {"product", 6 * products_ + micro_batch / 6},                        // forward
      {"product", 6 * products_ + 2 * micro_batch + 4 * micro_batch / 5},  // backward
      {"message", 6 * messages_ + messages_ / 2},                          // reduction
  };
  int hits = 0;
  int stopped = 0;  // alternates the rank: each case waits for the watchdog
  for (const auto& [kind, number] : places) {
    for (const auto& [signal, rank] :
         {std::pair{SIGKILL, 0}, {SIGKILL, 1}, {SIGSTOP, stopped++ % 2}}) {
      // The short test covers every place and every signal once.
      if (!long_tests() && hits++ % 4 > 0) continue;
      SCOPED_TRACE(kind + " " + std::to_string(number) + ", signal " + std::to_string(signal) +
                   " to rank " + std::to_string(rank));
      hit(kind, number, signal, rank);
    }
  }
}

}  // namespace
}  // namespace trireme::testing_cli
