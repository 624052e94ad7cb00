// Compares the time model with published results: fits the model to each row of a machine and stack
// in turn, and prints the errors of all rows. `plan` itself reports which rows have
// no time.
#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "plan/layout_plan.h"
#include "plan/time_plan.h"

namespace trireme {
namespace {

// The band of a fit is twice the RMS error within its group, which 95% of normally distributed
// errors do not exceed; at least this, the difference between layouts of one stack.
constexpr double least_band = 0.05;

struct Row {
  std::string name;
  Machine machine;
  const Stack* stack;
  Config config;
  LayoutPlan plan;
  double published = 0;  // seconds of a step; 0: no published value
  bool beyond = false;   // far more devices than others: predicted, excluded from bands
};

Row read_row(const toml::table& table) {
  const std::string name = table["name"].value<std::string>().value();
  const Machine machine = find_machine(table["machine"].value<std::string>().value());
  std::vector<std::string> settings = {
      "train.iters=1", "optimizer.lr=1e-4", "optimizer.clip_grad=1.0",
      fmt::format("run.device={}", name_of(machine.target.device))};
  for (const toml::node& one : *table["settings"].as_array())
    settings.push_back(one.value<std::string>().value());
  const int ranks = table["ranks"].value<int>().value();
  Config config = parse_config("", name, settings);
  assume_vocabulary(config);
  validate(config);
  validate_layout(config, ranks);
  Row row{name, machine, &find_stack(table["stack"].value<std::string>().value()), config,
          plan_layout(config, ranks, machine.target)};
  row.beyond = table["beyond"].value_or(false);
  // Converts the published value to seconds per step.
  const TimePlan time = plan_time(row.plan, config, machine, *row.stack, 1);
  if (const auto samples = table["samples"].value<double>())
    row.published = row.plan.tokens / static_cast<double>(config.model.seq_length) / *samples;
  if (const auto tokens = table["tokens"].value<double>())
    row.published = row.plan.tokens / ranks / *tokens;
  if (const auto tflops = table["tflops"].value<double>())
    row.published = row.plan.flops / ranks / (*tflops * 1e12);
  if (const auto counted = table["recomputed"].value<double>())
    row.published = row.plan.flops * 4 / 3 / ranks / (*counted * 1e12);
  return row;
}

double predicted(const Row& row, double efficiency) {
  return plan_time(row.plan, row.config, row.machine, *row.stack, efficiency).seconds;
}

// The efficiency with which the model predicts the published time; 0: none does.
double fit(const Row& row) {
  double low = 0.05, high = 2;
  if (predicted(row, low) < row.published || predicted(row, high) > row.published) return 0;
  for (int i = 0; i < 40; ++i) {
    const double middle = std::sqrt(low * high);
    (predicted(row, middle) > row.published ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

int run(const std::string& path) {
  const toml::table file = toml::parse(read_file(path));
  std::map<std::string, std::vector<Row>> groups;
  for (const toml::node& table : *file["row"].as_array()) {
    Row row = read_row(*table.as_table());
    const std::string group = row.machine.name + ", " + row.stack->fit;
    groups[group].push_back(std::move(row));
  }
  double sum = 0;
  int errors = 0, within = 0;
  for (const auto& [group, rows] : groups) {
    fmt::print("{}\n", group);
    std::vector<const Row*> timed, wanted, beyond;
    for (const Row& row : rows) {
      const TimePlan time = plan_time(row.plan, row.config, row.machine, *row.stack, 1);
      if (!time.refused.empty()) {
        fmt::print("  {}: no time: {}\n", row.name, time.refused);
      } else {
        (row.beyond ? beyond : row.published > 0 ? timed : wanted).push_back(&row);
      }
    }
    double squares = 0;
    int of_group = 0;
    for (const Row* by : timed) {
      const double efficiency = fit(*by);
      if (efficiency == 0) {
        fmt::print("  fitted to {}: no efficiency of kernels gives it, messages decide\n",
                   by->name);
        continue;
      }
      fmt::print("  fitted to {}: efficiency {:.3f}\n", by->name, efficiency);
      for (const Row* row : timed) {
        if (row == by) continue;
        const double error = predicted(*row, efficiency) / row->published - 1;
        fmt::print("    {:<56} {:>9.3f} s, published {:>9.3f} s: {:+.1f}%\n", row->name,
                   predicted(*row, efficiency), row->published, 100 * error);
        sum += std::abs(error);
        squares += error * error;
        ++of_group;
        ++errors;
        within += std::abs(error) <= 0.08;
      }
      for (const Row* row : beyond) {
        const double seconds = predicted(*row, efficiency);
        fmt::print("    {:<56} {:>9.3f} s, published {:>9.3f} s: beyond the band, {:.0f}% longer\n",
                   row->name, seconds, row->published, 100 * (row->published / seconds - 1));
      }
      for (const Row* row : wanted) {
        const TimePlan time =
            plan_time(row->plan, row->config, row->machine, *row->stack, efficiency);
        fmt::print("    {:<56} {:>9.3f} s, {:.3f} samples/s, {:.1f} TFLOP/s, no published value\n",
                   row->name, time.seconds, time.samples_per_second(), time.flops_rate() / 1e12);
      }
    }
    if (of_group > 0)
      fmt::print("  band: {:.2f}\n", std::max(least_band, 2 * std::sqrt(squares / of_group)));
  }
  fmt::print("{} predictions: mean error {:.1f}%, {} within 8%\n", errors, 100 * sum / errors,
             within);
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::run(argc > 1 ? argv[1] : TRIREME_PUBLISHED_ROWS);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_published: {}\n", error.what());
    return 1;
  }
}
