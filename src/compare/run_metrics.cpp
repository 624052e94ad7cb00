// Parses metrics.jsonl, which has one JSON object per line.
#include "compare/run_metrics.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace trireme {

std::map<std::int64_t, StepMetrics> read_step_metrics(const fs::path& file) {
  std::map<std::int64_t, StepMetrics> steps;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("loss") || !json.contains("grad_norm")) continue;
    const auto step = json.find("step");
    if (step == json.end() || !step->is_number_integer()) continue;
    StepMetrics& values = steps[step->get<std::int64_t>()];
    // Numbers are written with enough digits to parse back to the same bits.
    for (const auto& [name, value] : json.items()) values[name] = value.dump();
  }
  return steps;
}

}  // namespace trireme
