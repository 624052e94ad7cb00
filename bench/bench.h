// Shared by the benchmarks: contenders that run alternately, operands, and the setup of Google
// Benchmark. Figures are medians of nine short repetitions; all of its flags work, so that
// --benchmark_filter=REGEX chooses and --benchmark_format=json writes everything.
#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme::bench {

// A function whose time is compared with that of others.
struct Contender {
  std::string name;  // name of its counter
  double work;       // bytes or flops of one run
  std::function<void()> run;
};

inline double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Times the first contender and the others, its limits or rivals, alternately, so that other work
// on the machine slows all of them. Counters: the work per second of each; the first one's speed in
// percent of each other's; and its work per second of processor time of all threads, per_core,
// which is more meaningful on a busy machine. (The column CPU covers only one thread, and all
// contenders.)
inline void in_turns(benchmark::State& state, const std::vector<Contender>& contenders) {
  for (const Contender& one : contenders) one.run();  // warm caches, lazy set-up
  std::vector<double> wall(contenders.size());
  double busy = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const double start = now(CLOCK_MONOTONIC), busy_start = now(CLOCK_PROCESS_CPUTIME_ID);
      contenders[i].run();
      const double busy_end = now(CLOCK_PROCESS_CPUTIME_ID), seconds = now(CLOCK_MONOTONIC) - start;
      wall[i] += seconds;
      if (i > 0) continue;
      busy += busy_end - busy_start;
      state.SetIterationTime(seconds);
    }
  }
  const auto rounds = static_cast<double>(state.iterations());
  const auto speed = [&](std::size_t i) { return contenders[i].work * rounds / wall[i]; };
  state.counters["per_core"] = contenders[0].work * rounds / busy;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    state.counters[contenders[i].name] = speed(i);
    if (i > 0) state.counters["%" + contenders[i].name] = 100 * speed(0) / speed(i);
  }
}

// Normally distributed random numbers. They repeat, because generating all of them would take
// longer than the benchmark.
template <class T>
std::vector<T> random_values(std::int64_t count) {
  constexpr std::int64_t period = 100'003;
  std::vector<T> out(count);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = i < period ? T(static_cast<float>(normal(1, 0, i))) : out[i - period];
  }
  return out;
}

// Omits means and deviations, which the JSON output has.
class MedianReporter : public benchmark::ConsoleReporter {
 public:
  MedianReporter() : ConsoleReporter(OO_Tabular) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> shown;
    std::ranges::copy_if(runs, std::back_inserter(shown), [](const Run& run) {
      return run.run_type == Run::RT_Iteration || run.aggregate_name == "median";
    });
    if (!shown.empty()) ConsoleReporter::ReportRuns(shown);
  }
};

// Reads Google Benchmark's flags. Returns the other arguments, the program's name first.
inline std::vector<char*> initialize(int argc, char** argv) {
  static char defaults[][48] = {"--benchmark_repetitions=9", "--benchmark_min_time=0.05",
                                "--benchmark_report_aggregates_only=true"};
  std::vector<char*> arguments{argv[0]};
  for (char* flag : defaults) arguments.push_back(flag);
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  auto count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  arguments.resize(count);
  benchmark::AddCustomContext("threads", std::to_string(ThreadPool::global().size()));
  return arguments;
}

inline void run_registered() {
  const std::unique_ptr<benchmark::BenchmarkReporter> chosen(
      benchmark::CreateDefaultDisplayReporter());
  MedianReporter medians;
  const bool console = dynamic_cast<benchmark::ConsoleReporter*>(chosen.get()) != nullptr;
  benchmark::RunSpecifiedBenchmarks(console ? &medians : chosen.get());
}

// The main function of a program whose benchmarks are registered.
inline int run_main(int argc, char** argv) {
  std::vector<char*> arguments = initialize(argc, argv);
  if (benchmark::ReportUnrecognizedArguments(static_cast<int>(arguments.size()),
                                             arguments.data())) {
    return 2;
  }
  run_registered();
  return 0;
}

}  // namespace trireme::bench
