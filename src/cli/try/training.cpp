// A run that is too slow stops, saved, and continues with a shorter schedule, as a user could do it
// by hand.
#include "cli/try/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/counted.h"
#include "cli/train.h"
#include "cli/try/pace.h"

namespace trireme::cli {
namespace {

nlohmann::json read_mark(const TryFiles& files) {
  return nlohmann::json::parse(read_file(files.mark()), nullptr, false);
}

// The order of the samples stays that of the planned number.
std::vector<std::string> shortened(std::int64_t steps, const Config& planned) {
  const std::int64_t tokens = planned.train.global_batch_size * planned.model.seq_length;
  return {fmt::format("train.tokens={}", steps * tokens),
          fmt::format("optimizer.decay_iters={}", steps),
          fmt::format("optimizer.warmup_iters={}",
                      std::min(planned.optimizer.warmup_iters, steps / 20))};
}

}  // namespace

void train_try(const TryFiles& files, std::optional<TryClock::time_point> end,
               std::size_t heldout_bytes) {
  const std::string settings = files.settings().string();
  const Config planned = load_config(settings, {});
  TryPace pace(steps_in_the_end(heldout_bytes, planned.model.seq_length));
  for (;;) {
    nlohmann::json mark = read_mark(files);
    std::int64_t steps = mark.value("steps", planned.train.iters);
    const Config config =
        steps < planned.train.iters ? load_config(settings, shortened(steps, planned)) : planned;
    TrainCommand command;
    pace.plan(steps);
    if (end) {
      command.options.reason_to_end = [&](std::int64_t step, double seconds) -> std::string {
        if (seconds > 0) pace.add(seconds);
        const std::chrono::duration<double> left = *end - TryClock::now();
        const std::int64_t fitting = pace.fitting(step, left.count());
        if (fitting >= steps) return "";
        steps = fitting;
        return fmt::format("the machine has become slower, so only {} fit into the time limit",
                           counted(fitting, "step"));
      };
    }
    if (train(config, command).end == TrainSummary::End::done) return;
    mark["steps"] = steps;
    write_file_durably(files.mark(), mark.dump() + "\n");
  }
}

}  // namespace trireme::cli
