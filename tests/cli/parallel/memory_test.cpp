// Tests of the memory that layouts save, according to the printed plan; each run checks that it
// allocated exactly that.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

class Memory : public Jobs {
 protected:
  // Returns the memory regions that a run of one step prints: bytes by name.
  std::map<std::string, double> regions_of(const Layout& layout, const std::string& more) {
    const Outcome outcome = train_on("job" + std::to_string(jobs_++), layout,
                                     "train.iters=1 optimizer.warmup_iters=0 " + more);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    std::map<std::string, double> regions;
    std::istringstream lines(outcome.out.substr(outcome.out.find("memory, planned")));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && line.starts_with("  ")) {
      const std::size_t name_end = line.find("  ", 2);
      const std::size_t number = line.rfind(' ', line.rfind(" bytes") - 1);
      regions[line.substr(2, name_end - 2)] = std::strtod(line.c_str() + number, nullptr);
    }
    EXPECT_GT(regions["total"], 0) << outcome.out;
    return regions;
  }
};
class SlowMemory : public Memory {};

TEST_F(SlowMemory, ZeroSharesOutStatesGradientsAndParameters) {
  const std::string bf16 = "run.precision=bf16";
  const auto none = regions_of({4, ""}, bf16);
  // A part may be rounded up to whole rows of a bucket.
  const auto expect_quarter = [](double part, double whole) {
    EXPECT_LE(part, 1.03 * whole / 4);
    EXPECT_GE(part, whole / 4);
  };
  for (int zero = 1; zero <= 3; ++zero) {
    SCOPED_TRACE(zero);
    auto own = regions_of({4, "parallel.zero=" + std::to_string(zero)}, bf16);
    for (const char* state : {"master weights", "first moments", "second moments"})
      expect_quarter(own[state], none.at(state));
    if (zero >= 2) {
      expect_quarter(own["gradient sums"], none.at("gradients"));
      EXPECT_EQ(own.count("gradients"), 0u);
    }
    if (zero == 3) {
      expect_quarter(own["sharded parameters"], none.at("parameters"));
      EXPECT_EQ(own.count("parameters"), 0u);
    }
  }
  // Hybrid: sharded over two ranks, replicated twice.
  auto hybrid = regions_of({4, "parallel.zero=1 parallel.dp_replicate=2"}, bf16);
  EXPECT_NEAR(hybrid["first moments"], none.at("first moments") / 2,
              0.03 * none.at("first moments"));
}

// 1F1B keeps activations of pp micro-batches on its first rank, V-Half of pp / 2 + 1 on every rank:
// the longer the pipeline, the closer to half.
TEST_F(SlowMemory, VHalfHoldsHalfOfTheActivations) {
  const std::string model = "model.num_layers=16 train.global_batch_size=16";
  auto usual = regions_of({8, "parallel.pp=8"}, model);
  auto half = regions_of({8, "parallel.pp=8 parallel.schedule=vhalf"}, model);
  EXPECT_NEAR(half["saved activations"] / usual["saved activations"], 5.0 / 8, 1e-3);
}

TEST_F(Memory, VHalfHoldsHalfOfTheActivationsOfALongPipeline) {
  const auto saved = [&](const std::string& schedule) {
    const Outcome outcome =
        run({"plan", path("run.toml"), "--ranks", "32", "model.num_layers=64",
             "train.global_batch_size=64", "parallel.pp=32", "parallel.schedule=" + schedule});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    const std::string name = "saved activations";
    const std::size_t line = outcome.out.find(name);
    if (line == std::string::npos) return 0.0;
    char* unit = nullptr;
    const double number = std::strtod(outcome.out.c_str() + line + name.size(), &unit);
    return number * (std::string(unit, 4) == " MiB" ? 1024 : 1);
  };
  EXPECT_NEAR(saved("vhalf") / saved("1f1b"), 17.0 / 32, 0.01);
}

}  // namespace
}  // namespace trireme::testing_cli
