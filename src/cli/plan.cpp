// `trireme plan`: what a layout takes, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "parallel/draw.h"
#include "plan/machine.h"
#include "plan/verdict.h"
#include "runtime/devices.h"
#include "train/setup.h"

namespace trireme::cli {
namespace {

struct PlanArguments {
  std::string file;
  std::vector<std::string> overrides;
  int ranks = 0;
  bool schedule = false, json = false;
  std::string svg, memory, program, machine;
};

// What the run will compute on: the machine that was named, or the device of the configuration.
Target target_for(const Config& config, const std::string& machine) {
  if (machine.empty()) return target_of(config.run.device);
  const Target target = find_machine(machine);
  if (name_of(target.device) != config.run.device)
    fail_input("--machine {} computes on run.device = \"{}\", and the configuration says \"{}\"",
               machine, name_of(target.device), config.run.device);
  return target;
}

// Activations of how many micro-batches of a whole rank.
double held(int in_flight, const LayoutPlan& plan) {
  return static_cast<double>(in_flight) / plan.schedule.chunks();
}

nlohmann::json to_json(const MemoryPlan& memory) {
  nlohmann::json regions = nlohmann::json::object();
  for (const MemoryRegion& region : memory.regions) regions[region.name] = region.bytes;
  return regions;
}

nlohmann::json to_json(const Verdict& verdict) {
  nlohmann::json fitting = nlohmann::json::array();
  for (const Alternative& one : verdict.fitting)
    fitting.push_back({{"overrides", one.overrides}, {"needed", one.needed}});
  return {{"fits", verdict.fits()},     {"limit", verdict.limit},
          {"needed", verdict.needed()}, {"planned", verdict.planned},
          {"besides", verdict.besides}, {"pipeline_rank", verdict.pipeline_rank},
          {"alternatives", fitting}};
}

nlohmann::json to_json(const LayoutPlan& plan) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankPlan& rank : plan.ranks) {
    const RankReport& scheduled = plan.even.ranks[rank.pipeline_rank];
    ranks.push_back({{"pipeline_rank", rank.pipeline_rank},
                     {"parameters", rank.parameters},
                     {"memory", to_json(rank.memory)},
                     {"memory_besides", to_json(rank.besides)},
                     {"memory_total", rank.memory.total()},
                     {"file_bytes", rank.file_bytes},
                     {"flops", rank.flops},
                     {"micro_batches_held", held(scheduled.peak_in_flight, plan)},
                     {"messages_sent", scheduled.sends},
                     {"idle", plan.even.makespan > 0 ? scheduled.idle / plan.even.makespan : 0},
                     {"bytes_sent",
                      {{"tensor", rank.traffic.tensor},
                       {"context", rank.traffic.context},
                       {"experts", rank.traffic.experts},
                       {"pipeline", rank.traffic.pipeline},
                       {"gradients", rank.traffic.gradients},
                       {"parameters", rank.traffic.parameters}}}});
  }
  const MeshDegrees& degrees = plan.mesh.degrees();
  return {{"ranks", plan.mesh.size()},
          {"mesh", plan.mesh.text()},
          {"degrees",
           {{"tp", degrees.tp},
            {"cp", degrees.cp},
            {"ep", degrees.ep},
            {"dp", degrees.dp()},
            {"dp_replicate", degrees.dp_replicate},
            {"pp", degrees.pp}}},
          {"virtual_stages", plan.schedule.chunks()},
          {"schedule", std::string(name_of(plan.schedule.kind))},
          {"parameters", plan.parameters},
          {"tokens_per_step", plan.tokens},
          {"micro_batches", plan.micro_batches},
          {"flops_per_step", plan.flops},
          {"bubble", plan.even.bubble},
          {"bubble_by_flops", plan.by_flops.bubble},
          {"pipeline_ranks", ranks}};
}

void run(const PlanArguments& arguments) {
  Config config = load_config(arguments.file, arguments.overrides);
  const ParallelConfig& p = config.parallel;
  const std::int64_t ranks =
      arguments.ranks > 0 ? arguments.ranks : p.tp * p.cp * p.pp * p.dp_replicate;
  const std::string& memory = arguments.memory.empty() ? config.run.memory : arguments.memory;
  const std::int64_t limit = memory.empty() ? 0 : parse_byte_size(memory, "--memory");
  validate(config);
  validate_layout(config, ranks);
  refuse_what_is_not_there(config);
  std::vector<std::string> notes = layout_notes(config, ranks);
  if (std::string note = assume_vocabulary(config); !note.empty()) notes.push_back(note);
  const LayoutPlan plan =
      plan_layout(config, static_cast<int>(ranks), target_for(config, arguments.machine));
  std::optional<Verdict> verdict;
  if (limit > 0) verdict = judge(plan, config, static_cast<int>(ranks), limit);
  const auto drawing = [&] { return draw_even_schedule(plan.schedule, plan.even); };
  if (!arguments.svg.empty()) write_file_durably(arguments.svg, drawing().svg);
  if (!arguments.program.empty()) write_file_durably(arguments.program, program_text(plan));
  if (arguments.json) {
    nlohmann::json json = to_json(plan);
    json["notes"] = notes;
    if (verdict) json["verdict"] = to_json(*verdict);
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}", to_text(plan, config));
    for (const std::string& note : notes) fmt::print("note: {}\n", note);
    if (verdict) fmt::print("\n{}", to_text(*verdict));
    if (arguments.schedule) fmt::print("\n{}", drawing().text);
    if (!arguments.svg.empty()) fmt::print("\nschedule drawn in {}\n", arguments.svg);
  }
  std::fflush(stdout);
  if (verdict && !verdict->fits()) throw Error(ExitCode::failed, "");
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
      ->add_option("--ranks", arguments->ranks,
                   "Number of ranks; by default tp x cp x pp x dp_replicate")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--memory", arguments->memory,
                      "Memory of a rank, for example 64GiB: says whether the layout fits and what "
                      "would; exit code 1 if it does not (default: run.memory)");
  command->add_flag("--schedule", arguments->schedule,
                    "Draw the schedule as text: ranks down, time across");
  command->add_option("--svg", arguments->svg, "Draw the schedule into this file");
  command
      ->add_option(
          "--machine", arguments->machine,
          fmt::format(
              "What the run computes on, which sizes the scratch of kernels: {}, or a TOML file "
              "like them (default: this machine)",
              fmt::join(machine_names(), ", ")))
      ->check([](const std::string& name) {
        return std::string(name.empty() ? "is empty: leave it out to plan for this machine" : "");
      });
  command->add_option("--program", arguments->program,
                      "Write what a rank of each pipeline position is told to do in a step to this "
                      "file: kernels, copies and messages in their order");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
