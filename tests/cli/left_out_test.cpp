// Tests of weights of a checkpoint that a model would leave out.
#include <gmock/gmock.h>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

TEST_F(Workspace, AResumeLeavesNoLayerOut) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=2", "optimizer.warmup_iters=0"}).code, 0);
  const Outcome shorter =
      train("run", {"train.iters=4", "optimizer.warmup_iters=0", "model.num_layers=1"});
  EXPECT_EQ(shorter.code, 2);
  EXPECT_THAT(shorter.out, HasSubstr("model.num_layers: 1, was 2"));
  EXPECT_THAT(shorter.out, HasSubstr("'layers.1."));
  const Outcome without =
      train("run", {"train.iters=4", "optimizer.warmup_iters=0", "model.bias=false"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.out, HasSubstr("model.bias: false, was true"));
  // Weights to start from may be fewer, with a warning.
  const Outcome begun =
      train("other", {"train.iters=1", "optimizer.warmup_iters=0", "model.num_layers=1",
                      "checkpoint.load=" + path("run"), "checkpoint.finetune=true"});
  EXPECT_EQ(begun.code, 0) << begun.out;
  EXPECT_THAT(begun.out, HasSubstr("holds"));
  EXPECT_THAT(begun.out, HasSubstr("model.num_layers: 1, was 2"));
}

}  // namespace
}  // namespace trireme::testing_cli
