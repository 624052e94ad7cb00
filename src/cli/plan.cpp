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
  if (arguments.exhaustive) fail_input("--exhaustive belongs to --search: add it");
  if (!arguments.startup && (arguments.resumes || arguments.ranks_on_node > 0))
    fail_input("--resume and --ranks-on-node belong to --startup: add it");
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
    fail_input("--trace needs a machine with figures of its speed: name one with --machine");
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
                   "TOML file, as for train; the files of its data need not exist")
      ->required();
  command->add_option("overrides", arguments->overrides, "section.key=value, applied in order");
  command
      ->add_option(
          "--ranks,--devices", arguments->ranks,
          "Number of ranks, each with a device; by default the fewest that tp, cp, pp, ep, "
          "expert_tp and dp_replicate take")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option(
      "--memory", arguments->memory,
      "Memory of a rank, for example 64GiB: says whether the layout fits and what "
      "would; exit code 1 if it does not (default: run.memory, or that of a device of "
      "--machine)");
  command->add_flag("--schedule", arguments->schedule,
                    "Draw the schedule as text: ranks down, time across");
  command->add_option("--svg", arguments->svg,
                      "Draw the schedule into this file, which must not exist");
  command
      ->add_option(
          "--machine", arguments->machine,
          fmt::format(
              "What the run computes on, which sizes the scratch of kernels and, where its figures "
              "are known, says how long a step takes: {}, or a TOML file like them (default: this "
              "machine)",
              fmt::join(machine_names(), ", ")))
      ->check([](const std::string& name) {
        return std::string(name.empty() ? "is empty: leave it out to plan for this machine" : "");
      });
  command->add_option(
      "--trace", arguments->trace,
      "Write the simulated step to this file, which must not exist, as a Chrome trace");
  command->add_option("--stack", arguments->stack,
                      "Time the step as another software would run it, to compare with what is "
                      "published of it: torchtitan, megatron-deepspeed ... (default: trireme)");
  command->add_option("--program", arguments->program,
                      "Write what a rank of each pipeline position is told to do in a step to this "
                      "file, which must not exist: kernels, copies and messages in their order");
  command->add_flag("--search", arguments->search,
                    "Look for the fastest layouts that fit on --devices of --machine, whatever "
                    "[parallel] says");
  command->add_flag(
      "--exhaustive", arguments->exhaustive,
      "With --search: simulate every layout, to check that none was left out wrongly");
  command->add_option("--pictures", arguments->pictures,
                      "Draw memory, time and schedule into this folder; with --search, of the "
                      "fastest layout, and the steps of all that are shown");
  command->add_flag("--startup", arguments->startup,
                    "Count the messages that ranks exchange and the files that they open before "
                    "the first step");
  command->add_flag("--resume", arguments->resumes,
                    "With --startup: from a checkpoint that the same layout has saved");
  command
      ->add_option("--ranks-on-node", arguments->ranks_on_node,
                   "With --startup (default: the devices of a node of --machine, or 8)")
      ->check(CLI::Range(1, 1 << 16));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
