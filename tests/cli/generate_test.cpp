// Tests that `generate`, `eval` and `score` agree with each other and are reproducible.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Generate : public Workspace {
 protected:
  void trained(const std::vector<std::string>& more) {
    prepare_data();
    std::vector<std::string> all = {"run.precision=fp32"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = train("run", all);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
  }

  // Checks greedy tokens of the KV cache against those from whole-sequence logits, one by one.
  void expect_cache_agrees_with_scores() {
    const json generated =
        json::parse(run({"generate", path("run"), "--prompt", "the ship sees", "--max-new-tokens",
                         "6", "--greedy", "--ignore-eod", "--json"})
                        .out);
    const std::vector<std::int32_t> ids = generated["ids"];
    write("ids.jsonl", json(ids).dump() + "\n");
    ASSERT_EQ(run({"score", path("run"), "--ids", path("ids.jsonl"), "--output",
                   path("logits.safetensors")})
                  .code,
              0);
    const std::string file = contents(folder_ / "logits.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), 8);
    const json tensor = json::parse(file.substr(8, header))["logits.0"];
    const std::size_t vocab = tensor["shape"][1];
    const auto* logits = reinterpret_cast<const float*>(file.data() + 8 + header);
    for (std::size_t i = generated["prompt_tokens"]; i < ids.size(); ++i) {
      const float* row = logits + (i - 1) * vocab;
      EXPECT_EQ(ids[i], std::max_element(row, row + vocab) - row) << "token " << i;
    }
  }
};

TEST_F(Generate, CacheAgreesWithScoresGpt) {
  trained({});
  expect_cache_agrees_with_scores();
}

TEST_F(Generate, CacheAgreesWithScoresLlama) {
  trained({"model.family=llama", "model.num_kv_heads=2"});
  expect_cache_agrees_with_scores();
}

TEST_F(Generate, CacheAgreesWithScoresWithinAWindow) {
  trained({"model.family=llama", "model.attention_window=3"});
  expect_cache_agrees_with_scores();
}

TEST_F(Generate, CacheAgreesWithScoresWithNormsAfterTheLayers) {
  trained({"model.family=llama", "model.norm_placement=output", "model.qk_norm=true",
           "model.qk_norm_over=all_heads"});
  expect_cache_agrees_with_scores();
}

TEST_F(Generate, CacheAgreesWithScoresWithCaps) {
  trained({"model.family=llama", "model.norm_placement=both", "model.attention_soft_cap=2",
           "model.logit_soft_cap=5", "model.attention_window=3", "model.window_layers=[0]"});
  expect_cache_agrees_with_scores();
}

TEST_F(Generate, DefaultLengthIsCutToTheLearnedPositions) {
  trained({"train.iters=4"});
  const std::vector<std::string> command = {"generate", path("run"), "--prompt",    "the ship",
                                            "--json",   "--greedy",  "--ignore-eod"};
  const Outcome cut = run(command);
  ASSERT_EQ(cut.code, 0) << cut.out;
  EXPECT_THAT(cut.out, HasSubstr("instead of 100, because the model has 16 learned positions"));
  EXPECT_EQ(json::parse(cut.out.substr(cut.out.find('{')))["ids"].size(), 16u);
  auto asked = command;
  asked.insert(asked.end(), {"--max-new-tokens", "100"});
  const Outcome refused = run(asked);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("exceed the model's 16 learned positions"));
}

TEST_F(Generate, AMovedRunBringsItsTokenizer) {
  trained({"train.iters=4"});
  const std::vector<std::string> greedy = {"--prompt", "the", "--greedy", "--max-new-tokens", "5"};
  const auto text_of = [&](const std::string& folder) {
    std::vector<std::string> command = {"generate", path(folder)};
    command.insert(command.end(), greedy.begin(), greedy.end());
    return run(command);
  };
  const Outcome before = text_of("run");
  ASSERT_EQ(before.code, 0) << before.out;
  fs::rename(path("run"), path("moved"));
  fs::rename(path("tok"), path("gone"));
  EXPECT_EQ(text_of("moved").out, before.out);
  write("text.txt", "the ship turns the wind.\n");
  EXPECT_EQ(run({"eval", path("moved"), "--text", path("text.txt")}).code, 0);
  const Outcome exported = run({"convert", "--to", "hf", path("moved"), path("hf")});
  EXPECT_EQ(exported.code, 0) << exported.out;
  EXPECT_TRUE(fs::exists(path("hf/tokenizer.json")));
  // A run of an older version has no copies of tokenizer files.
  fs::remove_all(path("moved/tokenizer"));
  const Outcome lost = text_of("moved");
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.out, HasSubstr("--set data.vocab_file=FILE"));
  const Outcome named =
      run({"generate", path("moved"), "--prompt", "the", "--greedy", "--max-new-tokens", "5",
           "--set", "data.vocab_file=" + path("gone/vocab.json"), "--set",
           "data.merge_file=" + path("gone/merges.txt")});
  EXPECT_EQ(named.out, before.out);
}

TEST_F(Generate, SeedsDecideAndSequencesDiffer) {
  trained({});
  const std::vector<std::string> command = {"generate",
                                            path("run"),
                                            "--prompt",
                                            "the",
                                            "--max-new-tokens",
                                            "10",
                                            "--num-return-sequences",
                                            "3",
                                            "--ignore-eod",
                                            "--seed"};
  auto with_seed = [&](const std::string& seed) {
    std::vector<std::string> all = command;
    all.push_back(seed);
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return outcome.out;
  };
  EXPECT_EQ(with_seed("5"), with_seed("5"));
  EXPECT_NE(with_seed("5"), with_seed("6"));
}

TEST_F(Generate, EvaluationIsTheMeanOfScores) {
  trained({});
  write("text.txt", "the ship turns the wind.\n");
  const json whole =
      json::parse(run({"eval", path("run"), "--text", path("text.txt"), "--json"}).out);
  EXPECT_NEAR(whole["bits_per_byte"].get<double>(),
              whole["loss"].get<double>() * whole["tokens"].get<double>() / std::log(2.0) /
                  whole["bytes"].get<double>(),
              1e-9);
  EXPECT_NEAR(whole["perplexity"].get<double>(), std::exp(whole["loss"].get<double>()), 1e-6);
  const json data =
      json::parse(run({"eval", path("run"), "--data", path("corpus_text_document"), "--json"}).out);
  EXPECT_LT(data["loss"].get<double>(), 3.5);
}

}  // namespace
}  // namespace trireme::testing_cli
