// Several ranks, each with an emulated GPU.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

class EmulatedJobs : public Jobs {
 protected:
  static constexpr const char* small =
      "run.device=emulated model.num_layers=4 train.iters=4 train.eval_interval=4 "
      "train.global_batch_size=4 checkpoint.interval=4 ";

  void expect_same_bits(const std::vector<Layout>& layouts, const std::string& more) {
    const std::string settings = small + more;
    ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.text());
      const std::string dir = "job" + std::to_string(jobs_++);
      const Outcome outcome = train_on(dir, layout, settings);
      ASSERT_EQ(outcome.code, 0) << outcome.out;
      EXPECT_EQ(metrics(dir), metrics("reference"));
      EXPECT_EQ(first_difference(path(dir), path("reference")), "");
    }
  }
};
class SlowEmulatedJobs : public EmulatedJobs {};

TEST_F(EmulatedJobs, ExactLayoutsGiveTheSameBits) {
  expect_same_bits({{2, "parallel.zero=3"}, {2, "parallel.pp=2 parallel.schedule=zbv"}},
                   "parallel.numerics=exact run.precision=bf16");
}

TEST_F(EmulatedJobs, TensorParallelRanksLearnTheSame) {
  const std::string settings = small;
  ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
  EXPECT_LE(
      difference_to("reference", {2, settings + "parallel.tp=2 parallel.sequence_parallel=true"}),
      1e-4);
}

TEST_F(SlowEmulatedJobs, EveryExactLayoutGivesTheSameBits) {
  expect_same_bits({{2, ""},
                    {2, "parallel.zero=1"},
                    {2, "parallel.zero=2"},
                    {4, "parallel.zero=3"},
                    {4, "parallel.zero=3 parallel.dp_replicate=2"},
                    {2, "parallel.pp=2 parallel.schedule=gpipe"},
                    {2, "parallel.pp=2 parallel.schedule=1f1b"},
                    {2, "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2"},
                    {2, "parallel.pp=2 parallel.schedule=zb1p"},
                    {2, "parallel.pp=2 parallel.schedule=vhalf"},
                    {4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=2"}},
                   "parallel.numerics=exact");
}

}  // namespace
}  // namespace trireme::testing_cli
