// Prints the result of a layout search, and pictures of layouts.
#include "cli/plan_search.h"

#include <fmt/format.h>
#include <malloc.h>

#include <filesystem>

#include "base/file.h"
#include "parallel/draw.h"
#include "plan/pictures.h"

namespace trireme::cli {
namespace {

// Keeps freed memory for reuse: hundreds of equally large plans follow each other, and this saves a
// seventh of the time.
void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
}

}  // namespace

void write_pictures(const Config& config, int ranks, const Machine& machine, std::int64_t limit,
                    const std::string& folder) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& svg) {
    write_file_durably(std::filesystem::path(folder) / name, svg);
  };
  const LayoutPlan plan = plan_layout(config, ranks, machine.target);
  write("memory.svg", draw_memory(plan, limit));
  write("schedule.svg", draw_even_schedule(plan.schedule, plan.even).svg);
  if (!machine.speed) return;
  const TimePlan time = plan_time(plan, config, machine, find_stack("trireme"));
  if (time.refused.empty()) write("time.svg", draw_time(time));
}

void run_search(const Config& config, const Machine& machine, const SearchRequest& request,
                const SearchOutput& output) {
  keep_freed_memory();
  const SearchAnswer answer = answer_search(config, machine, request);
  if (output.json)
    fmt::print("{}\n", to_json_text(answer, config));
  else
    fmt::print("{}", to_text(answer.search, config, answer.set));
  if (output.pictures.empty()) return;
  const Config best = with_layout(config, answer.search.best.front().layout);
  write_pictures(best, answer.set.ranks, machine, answer.set.memory, output.pictures);
  write_file_durably(std::filesystem::path(output.pictures) / "layouts.svg",
                     draw_layouts(answer.search.best, answer.set.ranks));
  if (!output.json) fmt::print("\ndrawings of them in {}\n", output.pictures);
}

}  // namespace trireme::cli
