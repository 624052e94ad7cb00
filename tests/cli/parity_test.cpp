// Tests of `trireme parity` from a user's view: layouts that agree, and invalid requests.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Parity : public Workspace {
 protected:
  Parity() {
    write("tiny.toml", R"(
run = {dir = "unused", precision = "bf16"}
model = {family = "gpt", num_layers = 2, hidden_size = 16, num_heads = 4, seq_length = 8, vocab_size = 40}
data = {path = ["unused"]}
train = {micro_batch_size = 2, iters = 10}
optimizer = {lr = 0.01}
)");
  }
  Outcome parity(std::vector<std::string> more) const {
    more.insert(more.begin(), {"parity", path("tiny.toml")});
    return run(more);
  }
};

TEST_F(Parity, SaysWhatIsEqualAndWhatIsRounding) {
  const Outcome outcome = parity(
      {"tp=2,sp", "parallel.pp=2 dp=2", "zero=1", "--json", "--set", "parallel.numerics=exact"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out.substr(outcome.out.find('{')));
  const auto& layouts = json.at("layouts");
  ASSERT_EQ(layouts.size(), 3U);
  EXPECT_EQ(layouts[0].at("result"), "rounding");
  EXPECT_EQ(layouts[1].at("result"), "equal");
  EXPECT_EQ(layouts[1].at("ranks"), 4);
  EXPECT_EQ(layouts[1].at("losses"), json.at("losses"));
  EXPECT_GT(layouts[1].at("values_compared"), 100);
  EXPECT_EQ(layouts[1].at("values_compared"), layouts[1].at("values_of_one_rank"));
  EXPECT_EQ(layouts[2].at("ranks"), 2);
  EXPECT_THAT(parity({"tp=2"}).out, AllOf(HasSubstr("one rank"), HasSubstr("rounding: "),
                                          HasSubstr(" values were compared")));
}

TEST_F(Parity, RefusesWhatCannotBeCompared) {
  const auto refused = [](const Outcome& outcome, const char* message) {
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  };
  refused(parity({"tp=2", "tpp=2"}), "layout 'tpp=2': override 'parallel.tpp=2': unknown key");
  refused(parity({"tp=3"}), "layout 'tp=3': model.num_heads = 4 is not divisible");
  refused(parity({"model.num_layers=4"}), "set it for all of them with --set");
  refused(parity({"exact_block=4"}), "set it for all of them with --set");
  refused(parity({"tp=32,dp=4"}), "needs 128 ranks");
  refused(parity({"tp"}), "found 'tp'");
  refused(parity({""}), "layout '' is empty: expected settings");
  refused(parity({"dp=two"}), "dp=two is not a number of ranks");
  refused(parity({"pp=2", "--set", "model.hidden_size=65536", "--set", "model.num_heads=512",
                  "--set", "model.ffn_hidden_size=4000000"}),
          "use a smaller model");
  refused(parity({}), "layouts is required");
}

}  // namespace
}  // namespace trireme::testing_cli
