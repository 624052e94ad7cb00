// What a layout's text means, and which are refused.
#include "compare/parity_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "data/temp_folder.h"

namespace trireme::testing_parity {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ParityPlans : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(file_) << R"(
run = {dir = "unused", precision = "bf16"}
model = {family = "gpt", num_layers = 2, hidden_size = 16, num_heads = 4, seq_length = 8, vocab_size = 40}
data = {path = ["unused"], tokenizer = "hf", tokenizer_model = "missing.json"}
train = {micro_batch_size = 2, global_batch_size = 8, iters = 10}
optimizer = {lr = 0.01}
)";
  }
  ParityLayout plan(const std::string& layout) const {
    return plan_parity({file_, {layout}, {}}).layouts.at(0);
  }
  std::string refusal_of(const std::string& layout) const {
    try {
      plan(layout);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      return e.what();
    }
    return "";
  }

 private:
  const testing_data::TempFolder folder_;
  const std::string file_ = folder_ / "tiny.toml";
};

TEST_F(ParityPlans, SettingsOfALayout) {
  const ParityLayout layout = plan("\ttp=2,sp=true\npp=2");
  EXPECT_EQ(layout.ranks, 4);
  EXPECT_TRUE(layout.config.parallel.sequence_parallel);
  EXPECT_EQ(layout.text, " tp=2,sp=true pp=2");
  EXPECT_THAT(layout.notes, testing::IsEmpty());
}

TEST_F(ParityPlans, SettingsWithoutEffectAreNamed) {
  EXPECT_THAT(plan("sp").notes, ElementsAre(HasSubstr("sequence_parallel has no effect")));
  EXPECT_THAT(plan("zero=3,dp=1").notes, ElementsAre(HasSubstr("zero = 3 has no effect")));
}

TEST_F(ParityPlans, SettingsGivenTwiceAreRefused) {
  EXPECT_EQ(refusal_of("tp=2,tp=1"), "layout 'tp=2,tp=1' sets parallel.tp twice");
  EXPECT_THAT(refusal_of("tp=2,parallel.tp=2"), HasSubstr("sets parallel.tp twice"));
  EXPECT_THAT(refusal_of("dp=2,dp=4"), HasSubstr("sets parallel.dp twice"));
  EXPECT_THAT(refusal_of("tp=2,sp,sp=false"), HasSubstr("sets parallel.sequence_parallel twice"));
  EXPECT_THAT(refusal_of(" "), HasSubstr("is empty"));
}

}  // namespace
}  // namespace trireme::testing_parity
