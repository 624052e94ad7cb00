// Tests of generated text against the reference implementation
// (tests/formats/data/make_hf_models.py).
#include "generate/generator.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/export.h"
#include "refusal.h"

namespace trireme {
namespace {

using Ids = std::vector<std::int32_t>;

class GeneratedText : public testing::TestWithParam<std::string> {
 protected:
  explicit GeneratedText(const std::string& name = GetParam())
      : folder_(fs::path(testing::TempDir()) / ("trireme_generated_" + name)) {
    const fs::path source = fs::path(TRIREME_TESTS) / "formats/data/hf" / name;
    fs::remove_all(folder_);
    golden_ = nlohmann::json::parse(read_file(source / "golden.json"));
    import_huggingface(source, folder_, "test", nullptr);
  }
  ~GeneratedText() override { fs::remove_all(folder_); }

  const fs::path folder_;
  nlohmann::json golden_;
};

// From its 25th token on, a text of phi3_longrope has other frequencies, also for the keys before;
// the texts of llama4 begin new chunks. Another text beside it has none of that.
TEST_P(GeneratedText, IsThatOfTheReference) {
  TrainedModel model(folder_, {"run.precision=fp32"});
  const auto want = golden_["generated"].get<Ids>();
  GenerateOptions options;
  options.sampling.sample = false;
  options.max_new_tokens = 12;
  const Ids prompt(want.begin(), want.begin() + 20), other = {5, 6, 7};
  const auto alone = Generator(model, 1, 32).generate({other}, options);
  const auto both = Generator(model, 2, 32).generate({prompt, other}, options);
  EXPECT_EQ(both[0], want);
  EXPECT_EQ(both[1], alone[0]);
}

INSTANTIATE_TEST_SUITE_P(Models, GeneratedText,
                         testing::Values("phi3_longrope", "qwen3_5", "llama4", "granite_hybrid",
                                         "nemotron_h"),
                         [](const auto& info) { return info.param; });

struct LongText : GeneratedText {
  LongText() : GeneratedText("phi3_longrope") {}
};

TEST_F(LongText, IsNotLongerThanDynamicScalingDefines) {
  TrainedModel model(folder_, {"run.precision=fp32", "model.rope_scaling=dynamic",
                               "model.rope_short_factors=[]", "model.rope_long_factors=[]"});
  EXPECT_NO_THROW(Generator(model, 1, 96));
  EXPECT_THAT(refusal_of([&] { Generator(model, 1, 97); }),
              testing::HasSubstr("96 tokens (model.max_positions) by themselves, but found 97"));
}

}  // namespace
}  // namespace trireme
