// Inputs that a search requires, and JSON of its results.
#include "plan/search_answer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

RankSet rank_set(const Config& config, const Machine& machine, const SearchRequest& request) {
  if (!machine.speed)
    fail_input(
        "--search requires a machine with speed figures: choose one with --machine, such as lumi-g "
        "or h100");
  if (request.stack != "trireme")
    fail_input("--search finds layouts for Trireme: remove --stack {}", request.stack);
  if (request.ranks == 0) fail_input("--search requires the number of devices: add --devices N");
  if (!config.train.batch_size_schedule.empty())
    fail_input(
        "--search compares layouts with the same batch size: set train.batch_size_schedule=\"\" "
        "and train.global_batch_size");
  if (config.train.global_batch_size == 0)
    fail_input(
        "--search requires train.global_batch_size, which is the same for all layouts: set it in "
        "the file or on the command line");
  const MachineSpeed& speed = *machine.speed;
  const ProductRate& rate = config.run.precision == Precision::fp32 ? speed.fp32 : speed.bf16;
  if (rate.peak == 0 || config.run.precision == Precision::fp64)
    fail_input("--search: the speed figures of {} do not include GEMMs in {}", machine.name,
               config.run.precision);
  if (request.ranks > speed.devices && speed.nics == 0)
    fail_input(
        "--search: the speed figures of {} do not include a network, but {} devices do not fit on "
        "a node of {}",
        machine.name, request.ranks, speed.devices);
  RankSet set;
  set.ranks = static_cast<int>(request.ranks);
  set.ranks_per_node = speed.devices;
  const auto device = static_cast<std::int64_t>(speed.memory_bytes);
  set.memory = request.memory > 0 ? std::min(request.memory, device) : device;
  set.host = static_cast<std::int64_t>(speed.host_bytes);
  return set;
}

nlohmann::json search_json(const FoundLayout& found, const Config& config, int ranks) {
  const StepParts parts = parts_of(found.time);
  return {{"layout", layout_text(found.layout, ranks)},
          {"overrides", layout_overrides(found.layout, config)},
          {"seconds", found.time.seconds},
          {"tokens_per_second_per_device", found.time.tokens_per_second()},
          {"utilisation", found.time.utilization().uncut},
          {"memory", found.needed},
          {"bubble", parts.bubble() / found.time.seconds},
          {"exposed_messages", parts.exposed() / found.time.seconds},
          {"band", found.time.band}};
}

nlohmann::json search_json(const LayoutSearch& search, const Config& config, const RankSet& set) {
  nlohmann::json best = nlohmann::json::array();
  for (const FoundLayout& found : search.best)
    best.push_back(search_json(found, config, set.ranks));
  const SearchCounts& counts = search.counts;
  nlohmann::json json = {{"best", best},
                         {"limit", search.limit},
                         {"counts",
                          {{"considered", counts.considered},
                           {"too_large_at_least", counts.too_large_at_least},
                           {"too_slow_at_least", counts.too_slow_at_least},
                           {"too_large", counts.too_large},
                           {"too_large_on_host", counts.too_large_on_host},
                           {"refused", counts.refused},
                           {"simulated", counts.simulated}}}};
  const GuidelineChoice& guideline = search.guideline;
  json["guideline"] = {{"size", guideline.row->size},
                       {"ranks", guideline.row->ranks},
                       {"tp", guideline.row->tp},
                       {"pp", guideline.row->pp}};
  if (guideline.found)
    json["guideline"]["found"] = search_json(*guideline.found, config, set.ranks);
  else
    json["guideline"]["why_not"] = guideline.why_not;
  return json;
}

[[noreturn]] void refuse_all(const LayoutSearch& search, const Config& config, const RankSet& set,
                             const Machine& machine) {
  const int fewest = fewest_ranks(config, set, machine);
  const std::string more =
      fewest > 0 ? fmt::format("It fits on {}: --devices {}", counted(fewest, "device"), fewest)
                 : "It does not fit on any number of devices: use a smaller model or shorter "
                   "sequences";
  if (search.counts.too_large_on_host > 0)
    fail(
        "{} of this model fit on {} but need more host memory per node than {} of its {}: the "
        "smallest, {}, needs {}. Offload less, or set checkpoint.async = false. {}",
        counted(search.counts.too_large_on_host, "layout"), counted(set.ranks, "device"),
        bytes_to_text(search.host_limit), bytes_to_text(set.host),
        layout_text(search.closest_layout_on_host, set.ranks),
        bytes_to_text(search.closest_on_host), more);
  fail(
      "no layout of this model fits on {} with {} of {} each: the smallest, {}, needs at least {}. "
      "{}",
      counted(set.ranks, "device"), bytes_to_text(search.limit), bytes_to_text(set.memory),
      layout_text(search.closest_layout, set.ranks), bytes_to_text(search.closest), more);
}

}  // namespace

SearchAnswer answer_search(const Config& config, const Machine& machine,
                           const SearchRequest& request) {
  SearchAnswer answer{rank_set(config, machine, request), {}};
  SearchOptions options;
  options.exhaustive = request.exhaustive;
  answer.search = search_layouts(config, answer.set, machine, options);
  if (answer.search.best.empty()) refuse_all(answer.search, config, answer.set, machine);
  return answer;
}

std::string to_json_text(const SearchAnswer& answer, const Config& config) {
  return search_json(answer.search, config, answer.set).dump();
}

}  // namespace trireme
