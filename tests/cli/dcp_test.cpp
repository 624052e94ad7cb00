// Tests that torch.distributed.checkpoint folders written by `convert` are read back unchanged.
#include <gmock/gmock.h>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Dcp : public Workspace {
 protected:
  std::string weights_of(const std::string& run_folder, const std::string& name) {
    const Outcome exported = run({"convert", "--to", "hf", path(run_folder), path(name)});
    EXPECT_EQ(exported.code, 0) << exported.out;
    return contents(path(name + "/model.safetensors"));
  }
};

TEST_F(Dcp, IsReadBackWithoutAConfiguration) {
  prepare_data();
  const Outcome trained = train("run", {"train.iters=2", "model.family=llama",
                                        "model.hidden_dropout=0", "optimizer.warmup_iters=1"});
  ASSERT_EQ(trained.code, 0) << trained.out;
  const std::string before = weights_of("run", "hf");
  ASSERT_FALSE(before.empty());
  int number = 0;
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--to", "dcp"},
        {"--to", "torchtitan"},
        {"--to", "torchtitan", "--torchtitan-names", "0.2"},
        {"--to", "torchtitan", "--torchtitan-names", "0.1"}}) {
    const std::string folder = "dcp" + std::to_string(++number),
                      back = "back" + std::to_string(number);
    std::vector<std::string> command = {"convert"};
    command.insert(command.end(), how.begin(), how.end());
    command.insert(command.end(), {path("run"), path(folder)});
    const Outcome written = run(command);
    ASSERT_EQ(written.code, 0) << written.out;
    const Outcome read = run({"convert", path(folder), path(back)});
    ASSERT_EQ(read.code, 0) << read.out;
    EXPECT_EQ(weights_of(back, "hf" + std::to_string(number)), before) << folder;
  }
  // The tensor names are those of the release.
  const auto names = [&](int which) {
    return run({"inspect", "--tensors", path("dcp" + std::to_string(which))}).out;
  };
  EXPECT_THAT(names(2), HasSubstr("layers.0.attention.qkv_linear.wq.weight"));
  EXPECT_THAT(names(3), HasSubstr("layers.0.attention.wq.weight"));
  EXPECT_THAT(names(3), Not(HasSubstr("model.layers.0")));
  EXPECT_THAT(names(4), HasSubstr("model.layers.0.attention.wq.weight"));
  EXPECT_THAT(names(4), HasSubstr("model.output.weight"));
  // The option does not apply to another format.
  const Outcome other =
      run({"convert", "--to", "dcp", "--torchtitan-names", "0.2", path("run"), path("no")});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.out, HasSubstr("--torchtitan-names requires --to torchtitan"));
}

}  // namespace
}  // namespace trireme::testing_cli
