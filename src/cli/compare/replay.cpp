// `trireme replay`: recomputes steps of a run and compares them with its records.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch/job.h"
#include "cli/launch/launch.h"
#include "comm/transport.h"
#include "compare/replay.h"
#include "config/run_rules.h"
#include "runtime/join.h"
#include "train/run/ranks.h"
#include "train/watch/interrupt.h"

namespace trireme::cli {
namespace {

struct ReplayOptions {
  ReplayRequest request;
  std::string run, steps;
  int nproc = 0;
  bool as_json = false;
};

// Parses "11:20", or a single step.
void read_steps(const std::string& text, ReplayRequest& request) {
  const char *at = text.data(), *const end = at + text.size();
  const auto [after_first, error] = std::from_chars(at, end, request.first);
  const auto [after_last, second_error] = after_first != end && *after_first == ':'
                                              ? std::from_chars(after_first + 1, end, request.last)
                                              : std::from_chars(at, end, request.last);
  if (error != std::errc() || second_error != std::errc() || after_last != end)
    fail_input("--steps {}: expected two steps A:B, or one", text);
}

// Describes a difference; "" if there is none.
std::string difference_text(const ReplayPlan& plan, const ReplayReport& report) {
  if (report.first_differing.empty()) return "";
  std::string text = fmt::format("step {} is the first that differs from the run",
                                 report.first_differing.front().step);
  const char* between = ": ";
  for (const ReplayedValue& value : report.first_differing) {
    text += fmt::format("{}{} is {}, but was {} in the run", between, value.name, value.here,
                        value.in_run);
    between = ", ";
  }
  text += fmt::format("; {} of {} differ in total", report.differing_steps,
                      counted(report.steps, "step"));
  const ParallelConfig& parallel = plan.config.parallel;
  const bool exact = parallel.exact();
  if (!exact && (plan.other_layout || plan.other_micro_batch)) {
    text +=
        ". With parallel.numerics = \"fast\" sums are rounded differently on another layout, so "
        "only the run's own layout reproduces its bits";
  } else if (exact && plan.other_tensor_ranks && parallel.exact_leaves == 0) {
    text +=
        ". parallel.tp differs from the run, which changes the bits without parallel.exact_leaves";
  } else if (exact && plan.other_micro_batch && parallel.exact_block == 0) {
    text +=
        ". train.micro_batch_size differs from the run, which changes the bits without "
        "parallel.exact_block";
  }
  if (!plan.changed.empty())
    text += fmt::format(". Different from the run: {}", fmt::join(plan.changed, "; "));
  return text;
}

std::string equal_text(const ReplayReport& report) {
  return fmt::format(
      "steps {} to {} reproduce the run bit for bit: losses, gradient norms, positions, {}\n",
      report.from, report.from + report.steps - 1,
      report.hashes > 0
          ? fmt::format("and the hashes of all parameters after {}", counted(report.hashes, "step"))
          : "no hashes were recorded (train.hash_interval)");
}

void print_json(const ReplayPlan& plan, const ReplayReport& report) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const ReplayedValue& value : report.first_differing)
    values[value.name] = {{"run", nlohmann::json::parse(value.in_run)},
                          {"replay", nlohmann::json::parse(value.here)}};
  const bool equal = report.first_differing.empty();
  const nlohmann::ordered_json json{
      {"equal", equal},
      {"checkpoint", plan.checkpoint.string()},
      {"first_step", report.from},
      {"steps", report.steps},
      {"hashes", report.hashes},
      {"differing_steps", report.differing_steps},
      {"first_differing_step", equal ? nlohmann::ordered_json(nullptr)
                                     : nlohmann::ordered_json(report.first_differing.front().step)},
      {"values", std::move(values)}};
  fmt::print("{}\n", json.dump());
}

void replay_here(const ReplayPlan& plan, bool as_json, Transport& transport) {
  const bool leads = transport.place().rank == 0;
  if (leads) {
    fmt::print(stderr, "steps {} to {}, starting {}\n", plan.first, plan.last,
               plan.checkpoint.empty() ? "at the beginning of the run"
                                       : fmt::format("from '{}'", plan.checkpoint.string()));
  }
  const ReplayReport report = replay(plan, stderr, transport);
  const std::string difference = from_rank_0(&transport, difference_text(plan, report));
  if (leads && as_json) print_json(plan, report);
  if (leads && !as_json && difference.empty()) fmt::print("{}", equal_text(report));
  std::fflush(stdout);
  if (!difference.empty()) fail("{}", difference);
}

void run_replay(ReplayOptions& options) {
  options.request.run = options.run;
  read_steps(options.steps, options.request);
  ReplayPlan plan = plan_replay(options.request);
  plan.config.log.level = LogLevel::warning;
  if (options.nproc > 0) {
    check_run(plan.config, options.nproc);
    launch_processes(options.nproc, "");
  }
  const InterruptGuard guard;
  install_signal_handlers();
  const JoinedJob job(plan.config.run.device, plan.config.train.timeout_s);
  if (job.transport().place().rank == 0) notify_job(JobState::listening);
  run_guarded(job.transport(), [&] {
    job.choose_device();
    replay_here(plan, options.as_json, job.transport());
  });
  if (job.transport().place().rank == 0) notify_job(JobState::done);
}

}  // namespace

void add_replay(CLI::App& app) {
  const auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand(
      "replay", "Recompute steps of a run, on any layout, and compare losses and hashes");
  command->footer(
      "Exit code: 0 every value is equal to that of the run, 1 a step differs or cannot be "
      "computed, 2 wrong input, 3 interrupted. The steps start from the newest checkpoint before "
      "them; nothing is written to the run's folder.\n");
  command->add_option("run", options->run, "Folder of the run, which contains metrics.jsonl")
      ->required();
  command->add_option("overrides", options->request.overrides,
                      "section.key=value, such as the layout: parallel.pp=2");
  command->add_option("--steps", options->steps, "A:B, first and last step; or one step")
      ->required();
  command
      ->add_option("--nproc", options->nproc,
                   "Start this number of processes on this machine with mpirun")
      ->check(CLI::Range(1, 1 << 16));
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] { run_replay(*options); });
}

}  // namespace trireme::cli
