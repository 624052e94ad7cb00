// `trireme plan`: resource usage of a layout, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "cli/plan_search.h"
#include "parallel/draw.h"
#include "plan/plan_answer.h"

namespace trireme::cli {
namespace {

struct PlanArguments {
  std::string file;
  std::vector<std::string> overrides;
  int ranks = 0;
  bool schedule = false, json = false, search = false, exhaustive = false;
  bool startup = false, resumes = false;
  int ranks_on_node = 0;
  std::string svg, memory, program, machine, stack = "trireme", trace, pictures;
};

void search(const PlanArguments& arguments, Config config) {
  validate(config);
  const std::string note = assume_vocabulary(config);
  SearchRequest request;
  request.ranks = arguments.ranks;
  if (!arguments.memory.empty()) request.memory = parse_byte_size(arguments.memory, "--memory");
  request.stack = arguments.stack;
  request.exhaustive = arguments.exhaustive;
  run_search(config, machine_for(config, arguments.machine), request,
             {arguments.pictures, arguments.json});
  if (!note.empty() && !arguments.json) fmt::print("note: {}\n", note);
}

void run(const PlanArguments& arguments) {
  for (const std::string* file : {&arguments.svg, &arguments.trace, &arguments.program})
    require_new_file(*file);
  Config config = load_config(arguments.file, arguments.overrides);
  if (arguments.search) return search(arguments, std::move(config));
  if (arguments.exhaustive) fail_input("--exhaustive requires --search");
  if (!arguments.startup && (arguments.resumes || arguments.ranks_on_node > 0))
    fail_input("--resume and --ranks-on-node require --startup");
  PlanRequest request{.ranks = arguments.ranks,
                      .memory = arguments.memory,
                      .machine = arguments.machine,
                      .stack = arguments.stack,
                      .startup = arguments.startup,
                      .resumes = arguments.resumes,
                      .ranks_on_node = arguments.ranks_on_node,
                      .config_file = arguments.file};
  const PlanAnswer answer = answer_plan(config, request);
  const LayoutPlan& plan = answer.plan;
  if (!answer.time && !arguments.trace.empty())
    fail_input("--trace requires a machine with speed figures: choose one with --machine");
  const auto drawing = [&] { return draw_even_schedule(plan.schedule, plan.even); };
  if (!arguments.svg.empty()) write_file_durably(arguments.svg, drawing().svg);
  if (!arguments.trace.empty())
    write_file_durably(arguments.trace, trace_of(plan, config, answer.machine, *answer.stack));
  if (!arguments.pictures.empty())
    write_pictures(config, answer.ranks, answer.machine, answer.limit, arguments.pictures);
  if (!arguments.program.empty()) write_file_durably(arguments.program, program_text(plan));
  if (arguments.json) {
    fmt::print("{}\n", to_json_text(answer));
  } else {
    fmt::print("{}", to_text(plan, config));
    if (answer.time) fmt::print("\n{}", to_text(*answer.time));
    if (answer.start) fmt::print("\n{}", to_text(*answer.start));
    for (const std::string& note : answer.notes) fmt::print("note: {}\n", note);
    if (answer.verdict) fmt::print("\n{}", to_text(*answer.verdict));
    if (arguments.schedule) fmt::print("\n{}", drawing().text);
    if (!arguments.svg.empty()) fmt::print("\nschedule drawn in {}\n", arguments.svg);
  }
  std::fflush(stdout);
  if (answer.verdict && !answer.verdict->fits()) throw Error(ExitCode::failed, "");
}

}  // namespace

void add_plan(CLI::App& app) {
  auto* command = app.add_subcommand(
      "plan", "Show memory, flops, traffic and the pipeline bubble of a layout without running it");
  auto arguments = std::make_shared<PlanArguments>();
  command
      ->add_option("file", arguments->file,
                   "TOML file, as for train; its data files need not exist")
      ->required();
  command->add_option("overrides", arguments->overrides, "section.key=value, applied in order");
  command
      ->add_option(
          "--ranks,--devices", arguments->ranks,
          "Number of ranks, one per device (default: the smallest number that tp, cp, pp, ep, "
          "expert_tp and dp_replicate allow)")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option(
      "--memory", arguments->memory,
      "Memory per rank, for example 64GiB: report whether the layout fits, and alternatives if "
      "not; exit code 1 if it does not fit (default: run.memory, or that of a device of "
      "--machine)");
  command->add_flag("--schedule", arguments->schedule,
                    "Draw the pipeline schedule as text: one line per rank, time from left to "
                    "right");
  command->add_option("--svg", arguments->svg,
                      "Write a drawing of the pipeline schedule to this file, which must not "
                      "exist");
  command
      ->add_option(
          "--machine", arguments->machine,
          fmt::format(
              "Machine to plan for, which determines the scratch memory of kernels and, if its "
              "speed figures are known, the step time: {}, or a TOML file of the same form "
              "(default: this machine)",
              fmt::join(machine_names(), ", ")))
      ->check([](const std::string& name) {
        return std::string(name.empty() ? "is empty: remove it to plan for this machine" : "");
      });
  command->add_option(
      "--trace", arguments->trace,
      "Write the simulated step to this file, which must not exist, as a Chrome trace");
  command->add_option("--stack", arguments->stack,
                      "Estimate the step time of another software stack, to compare with its "
                      "published results: torchtitan, megatron-deepspeed ... (default: trireme)");
  command->add_option("--program", arguments->program,
                      "Write the kernels, copies and messages that a rank of each pipeline stage "
                      "enqueues in a step, in order, to this file, which must not exist");
  command->add_flag("--search", arguments->search,
                    "Search for the fastest layouts that fit on --devices of --machine, regardless "
                    "of [parallel]");
  command->add_flag("--exhaustive", arguments->exhaustive,
                    "With --search: simulate every layout, to verify that none was pruned wrongly");
  command->add_option("--pictures", arguments->pictures,
                      "Write drawings of memory, time and schedule to this folder; with --search, "
                      "of the fastest layout, and of the steps of all layouts shown");
  command->add_flag("--startup", arguments->startup,
                    "Count the messages that ranks exchange and the files that they open before "
                    "the first training step");
  command->add_flag("--resume", arguments->resumes,
                    "With --startup: for a start from a checkpoint saved by the same layout");
  command
      ->add_option("--ranks-on-node", arguments->ranks_on_node,
                   "With --startup: ranks per node (default: the devices per node of --machine, or "
                   "8)")
      ->check(CLI::Range(1, 1 << 16));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
