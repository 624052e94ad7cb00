// `trireme profile`: trains a few steps, and reports where time and memory go.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/launch/job.h"
#include "cli/launch/launch.h"
#include "cli/new_file.h"
#include "config/run_rules.h"
#include "plan/machine.h"
#include "runtime/join.h"
#include "train/run/ranks.h"
#include "train/run/setup.h"
#include "train/step_profile.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ProfileArguments {
  std::string file, machine, trace;
  std::vector<std::string> overrides;
  int steps = 5, nproc = 0;
  bool json = false;
};

// The limits of a device; 0: not known.
struct Limits {
  double peak = 0, ceiling = 0, memory_rate = 0;

  // Lower bound on the time of this work, relative to its actual time.
  double share(double flops, double bytes, double seconds) const {
    const double products = ceiling > 0 ? flops / ceiling : 0;
    const double memory = memory_rate > 0 ? bytes / memory_rate : 0;
    return seconds > 0 ? std::max(products, memory) / seconds : 0;
  }
};

Limits limits_of(const Config& config, const std::string& name) {
  if (name.empty()) return {};
  const Machine machine = find_machine(name);
  if (!machine.speed)
    fail_input(
        "--machine {}: the file has no speed figures; `trireme bench machine -o FILE` measures "
        "them",
        name);
  const bool wide =
      config.run.precision == Precision::fp32 || config.run.precision == Precision::fp64;
  const ProductRate& rate = wide ? machine.speed->fp32 : machine.speed->bf16;
  const double ceiling = rate.ceiling > 0 ? rate.ceiling : rate.peak;
  return {rate.peak > 0 ? rate.peak : ceiling, ceiling, machine.speed->memory_rate};
}

Json to_json(const StepProfile& p, int rank, const Limits& limits) {
  Json ops = Json::array(), messages = Json::array(), memory = Json::object();
  for (const OpTime& op : p.ops) {
    ops.push_back({{"op", op.op},
                   {"calls", op.calls},
                   {"seconds", op.seconds},
                   {"flops", op.flops},
                   {"bytes", op.bytes}});
    if (limits.memory_rate > 0)
      ops.back()["share_of_limit"] = limits.share(op.flops, op.bytes, op.seconds);
  }
  for (const MessageTime& one : p.messages)
    messages.push_back({{"group", one.group},
                        {"calls", one.calls},
                        {"sent_bytes", one.sent_bytes},
                        {"seconds", one.seconds}});
  for (const MemoryRegion& region : p.memory.regions) memory[region.name] = region.bytes;
  Json in_flight = Json::array();
  for (const StepProfile::Held& held : p.in_flight) in_flight.push_back({held.seconds, held.bytes});
  return {{"rank", rank},
          {"pipeline_rank", p.pipeline_rank},
          {"seconds", p.seconds},
          {"waited_seconds", p.waited},
          {"rest_seconds", p.rest},
          {"ops", ops},
          {"messages", messages},
          {"memory", memory},
          {"in_flight", in_flight},
          {"in_flight_seconds", p.in_flight_seconds},
          {"planned_bytes", p.memory.total()},
          {"peak_resident_bytes", p.peak_resident_bytes}};
}

// Totals of the full job, as published in tables of results.
Json totals_of(const StepProfile& p, double seconds, int ranks, const Limits& limits) {
  const double rate = p.flops / seconds / ranks;
  Json json = {{"seconds", seconds},
               {"samples_per_second", p.samples / seconds},
               {"tokens_per_second_per_device", p.tokens / seconds / ranks},
               {"flops_per_second_per_device", rate}};
  if (limits.peak > 0) json["share_of_peak"] = rate / limits.peak;
  return json;
}

// Peak memory of micro-batches in flight in each twentieth of the step, in tenths of the overall
// peak.
std::string timeline(const Json& rank, std::int64_t& most) {
  constexpr int parts = 20;
  std::array<std::int64_t, parts> held{};
  const Json& course = rank["in_flight"];
  const double seconds = rank["in_flight_seconds"];
  std::size_t next = 0;
  std::int64_t now = 0;
  for (int part = 0; part < parts; ++part) {
    held[part] = now;
    for (; next < course.size() && course[next][0].get<double>() < (part + 1) * seconds / parts;
         ++next) {
      now = course[next][1];
      held[part] = std::max(held[part], now);
    }
  }
  most = *std::max_element(held.begin(), held.end());
  std::string text;
  for (const std::int64_t bytes : held)
    text += fmt::format(" {:>2}", most > 0 ? (10 * bytes + most - 1) / most : 0);
  return text;
}

void print_rank(const Json& rank) {
  const double seconds = rank["seconds"];
  const auto row = [&](const std::string& name, double spent, const std::string& more) {
    fmt::print("{:<28} {:>10.2f} {:>6.1f}%{}\n", name, 1e3 * spent, 100 * spent / seconds, more);
  };
  fmt::print("\nrank {}, pipeline stage {}\n", rank["rank"].get<int>(),
             rank["pipeline_rank"].get<int>());
  fmt::print("{:<28} {:>10} {:>7} {:>8} {:>10} {:>9} {:>9}\n", "op", "ms/step", "share", "calls",
             "GFLOP/s", "GB/s", "of limit");
  for (const Json& op : rank["ops"]) {
    const double spent = op["seconds"], flops = op["flops"], bytes = op["bytes"];
    row(op["op"], spent,
        fmt::format(" {:>8.0f} {:>10} {:>9.1f} {:>9}", op["calls"].get<double>(),
                    flops > 0 ? fmt::format("{:.1f}", flops / spent / 1e9) : "",
                    bytes / spent / 1e9,
                    op.contains("share_of_limit")
                        ? fmt::format("{:.1f}%", 100 * op["share_of_limit"].get<double>())
                        : ""));
  }
  row("waiting for messages", rank["waited_seconds"], "");
  row("optimizer, the rest", rank["rest_seconds"], "");
  for (const Json& one : rank["messages"])
    fmt::print("  messages of {:<15} {:>10.2f} ms in flight, {:.0f} with {} sent\n",
               one["group"].get<std::string>(), 1e3 * one["seconds"].get<double>(),
               one["calls"].get<double>(),
               bytes_to_text(static_cast<std::int64_t>(one["sent_bytes"].get<double>())));
  fmt::print("memory, allocated for the whole run\n");
  for (const auto& [name, bytes] : rank["memory"].items())
    if (bytes > 0) fmt::print("  {:<26} {:>12}\n", name, bytes_to_text(bytes.get<std::int64_t>()));
  fmt::print("  {:<26} {:>12}, peak resident {}\n", "planned",
             bytes_to_text(rank["planned_bytes"].get<std::int64_t>()),
             bytes_to_text(rank["peak_resident_bytes"].get<std::int64_t>()));
  std::int64_t most = 0;
  const std::string course = timeline(rank, most);
  if (most > 0)
    fmt::print("memory of micro-batches in flight during the step (0 to 10 = {})\n {}\n",
               bytes_to_text(most), course);
}

void print_all(const Json& all) {
  const Json& totals = all["total"];
  const std::size_t ranks = all["ranks"].size();
  fmt::print("{:>7} {:>10} {:>12} {:>18} {:>16} {:>10}\n", "ranks", "s/step", "samples/s",
             "tokens/s/device", "TFLOP/s/device", "% of peak");
  fmt::print("{:>7} {:>10.4f} {:>12.3f} {:>18.1f} {:>16.4f} {:>10}\n", ranks,
             totals["seconds"].get<double>(), totals["samples_per_second"].get<double>(),
             totals["tokens_per_second_per_device"].get<double>(),
             totals["flops_per_second_per_device"].get<double>() / 1e12,
             totals.contains("share_of_peak")
                 ? fmt::format("{:.1f}", 100 * totals["share_of_peak"].get<double>())
                 : "-");
  for (const Json& rank : all["ranks"]) print_rank(rank);
  if (!totals.contains("share_of_peak"))
    fmt::print(
        "\nnote: shares of limits and of the peak require the limits of the machine: --machine "
        "NAME, or a file written by `trireme bench machine -o FILE`\n");
}

void profile_here(const ProfileArguments& a, const Config& config, Transport& transport) {
  const Place& place = transport.place();
  const Limits limits = limits_of(config, a.machine);
  const StepProfile mine = profile_step(config, a.steps, !a.trace.empty(), transport);
  const std::vector<std::string> ranks =
      reports_of_ranks(&transport, to_json(mine, place.rank, limits).dump());
  const std::vector<std::string> events = reports_of_ranks(&transport, mine.trace);
  if (place.rank != 0) return;
  Json all = {{"total", {}}, {"ranks", Json::array()}};
  double seconds = 0;  // of the slowest rank
  for (const std::string& text : ranks) {
    all["ranks"].push_back(Json::parse(text));
    seconds = std::max(seconds, all["ranks"].back()["seconds"].get<double>());
  }
  all["total"] = totals_of(mine, seconds, place.size, limits);
  if (!a.trace.empty())
    write_file_durably(a.trace, fmt::format("[\n{}\n]\n", fmt::join(events, ",\n")));
  if (a.json) {
    fmt::print("{}\n", all.dump());
    return;
  }
  print_all(all);
  if (!a.trace.empty()) fmt::print("\ntrace of one additional step written to {}\n", a.trace);
}

void run(const ProfileArguments& a) {
  Config config = load_config(a.file, a.overrides);
  resolve_vocabulary(config);
  validate(config);
  limits_of(config, a.machine);  // rejects errors before anything starts
  require_new_file(a.trace);
  if (a.nproc > 0) {
    check_run(config, a.nproc);
    launch_processes(a.nproc, "");
  }
  const JoinedJob job(config.run.device, config.train.timeout_s);
  Transport& transport = job.transport();
  install_signal_handlers();
  run_guarded(transport, [&] {
    job.choose_device();
    check_run(config, transport.place().size);
    profile_here(a, config, transport);
  });
}

}  // namespace

void add_profile(CLI::App& app) {
  auto* command = app.add_subcommand(
      "profile",
      "Train a few steps on random tokens and show, for each rank and kind of op, where time and "
      "memory go; nothing is saved");
  auto a = std::make_shared<ProfileArguments>();
  command->add_option("file", a->file, "TOML file, as for train; only its tokenizer must exist")
      ->required();
  command->add_option("overrides", a->overrides, "section.key=value, applied in order");
  command->add_option("--steps", a->steps, "Number of timed steps, after one for warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--nproc", a->nproc,
                   "Start this number of processes on this machine with mpirun")
      ->check(CLI::Range(1, 1 << 16));
  command->add_option(
      "--machine", a->machine,
      "Compare with the limits of this machine, as for plan: a name, or a file written by bench "
      "machine");
  command->add_option("--trace", a->trace,
                      "Write one additional step to this file, which must not exist, as a Chrome "
                      "trace (Perfetto): passes, ops and messages of all ranks");
  command->add_flag("--json", a->json, "Print the figures as JSON");
  command->callback([a] { run(*a); });
}

}  // namespace trireme::cli
