// Tests of logits of imported Hugging Face models against the reference implementation
// (tests/formats/data/make_hf_models.py).
#include "generate/scoring.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/export.h"
#include "tensors/safetensors.h"

namespace trireme {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<float>>;

class Scoring : public testing::TestWithParam<std::string> {
 protected:
  Scoring() : folder_(fs::path(testing::TempDir()) / ("trireme_scoring_" + GetParam())) {
    fs::remove_all(folder_);
    const fs::path tests = fs::path(TRIREME_TESTS);
    const fs::path source = tests / "formats/data/hf" / GetParam();
    golden_ = json::parse(read_file(source / "golden.json"));
    import_huggingface(source, folder_ / "run", "test", nullptr);
  }
  ~Scoring() override { fs::remove_all(folder_); }

  void expect_tensor(const SafetensorsFile& file, const std::string& name, const Rows& want) const {
    const SafetensorsEntry* entry = file.find(name);
    ASSERT_TRUE(entry) << name;
    const auto bytes = file.bytes(*entry);
    const auto* got = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t r = 0; r < want.size(); ++r) {
      for (std::size_t c = 0; c < want[r].size(); ++c)
        ASSERT_NEAR(got[r * want[r].size() + c], want[r][c], 1e-4) << name << " " << r << " " << c;
    }
  }

  fs::path folder_;
  json golden_;
};

TEST_P(Scoring, GivesTheLogitsOfTheReference) {
  std::vector<ScoredSequence> sequences;
  for (std::size_t s = 0; s < golden_["ids"].size(); ++s) {
    ScoredSequence& sequence = sequences.emplace_back();
    golden_["ids"][s].get_to(sequence.ids);
    if (golden_.contains("token_types")) golden_["token_types"][s].get_to(sequence.token_types);
  }
  TrainedModel model(folder_ / "run", {"run.precision=fp32"});
  write_logits(model, sequences, folder_ / "logits.safetensors");
  const SafetensorsFile file(folder_ / "logits.safetensors");
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    expect_tensor(file, fmt::format("logits.{}", s), golden_["logits"][s].get<Rows>());
    if (golden_.contains("order_logits")) {
      expect_tensor(file, fmt::format("order_logits.{}", s),
                    {golden_["order_logits"][s].get<std::vector<float>>()});
    }
  }
}

// Stages of different lengths share weights and tables, which must not affect the results.
TEST_P(Scoring, EveryLineIsScoredAsIfItWereAlone) {
  const std::vector<ScoredSequence> sequences = {
      {{5, 6}, {}}, {{1, 2, 3, 4, 5, 6, 7}, {}}, {{9}, {}}, {{7, 6, 5, 4}, {}}, {{6, 5}, {}}};
  for (const char* precision : {"fp32", "bf16", "fp64"}) {
    const std::vector<std::string> overrides = {std::string("run.precision=") + precision};
    TrainedModel together(folder_ / "run", overrides);
    write_logits(together, sequences, folder_ / "together.safetensors");
    const SafetensorsFile all(folder_ / "together.safetensors");
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      TrainedModel alone(folder_ / "run", overrides);
      write_logits(alone, {sequences[s]}, folder_ / "alone.safetensors");
      const SafetensorsFile one(folder_ / "alone.safetensors");
      const auto want = one.bytes(one.at("logits.0"));
      const auto got = all.bytes(all.at(fmt::format("logits.{}", s)));
      EXPECT_TRUE(std::ranges::equal(got, want)) << precision << ", line " << s;
    }
  }
}

TEST_P(Scoring, RefusesWrongTokenTypes) {
  TrainedModel model(folder_ / "run");
  const auto score = [&](std::vector<std::int32_t> types) {
    write_logits(model, {{{1, 2, 3}, std::move(types)}}, folder_ / "logits.safetensors");
  };
  if (model.config().model.family == "bert") {
    score({0, 1, 1});
    EXPECT_THROW(score({0, 1}), Error);
    EXPECT_THROW(score({0, 1, 2}), Error);
  } else {
    EXPECT_THROW(score({0, 1, 1}), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Scoring,
                         testing::Values("gpt2", "llama", "llama_tied", "llama3_rope",
                                         "linear_rope", "phi3_longrope", "qwen3_5", "llama4",
                                         "granite_hybrid", "nemotron_h", "bert", "megatron_bert"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme
