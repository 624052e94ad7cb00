// A user-defined learning-rate schedule: the rate of [optimizer], in cycles that each begin with a
// warm-up ("warm restarts").
//
//   own_schedule FILE.toml [section.key=value ...]
#include <trireme/trireme.hpp>

#include <algorithm>

namespace {

constexpr std::int64_t cycle = 10, warmup = 3;  // steps

// A pure function of the run's position, so a resumed run continues the same schedule.
double learning_rate(const trireme::ScheduleInput& at) {
  const auto in_cycle = static_cast<double>(at.step % cycle);
  return at.configured * std::min(1.0, (in_cycle + 1) / warmup);
}

}  // namespace

int main(int argc, char** argv) {
  return trireme::run_program([&] {
    if (argc < 2) throw trireme::Error(trireme::ExitCode::bad_input, "expected a TOML file");
    const auto config = trireme::Config::load(argv[1], {argv + 2, argv + argc});
    trireme::Job job(config);
    job.run([&] { trireme::Trainer(job, config, {.learning_rate = learning_rate}).run(); });
  });
}
