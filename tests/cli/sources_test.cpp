// Tests of `trireme train` directly on text.
#include <gmock/gmock.h>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class TrainFromSources : public Workspace {
 protected:
  // The other tests' configuration, with two weighted sources instead of token files.
  Outcome train_from(const std::string& dir, const std::string& sources,
                     std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"data.path=[]", "data.sources=" + sources, "train.iters=8",
                               "data.source_documents=paragraph", "checkpoint.interval=4"});
    return train(dir, more);
  }
};

TEST_F(TrainFromSources, StopsAndGoesOnWithTheSameBits) {
  prepare_data();
  write("more.jsonl", "{\"text\": \"the wind turns.\"}\n{\"text\": \"a rower sees one oar.\"}\n");
  const std::string sources =
      "[\"3\", \"" + path("corpus.txt") + "\", \"1\", \"" + path("more.jsonl") + "\"]";
  const Outcome whole = train_from("whole", sources);
  ASSERT_EQ(whole.code, 0) << whole.out;
  ASSERT_EQ(train_from("parts", sources, {"train.exit_interval=4"}).code, 0);
  const Outcome rest = train_from("parts", sources);
  ASSERT_EQ(rest.code, 0) << rest.out;
  EXPECT_EQ(metrics("parts"), metrics("whole"));
  EXPECT_EQ(values_of(metrics("whole"), "loss").size(), 8u);
}

TEST_F(TrainFromSources, RefusesWhatCannotWork) {
  prepare_data();
  fs::create_directories(path("bare"));
  const auto refused = [&](const std::string& sources, const std::string& why,
                           std::vector<std::string> more = {}) {
    const Outcome outcome = train_from("refused", sources, std::move(more));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(why));
  };
  const std::string corpus = "\"" + path("corpus.txt") + "\"";
  refused("[\"-1\", " + corpus + ", \"2\", " + corpus + "]", "found '-1': weights are positive");
  refused("[\"0\", " + corpus + "]", "data.sources: expected the weight of");
  refused("[\"" + path("bare") + "\"]", "bare' contains no documents");
  refused("[" + corpus + "]", "is supported with data.path only", {"data.fim_rate=0.5"});
  refused("[" + corpus + "]", "requires data.tokenizer", {"data.tokenizer="});
}

}  // namespace
}  // namespace trireme::testing_cli
