// Parses JSON lines, each an object of numbers with a step; other lines are counted and skipped.
#include "view/metric_lines.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>

#include "base/counted.h"

namespace trireme {
namespace {

constexpr std::size_t most_series = 48, longest_name = 64, most_incidents = 100;
// A larger jump means that the line is damaged: otherwise all later lines would appear to be late.
constexpr std::int64_t longest_jump = 1'000'000, last_step = std::int64_t{1} << 48;

}  // namespace

struct MetricLines::Parser {
  simdjson::dom::parser parser;
};

MetricLines::MetricLines(const fs::path& path) : file_(path), parser_(std::make_unique<Parser>()) {}
MetricLines::~MetricLines() = default;
MetricLines::MetricLines(MetricLines&&) noexcept = default;

bool MetricLines::refresh(std::uint64_t version, std::size_t budget) {
  const bool restarted = file_.was_replaced();
  if (restarted) {
    series_.clear();
    incidents_.clear();
    step_ = -1;
    elapsed_ = skipped_ = 0;
    damaged_ = out_of_order_ = nameless_ = 0;
  }
  whole_ = file_.read(budget, [&](std::string_view line) { add_line(line, version); });
  return restarted;
}

void MetricLines::add_line(std::string_view line, std::uint64_t version) {
  simdjson::dom::object object;
  std::int64_t step = 0;
  if (parser_->parser.parse(line.data(), line.size()).get(object) != simdjson::SUCCESS ||
      object["step"].get(step) != simdjson::SUCCESS || step < 0 || step > last_step ||
      (step_ >= 0 && step > step_ + longest_jump)) {
    ++damaged_;
    return;
  }
  // Evaluation lines have the step of the previous line.
  if (step < step_) {
    ++out_of_order_;
    return;
  }
  step_ = step;
  for (const auto& [name, value] : object) {
    if (name == "step") continue;
    if (double number = 0; value.get(number) == simdjson::SUCCESS)
      add_value(name, step, number, version);
    else if (value.is_null() && name == "loss")
      note_incident(step, "the loss is not finite", version);
  }
}

void MetricLines::add_value(std::string_view name, std::int64_t step, double value,
                            std::uint64_t version) {
  if (name == "skipped_steps" && value > skipped_) {
    skipped_ = value;
    note_incident(step, "the step was skipped: gradients overflowed", version);
  }
  if (name == "seconds") {
    elapsed_ += value > 0 ? value : 0;
    add_value("elapsed", step, elapsed_, version);
  }
  auto found = series_.find(name);
  if (found == series_.end()) {
    if (series_.size() == most_series || name.size() > longest_name) {
      ++nameless_;
      return;
    }
    found = series_.emplace(name, Series()).first;
  }
  found->second.add(step, value, version);
}

void MetricLines::note_incident(std::int64_t step, const std::string& what, std::uint64_t version) {
  if (incidents_.size() < most_incidents) incidents_.push_back({step, what, version});
}

std::vector<std::string> MetricLines::notes() const {
  const std::string name = file_.path().filename().string();
  std::vector<std::string> notes;
  if (!file_.is_there()) notes.push_back(fmt::format("there is no {} (yet)", name));
  if (const std::string fault = file_.fault(); !fault.empty()) notes.push_back(fault);
  if (damaged_ > 0)
    notes.push_back(fmt::format("{}: skipped {}: not JSON with a step", name,
                                counted(damaged_, "damaged line")));
  if (out_of_order_ > 0)
    notes.push_back(
        fmt::format("{}: skipped {}: repeated steps", name, counted(out_of_order_, "line")));
  if (nameless_ > 0)
    notes.push_back(fmt::format("{}: skipped {}: more than {} names, or names longer than {} bytes",
                                name, counted(nameless_, "value"), most_series, longest_name));
  if (!whole_) notes.push_back(fmt::format("{} is still being read", name));
  return notes;
}

}  // namespace trireme
