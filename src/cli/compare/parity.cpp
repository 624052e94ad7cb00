// `trireme parity`: whether layouts compute the same training steps, and where they first differ.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/inspect/report.h"
#include "compare/parity.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;
using Result = ParityVerdict::Result;

struct ParityArguments {
  ParityRequest request;
  int steps = 2;
  bool as_json = false;
};

struct Judged {
  const ParityLayout& layout;
  ParityVerdict verdict;
};

const char* name_of(Result result) {
  switch (result) {
    case Result::equal:
      return "equal";
    case Result::rounding:
      return "rounding";
    case Result::differs:
      break;
  }
  return "differs";
}

std::string verdict_text(const ParityVerdict& verdict) {
  if (verdict.result == Result::differs) return "differs";
  const std::string compared =
      fmt::format("{} of {} values were compared", verdict.compared, verdict.values);
  if (verdict.result == Result::equal) return "the same bits; " + compared;
  return fmt::format("rounding: gradient error relative to fp64 {:.2g}, on one rank {:.2g}; {}",
                     verdict.distance, verdict.distance_of_one_rank, compared);
}

std::string table_text(const ParityLayout& one_rank, const LayoutRun& run,
                       const std::vector<Judged>& all) {
  std::size_t width = one_rank.text.size();
  for (const Judged& each : all) width = std::max(width, each.layout.text.size());
  std::string text = fmt::format("{:{}}  ranks  last loss  gradient norm\n", "layout", width);
  const auto add = [&](const ParityLayout& layout, double loss, double norm,
                       const std::string& verdict) {
    text += fmt::format("{:{}}  {:5}  {:>9.6f}  {:>13.6g}{}\n", layout.text, width, layout.ranks,
                        loss, norm, verdict);
  };
  add(one_rank, run.losses.back(), run.norms.back(), "");
  for (const auto& [layout, verdict] : all)
    add(layout, verdict.losses.back(), verdict.norms.back(), "  " + verdict_text(verdict));
  return text;
}

std::string difference_text(const ParityVerdict& verdict) {
  return verdict.first ? verdict.first->text() : verdict.problem;
}

// Null for what there is none of.
Json given(bool is_given, const Json& value) {
  return is_given ? value : Json(nullptr);
}

Json to_json(const FirstDifference& first) {
  return {{"step", first.step + 1},
          {"what", first.place.text()},
          {"op", given(!first.place.op.empty(), first.place.op)},
          {"layer", given(first.place.layer >= 0, first.place.layer)},
          {"forward", first.place.is_forward},
          {"parameter", first.place.parameter},
          {"ranks", first.ranks},
          {"group", first.group},
          {"summed_over", first.place.summed},
          {"norm", given(first.is_whole, first.found)},
          {"norm_on_one_rank", given(first.is_whole, first.expected)},
          {"factor", given(first.factor > 0, first.factor)}};
}

Json to_json(const Judged& judged) {
  const ParityVerdict& v = judged.verdict;
  Json json{{"layout", judged.layout.text},
            {"ranks", judged.layout.ranks},
            {"result", name_of(v.result)},
            {"bits_promised", v.bits_promised},
            {"losses", v.losses},
            {"gradient_norms", v.norms},
            {"values_of_one_rank", v.values},
            {"values_compared", v.compared},
            {"notes", judged.layout.notes}};
  if (!v.bits_promised) {
    json["distance_from_fp64"] = v.distance;
    json["distance_of_one_rank"] = v.distance_of_one_rank;
  }
  json["first_difference"] = v.first ? to_json(*v.first) : Json(nullptr);
  json["problem"] = difference_text(v);
  return json;
}

void print(const ParityPlan& plan, const LayoutRun& run, const std::vector<Judged>& all,
           bool as_json) {
  if (!as_json) {
    print_out(table_text(plan.one_rank, run, all));
    return;
  }
  Json json{{"losses", run.losses}, {"gradient_norms", run.norms}, {"layouts", Json::array()}};
  for (const Judged& each : all) json["layouts"].push_back(to_json(each));
  print_out(json.dump() + "\n");
}

void run_parity(const ParityArguments& arguments) {
  const ParityPlan plan = plan_parity(arguments.request);
  ParityJudge judge(plan.one_rank, [&](const Config& config, int ranks) {
    fmt::print(stderr, "{} on {}, {}\n", counted(arguments.steps, "step"), counted(ranks, "rank"),
               config.run.precision);
    return run_layout(config, ranks, arguments.steps);
  });
  for (const ParityLayout& layout : plan.layouts)
    for (const std::string& note : layout.notes)
      fmt::print(stderr, "note: layout '{}': {}\n", layout.text, note);
  std::vector<Judged> all;
  for (const ParityLayout& layout : plan.layouts) all.push_back({layout, judge.judge(layout)});
  print(plan, judge.one_rank(), all, arguments.as_json);
  std::fflush(stdout);
  std::string differences;
  for (const auto& [layout, verdict] : all) {
    if (verdict.result == Result::differs)
      differences += fmt::format("{}layout '{}': {}", differences.empty() ? "" : "\n", layout.text,
                                 difference_text(verdict));
  }
  if (!differences.empty()) fail("{}", differences);
}

}  // namespace

void add_parity(CLI::App& app) {
  const auto arguments = std::make_shared<ParityArguments>();
  CLI::App* command = app.add_subcommand(
      "parity", "Compare training steps on several layouts and name the first difference");
  command->footer(
      "Each layout runs a few steps on random tokens with the constant learning rate optimizer.lr. "
      "Its ranks are threads of this process, and its values are compared with those on one rank: "
      "bit by bit if exact numerics guarantee equal bits, otherwise in fp64, where rounding does "
      "not hide errors.\n"
      "A layout is a list of settings of [parallel], [offload] and train.micro_batch_size that "
      "override those of the file: tp=2,sp,pp=2 or \"parallel.tp=2 parallel.pp=2\"; dp=N is the "
      "data-parallel degree (default: the smallest that the layout allows; 2 with zero).\n"
      "Exit code: 0 no layout differs by more than rounding, 1 a layout differs, 2 wrong "
      "input.\n");
  command->add_option("config", arguments->request.file, "Configuration file (TOML)")->required();
  command
      ->add_option("layouts", arguments->request.layouts, "Layouts, such as tp=2,pp=2 dp=2,zero=2")
      ->required();
  command
      ->add_option("--set", arguments->request.settings,
                   "section.key=value, for all layouts, such as model.num_layers=2")
      ->allow_extra_args(false);
  command->add_option("--steps", arguments->steps, "Number of steps")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "Print one JSON object");
  command->callback([arguments] { run_parity(*arguments); });
}

}  // namespace trireme::cli
