// A user-defined training loop: prepare, step, reduce metrics over all processes, save.
//
//   own_loop FILE.toml [section.key=value ...]       on several processes: mpirun -n 4 own_loop ...
#include <trireme/trireme.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>

namespace {

void train(trireme::Job& job, const trireme::Config& config) {
  using Clock = std::chrono::steady_clock;
  trireme::Trainer trainer(job, config, {.note_signals = true});
  const std::int64_t often = config.integer("train.eval_interval");
  double best = HUGE_VAL;
  while (!trainer.done()) {
    const Clock::time_point begin = Clock::now();
    const trireme::StepResult result = trainer.train_step();
    const std::chrono::duration<double> own = Clock::now() - begin;
    if (trainer.done() || (often > 0 && result.step % often == 0)) {
      const double slowest = job.max(own.count());  // over all processes
      const double loss = trainer.evaluate();
      trainer.log({{"perplexity", std::exp(loss)}, {"slowest_process_s", slowest}});
      if (loss < best) trainer.save();  // only if it is the best so far
      best = std::fmin(best, loss);
    }
    if (trainer.should_stop()) {  // a signal, or train.exit_interval
      trainer.save();
      break;
    }
  }
  const trireme::Summary summary = trainer.finish();
  if (job.leads())
    std::printf("%lld steps, best loss %.4f\n", static_cast<long long>(summary.steps), best);
}

}  // namespace

int main(int argc, char** argv) {
  return trireme::run_program([&] {
    if (argc < 2) throw trireme::Error(trireme::ExitCode::bad_input, "expected a TOML file");
    const auto config = trireme::Config::load(argv[1], {argv + 2, argv + argc});
    trireme::Job job(config);
    job.run([&] { train(job, config); });
  });
}
