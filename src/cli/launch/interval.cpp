// `trireme interval`: optimal save interval of a run, and resulting share of training time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "operations/save_interval.h"

namespace trireme::cli {
namespace {

constexpr double most_days = 1000;
constexpr double most_saves = 1e6;  // limits the duration of the simulation

struct IntervalArguments {
  std::string run;
  int ranks = 0;
  double device_mtbf_hours = llama3_device_mtbf / 3600;
  std::optional<double> job_mtbf_hours, stall, write, step;
  double restart = 120, start_success = 1;
  std::uint64_t seed = 1;
  bool json = false;
};

// Medians of a run's measurements.
struct Measured {
  std::optional<double> stall, write, step;
};

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Measured measured_by(const fs::path& run) {
  const fs::path path = run / "timings.jsonl";
  if (!fs::exists(path))
    fail_input("'{}' is missing: expected the folder of a run that has trained", path.string());
  std::vector<double> stalls, writes, steps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;  // torn line after a kill
    const auto take = [&](const char* key, std::vector<double>& values) {
      const auto found = json.find(key);
      if (found != json.end() && found->is_number() && found->get<double>() >= 0)
        values.push_back(found->get<double>());
    };
    take("save_waited_seconds", stalls);
    take("save_seconds", writes);
    take("seconds", steps);
  }
  return {median(stalls), median(writes), median(steps)};
}

FailingRun run_of(const IntervalArguments& a, const Measured& measured) {
  FailingRun run;
  run.mtbf = a.job_mtbf_hours ? *a.job_mtbf_hours * 3600 : a.device_mtbf_hours * 3600 / a.ranks;
  const std::optional<double> stall = a.stall ? a.stall : measured.stall;
  if (!stall) {
    if (a.run.empty())
      fail_input(
          "the time that training waits for a save is unknown: add --save-stall SECONDS, or --run "
          "DIR of a run that has saved");
    fail_input("'{}' has not measured a save yet: add --save-stall SECONDS", a.run);
  }
  run.stall = *stall;
  const std::optional<double> write = a.write ? a.write : a.stall ? a.stall : measured.write;
  run.write = std::max(run.stall, write.value_or(0));
  if (a.write && *a.write < run.stall)
    fail_input("--save-seconds {}: expected at least the {:.3g} s that training waits", *a.write,
               run.stall);
  run.restart = a.restart;
  run.start_success = a.start_success;
  return run;
}

std::string percent(double share) {
  return fmt::format("{:.2f}%", 100 * share);
}

// Formats "3.17", "3,170": three digits, never an exponent.
std::string hours_text(double hours) {
  if (hours < 1000) return fmt::format("{:.3g}", hours);
  const double unit = std::pow(10, std::floor(std::log10(hours)) - 2);
  std::string text = fmt::format("{:.0f}", std::round(hours / unit) * unit);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

void print(const FailingRun& run, double interval, std::int64_t steps, const SimulatedRun& s,
           double days, int ranks) {
  fmt::print("{:<22} one in {} h{}\n", "failures", hours_text(run.mtbf / 3600),
             ranks > 0 ? " on " + counted(ranks, "rank") : "");
  fmt::print("{:<22} {:.3g} s stall, complete after {:.3g} s\n", "a save", run.stall, run.write);
  fmt::print("{:<22} {:.3g} s to the first step{}\n", "a restart", run.restart,
             run.start_success < 1
                 ? fmt::format("; {} of starts succeed", percent(run.start_success))
                 : "");
  fmt::print("{:<22} {:.4g} s (Young {:.4g} s, Daly {:.4g} s)\n", "interval", interval,
             young_interval(run.stall, run.mtbf), daly_interval(run.stall, run.mtbf));
  if (steps > 0) fmt::print("{:<22} checkpoint.interval={}\n", "in steps", steps);
  fmt::print("{:<22} {} ({} failures in {:.4g} simulated days)\n", "effective time (ETTR)",
             percent(s.shares.training), s.failures, days);
  fmt::print("{:<22} {} saving, {} of lost work, {} restarting\n", "lost", percent(s.shares.saving),
             percent(s.shares.lost), percent(s.shares.restarting));
}

void run(const IntervalArguments& arguments) {
  if (!arguments.job_mtbf_hours && arguments.ranks == 0)
    fail_input("the failure rate of the job is unknown: add --ranks N or --job-mtbf-hours HOURS");
  const Measured measured = arguments.run.empty() ? Measured{} : measured_by(arguments.run);
  const FailingRun run = run_of(arguments, measured);
  if (run.stall == 0)
    fail_input("--save-stall must be above 0: saves without cost can be made after every step");
  const double interval = best_interval(run);
  const std::optional<double> step = arguments.step ? arguments.step : measured.step;
  const std::int64_t steps =
      step && *step > 0 ? std::max<std::int64_t>(1, std::llround(interval / *step)) : 0;
  const double days = std::min(most_days, most_saves * interval / 86400);
  const SimulatedRun s = simulate(run, interval, days * 86400, arguments.seed);
  if (!arguments.json) return print(run, interval, steps, s, days, arguments.ranks);
  nlohmann::ordered_json json = {{"mtbf_seconds", run.mtbf},
                                 {"save_stall_seconds", run.stall},
                                 {"save_seconds", run.write},
                                 {"restart_seconds", run.restart},
                                 {"start_success", run.start_success},
                                 {"interval_seconds", interval},
                                 {"young_seconds", young_interval(run.stall, run.mtbf)},
                                 {"daly_seconds", daly_interval(run.stall, run.mtbf)},
                                 {"ettr", s.shares.training},
                                 {"saving", s.shares.saving},
                                 {"lost", s.shares.lost},
                                 {"restarting", s.shares.restarting},
                                 {"failures", s.failures},
                                 {"simulated_days", days}};
  if (steps > 0) json["interval_steps"] = steps;
  fmt::print("{}\n", json.dump());
}

}  // namespace

void add_interval(CLI::App& app) {
  auto* command = app.add_subcommand(
      "interval", "Choose checkpoint.interval from the cost of a save and the failure rate");
  auto arguments = std::make_shared<IntervalArguments>();
  IntervalArguments& a = *arguments;
  const auto seconds = CLI::Range(0.0, 1e6);
  const auto hours = CLI::Range(1e-3, 1e9);
  command->add_option("--run", a.run,
                      "Folder of a run, whose measured save and step times replace the flags below "
                      "that are not given");
  command->add_option("--ranks", a.ranks, "Number of devices of the job")
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--device-mtbf-hours", a.device_mtbf_hours,
                   "Mean time between failures of one device, in hours (default: that of Llama 3's "
                   "job on 16,384 GPUs)")
      ->check(hours);
  command
      ->add_option("--job-mtbf-hours", a.job_mtbf_hours,
                   "Mean time between failures of the whole job, in hours; replaces --ranks")
      ->check(hours);
  command
      ->add_option("--save-stall", a.stall,
                   "Seconds that training waits for a save; with checkpoint.async only for the "
                   "copy in memory")
      ->check(seconds);
  command
      ->add_option("--save-seconds", a.write,
                   "Seconds until the checkpoint is complete (default: --save-stall)")
      ->check(seconds);
  command
      ->add_option("--restart-seconds", a.restart,
                   "Seconds from a failure to the first step: detection, start-up, loading")
      ->check(seconds)
      ->capture_default_str();
  command
      ->add_option("--start-success", a.start_success, "Share of starts that reach the first step")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--step-seconds", a.step, "Seconds per step, to print the interval in steps")
      ->check(CLI::Range(1e-6, 1e6));
  command->add_option("--seed", a.seed, "Seed of the simulated failures")->capture_default_str();
  command->add_flag("--json", a.json, "Print JSON");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
