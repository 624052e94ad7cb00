// Completes a plan to an answer, and converts it to JSON.
#include "plan/plan_answer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "config/run_rules.h"
#include "runtime/devices.h"

namespace trireme {

// The target of the run: the machine that was named, or the device of the configuration.
Machine machine_for(const Config& config, const std::string& name) {
  if (name.empty()) return {"this machine", target_of(config.run.device), {}};
  Machine machine = find_machine(name);
  if (machine.target.device != config.run.device)
    fail_input(
        "--machine {0} requires run.device = \"{1}\", but the configuration has \"{2}\": add "
        "run.device={1}",
        name, machine.target.device, config.run.device);
  return machine;
}

namespace {

nlohmann::json plan_json(const TimeByKind& times) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t k = 0; k < time_kinds; ++k)
    if (times[k] > 0) json[name_of(static_cast<TimeKind>(k))] = times[k];
  return json;
}

nlohmann::json plan_json(const TimePlan& time) {
  nlohmann::json json = {{"machine", time.machine}, {"stack", time.stack->name}};
  if (!time.refused.empty()) json["refused"] = time.refused;
  if (time.seconds == 0) return json;
  const Utilization u = time.utilization();
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankTime& rank : time.ranks)
    ranks.push_back({{"busy", plan_json(rank.busy)}, {"waits", plan_json(rank.waits)}});
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
               {"critical_path", plan_json(time.path)},
               {"efficiency", time.efficiency},
               {"band", time.band},
               {"band_reason", time.band_reason},
               {"band_devices", time.band_devices},
               {"beyond_band", time.beyond},
               {"pipeline_ranks", ranks}});
  return json;
}

// Activations in units of micro-batches of a full rank.
double held(int in_flight, const LayoutPlan& plan) {
  return static_cast<double>(in_flight) / plan.schedule.chunks();
}

nlohmann::json plan_json(const MemoryPlan& memory) {
  nlohmann::json regions = nlohmann::json::object();
  for (const MemoryRegion& region : memory.regions) regions[region.name] = region.bytes;
  return regions;
}

nlohmann::json plan_json(const Verdict& verdict) {
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

nlohmann::json plan_json(const LayoutPlan& plan) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankPlan& rank : plan.ranks) {
    const RankReport& scheduled = plan.even.ranks[rank.pipeline_rank];
    ranks.push_back({{"pipeline_rank", rank.pipeline_rank},
                     {"parameters", rank.parameters},
                     {"memory", plan_json(rank.memory)},
                     {"memory_besides", plan_json(rank.besides)},
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
                       {"besides", plan_json(rank.besides_on_host)},
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

nlohmann::json plan_json(const StartFiles& files) {
  nlohmann::json json = {{"what", files.what},
                         {"ranks", files.readers},
                         {"by_rank", files.rank},
                         {"by_node", files.node},
                         {"by_all", files.job}};
  if (files.bytes >= 0) json["bytes"] = files.bytes;
  return json;
}

nlohmann::json plan_json(const StartPlan& start) {
  nlohmann::json files = nlohmann::json::array();
  for (const StartFiles& one : start.files) files.push_back(plan_json(one));
  return {{"ranks", start.ranks},
          {"nodes", start.nodes},
          {"groups", start.groups},
          {"messages_of_rank", start.rank.messages},
          {"message_bytes_of_rank", start.rank.bytes},
          {"busiest_rank", start.busiest},
          {"messages_of_node", start.node.messages},
          {"message_bytes_of_node", start.node.bytes},
          {"files", files},
          {"files_total", plan_json(start.total)}};
}

// Host of a machine's nodes; a job smaller than a node has the host to itself.
NodeHost host_of(const Machine& machine, int ranks) {
  if (!machine.speed) return {};
  return {static_cast<std::int64_t>(machine.speed->host_bytes),
          std::min(ranks, machine.speed->devices)};
}

// Assumes eight devices per node if the machine does not specify the number.
StartPlan start_of(const PlanRequest& request, const Config& config, int ranks,
                   const Machine& machine) {
  constexpr int usual = 8;
  StartOptions options;
  options.ranks_on_node = request.ranks_on_node;
  if (options.ranks_on_node == 0)
    options.ranks_on_node = std::min(ranks, machine.speed ? machine.speed->devices : usual);
  options.resumes = request.resumes;
  options.config_file = request.config_file;
  return plan_start(config, ranks, machine.target, options);
}

}  // namespace

PlanAnswer answer_plan(Config& config, const PlanRequest& request) {
  const ParallelConfig& p = config.parallel;
  const std::int64_t fewest = std::lcm(p.tp * p.cp, p.ep * p.expert_tp) * p.pp * p.dp_replicate;
  const std::int64_t ranks = request.ranks > 0 ? request.ranks : fewest;
  const std::string& memory = request.memory.empty() ? config.run.memory : request.memory;
  std::int64_t limit = memory.empty() ? 0 : parse_byte_size(memory, "--memory");
  check_run(config, ranks);
  std::vector<std::string> notes = layout_notes(config, ranks);
  if (std::string note = assume_vocabulary(config); !note.empty()) notes.push_back(note);
  const Machine machine = machine_for(config, request.machine);
  const Stack& stack = find_stack(request.stack);
  if (limit == 0 && machine.speed && stack.is_own())
    limit = static_cast<std::int64_t>(machine.speed->memory_bytes);
  const int count = static_cast<int>(ranks);
  PlanAnswer answer{
      count, limit, machine, &stack,          plan_layout(config, count, machine.target),
      {},    {},    {},      std::move(notes)};
  if (answer.machine.speed) answer.time = plan_time(answer.plan, config, answer.machine, stack);
  if (request.startup) answer.start = start_of(request, config, count, answer.machine);
  if (limit > 0)
    answer.verdict = judge(answer.plan, config, count, limit, host_of(answer.machine, count));
  return answer;
}

std::string to_json_text(const PlanAnswer& answer) {
  nlohmann::json json = plan_json(answer.plan);
  json["notes"] = answer.notes;
  if (answer.verdict) json["verdict"] = plan_json(*answer.verdict);
  if (answer.time) json["time"] = plan_json(*answer.time);
  if (answer.start) json["startup"] = plan_json(*answer.start);
  return json.dump();
}

}  // namespace trireme
