// Tests of the settings that training directly on text can be combined with.
#include <gmock/gmock.h>

#include "config/config.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(SourcesOfText, AreRefusedWithWhatContradictsThem) {
  const auto refusal = [](const std::vector<std::string>& overrides) {
    return refusal_of([&] {
      validate(
          parse_config("[model]\nnum_layers = 1\nhidden_size = 8\nnum_heads = 1\nseq_length = 8\n"
                       "[data]\nsources = [\"a\"]\ntokenizer = \"null\"\n"
                       "[train]\niters = 1\n[optimizer]\nlr = 1e-3\n",
                       "t", overrides));
    });
  };
  EXPECT_EQ(refusal({}), "accepted");
  EXPECT_THAT(refusal({"data.path=b"}),
              HasSubstr("data.sources and data.path are mutually exclusive"));
  EXPECT_THAT(refusal({"data.train_path=b"}), HasSubstr("data.train_path are mutually exclusive"));
  EXPECT_THAT(refusal({"data.valid_path=b", "data.valid_sources=c"}),
              HasSubstr("data.valid_sources and data.valid_path are mutually exclusive"));
  EXPECT_THAT(refusal({"data.tokenizer="}), HasSubstr("data.sources requires data.tokenizer"));
  EXPECT_THAT(refusal({"data.fim_rate=0.5"}),
              HasSubstr("data.fim_rate = 0.5 is supported with data.path only"));
  EXPECT_THAT(refusal({"data.source_keys=[]"}), HasSubstr("data.source_keys = [] is empty"));
  EXPECT_THAT(refusal({"model.family=bert"}),
              HasSubstr("model.family = \"bert\" trains on sentences"));
}

}  // namespace
}  // namespace trireme
