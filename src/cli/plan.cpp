// `trireme plan`: what a layout takes, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "cli/plan_search.h"
#include "config/run_rules.h"
#include "parallel/draw.h"
#include "plan/machine.h"
#include "plan/start_up.h"
#include "plan/time_plan.h"
#include "plan/verdict.h"
#include "runtime/devices.h"

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

// The target of the run: the machine that was named, or the device of the configuration.
Machine machine_for(const Config& config, const std::string& name) {
  if (name.empty()) return {"this machine", target_of(config.run.device), {}};
  Machine machine = find_machine(name);
  if (machine.target.device != config.run.device)
    fail_input(
        "--machine {0} computes on run.device = \"{1}\", and the configuration says \"{2}\": add "
        "run.device={1}",
        name, machine.target.device, config.run.device);
  return machine;
}

nlohmann::json to_json(const TimeByKind& times) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t k = 0; k < time_kinds; ++k)
    if (times[k] > 0) json[name_of(static_cast<TimeKind>(k))] = times[k];
  return json;
}

nlohmann::json to_json(const TimePlan& time) {
  nlohmann::json json = {{"machine", time.machine}, {"stack", time.stack->name}};
  if (!time.refused.empty()) json["refused"] = time.refused;
  if (time.seconds == 0) return json;
  const Utilization u = time.utilization();
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankTime& rank : time.ranks)
    ranks.push_back({{"busy", to_json(rank.busy)}, {"waits", to_json(rank.waits)}});
  json.update({{"seconds", time.seconds},
               {"samples_per_second", time.samples_per_second()},
               {"tokens_per_second_per_device", time.tokens_per_second()},
               {"flops_per_second_per_device", time.flops_rate()},
               {"utilisation",
                {{"necessary", u.necessary},
                 {"uncut", u.uncut},
                 {"recomputed", u.recomputed},
                 {"executed", u.executed}}},
               {"bubble", time.bubble},
               {"critical_path", to_json(time.path)},
               {"efficiency", time.efficiency},
               {"band", time.band},
               {"band_reason", time.band_reason},
               {"band_devices", time.band_devices},
               {"beyond_band", time.beyond},
               {"pipeline_ranks", ranks}});
  return json;
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
  nlohmann::json json = {{"fits", verdict.fits()},     {"limit", verdict.limit},
                         {"needed", verdict.needed()}, {"planned", verdict.planned},
                         {"besides", verdict.besides}, {"pipeline_rank", verdict.pipeline_rank},
                         {"alternatives", fitting}};
  if (verdict.host.memory > 0)
    json["host"] = {{"fits", verdict.fits_host()},
                    {"limit", verdict.host.memory},
                    {"kept", verdict.on_host},
                    {"ranks_on_node", verdict.host.ranks}};
  return json;
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
                     {"file_bytes", rank.in_files.states},
                     {"parameter_file_bytes", rank.in_files.parameters},
                     {"activation_file_bytes", rank.in_files.activations},
                     {"bytes_read_from_files", rank.files.read},
                     {"bytes_written_to_files", rank.files.written},
                     {"on_host",
                      {{"optimizer_states", rank.on_host.states},
                       {"parameters", rank.on_host.parameters},
                       {"activations", rank.on_host.activations},
                       {"checkpoint_copy", rank.on_host.copies},
                       {"besides", to_json(rank.besides_on_host)},
                       {"bytes_read", rank.host.read},
                       {"bytes_written", rank.host.written}}},
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
            {"expert_tp", degrees.expert_tp},
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

nlohmann::json to_json(const StartFiles& files) {
  nlohmann::json json = {{"what", files.what},
                         {"ranks", files.readers},
                         {"by_rank", files.rank},
                         {"by_node", files.node},
                         {"by_all", files.job}};
  if (files.bytes >= 0) json["bytes"] = files.bytes;
  return json;
}

nlohmann::json to_json(const StartPlan& start) {
  nlohmann::json files = nlohmann::json::array();
  for (const StartFiles& one : start.files) files.push_back(to_json(one));
  return {{"ranks", start.ranks},
          {"nodes", start.nodes},
          {"groups", start.groups},
          {"messages_of_rank", start.rank.messages},
          {"message_bytes_of_rank", start.rank.bytes},
          {"busiest_rank", start.busiest},
          {"messages_of_node", start.node.messages},
          {"message_bytes_of_node", start.node.bytes},
          {"files", files},
          {"files_total", to_json(start.total)}};
}

// Host of the nodes of a machine; the ranks of one that is not full have it to themselves.
NodeHost host_of(const Machine& machine, int ranks) {
  if (!machine.speed) return {};
  return {static_cast<std::int64_t>(machine.speed->host_bytes),
          std::min(ranks, machine.speed->devices)};
}

// Eight devices per node if the machine does not say how many.
StartPlan start_of(const PlanArguments& arguments, const Config& config, int ranks,
                   const Machine& machine) {
  constexpr int usual = 8;
  StartOptions options;
  options.ranks_on_node = arguments.ranks_on_node;
  if (options.ranks_on_node == 0)
    options.ranks_on_node = std::min(ranks, machine.speed ? machine.speed->devices : usual);
  options.resumes = arguments.resumes;
  options.config_file = arguments.file;
  return plan_start(config, ranks, machine.target, options);
}

void search(const PlanArguments& arguments, Config config) {
  validate(config);
  const std::string note = assume_vocabulary(config);
  SearchRequest request;
  request.ranks = arguments.ranks;
  if (!arguments.memory.empty()) request.memory = parse_byte_size(arguments.memory, "--memory");
  request.stack = arguments.stack;
  request.pictures = arguments.pictures;
  request.exhaustive = arguments.exhaustive;
  request.json = arguments.json;
  run_search(config, machine_for(config, arguments.machine), request);
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
  const ParallelConfig& p = config.parallel;
  const std::int64_t fewest = std::lcm(p.tp * p.cp, p.ep * p.expert_tp) * p.pp * p.dp_replicate;
  const std::int64_t ranks = arguments.ranks > 0 ? arguments.ranks : fewest;
  const std::string& memory = arguments.memory.empty() ? config.run.memory : arguments.memory;
  std::int64_t limit = memory.empty() ? 0 : parse_byte_size(memory, "--memory");
  check_run(config, ranks);
  std::vector<std::string> notes = layout_notes(config, ranks);
  if (std::string note = assume_vocabulary(config); !note.empty()) notes.push_back(note);
  const Machine machine = machine_for(config, arguments.machine);
  const Stack& stack = find_stack(arguments.stack);
  if (limit == 0 && machine.speed && stack.is_own())
    limit = static_cast<std::int64_t>(machine.speed->memory_bytes);
  const LayoutPlan plan = plan_layout(config, static_cast<int>(ranks), machine.target);
  std::optional<TimePlan> time;
  if (machine.speed) time = plan_time(plan, config, machine, stack);
  std::optional<StartPlan> start;
  if (arguments.startup) start = start_of(arguments, config, static_cast<int>(ranks), machine);
  if (!time && !arguments.trace.empty())
    fail_input("--trace needs a machine with figures of its speed: name one with --machine");
  std::optional<Verdict> verdict;
  if (limit > 0)
    verdict = judge(plan, config, static_cast<int>(ranks), limit,
                    host_of(machine, static_cast<int>(ranks)));
  const auto drawing = [&] { return draw_even_schedule(plan.schedule, plan.even); };
  if (!arguments.svg.empty()) write_file_durably(arguments.svg, drawing().svg);
  if (!arguments.trace.empty())
    write_file_durably(arguments.trace, trace_of(plan, config, machine, stack));
  if (!arguments.pictures.empty())
    write_pictures(config, static_cast<int>(ranks), machine, limit, arguments.pictures);
  if (!arguments.program.empty()) write_file_durably(arguments.program, program_text(plan));
  if (arguments.json) {
    nlohmann::json json = to_json(plan);
    json["notes"] = notes;
    if (verdict) json["verdict"] = to_json(*verdict);
    if (time) json["time"] = to_json(*time);
    if (start) json["startup"] = to_json(*start);
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}", to_text(plan, config));
    if (time) fmt::print("\n{}", to_text(*time));
    if (start) fmt::print("\n{}", to_text(*start));
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
      ->add_option(
          "--ranks,--devices", arguments->ranks,
          "Number of ranks, each with a device; by default the fewest that tp, cp, pp, ep, "
          "expert_tp and dp_replicate take")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option(
      "--memory", arguments->memory,
      "Memory of a rank, for example 64GiB: says whether the layout fits and what would; exit code "
      "1 if it does not (default: run.memory, or that of a device of --machine)");
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
