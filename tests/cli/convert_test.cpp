// Tests that `trireme convert --from hf` and `trireme score` give the reference's logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "tensors/safetensors.h"

namespace trireme {
namespace {

class Convert : public testing::Test {
 protected:
  Convert() { fs::create_directories(folder_); }
  ~Convert() override { fs::remove_all(folder_); }

  static std::string run(std::vector<std::string> arguments) {
    CLI::App app;
    cli::add_convert(app);
    cli::add_score(app);
    cli::add_generate(app);
    cli::add_eval(app);
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }
  static fs::path reference(const std::string& name) {
    return fs::path(TRIREME_TESTS) / "formats/data/hf" / name;
  }

  fs::path folder_ =
      fs::path(testing::TempDir()) / ("trireme_convert_" + std::to_string(::getpid()));
};

TEST_F(Convert, GivesTheReferenceLogits) {
  for (const std::string name : {"gpt2", "llama", "llama_tied", "llama3_rope", "linear_rope"}) {
    const std::string run_folder = (folder_ / name).string();
    run({"convert", "--from", "hf", reference(name).string(), run_folder});
    const auto golden = nlohmann::json::parse(read_file(reference(name) / "golden.json"));
    const std::string ids = run_folder + "/ids", logits = run_folder + "/logits.safetensors";
    std::ofstream lines(ids);
    for (const auto& row : golden.at("ids")) lines << row.dump() << "\n";
    lines.close();
    run({"score", run_folder, "--ids", ids, "--output", logits});
    const SafetensorsFile file(logits);
    double largest = 0;
    for (std::size_t row = 0; row < golden.at("logits").size(); ++row) {
      const SafetensorsEntry& entry = file.at("logits." + std::to_string(row));
      const std::size_t tokens = golden["ids"][row].size();
      ASSERT_EQ(entry.shape, (std::vector{static_cast<std::int64_t>(tokens), std::int64_t{61}}));
      std::vector<float> values(tokens * 61);
      std::memcpy(values.data(), file.bytes(entry).data(), entry.bytes());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = golden["logits"][row][i / 61][i % 61];
        largest = std::max(largest, std::abs(values[i] - expected));
      }
    }
    EXPECT_LT(largest, 1e-4) << name;
  }
}

TEST_F(Convert, ReportsAsJson) {
  const std::string run_folder = (folder_ / "run").string(), out = (folder_ / "out").string();
  run({"convert", "--from", "hf", reference("llama").string(), run_folder});
  const auto json =
      nlohmann::json::parse(run({"convert", "--to", "hf", run_folder, out, "--json"}));
  EXPECT_EQ(json.at("model"), "LlamaForCausalLM");
  EXPECT_EQ(json.at("tensors"), 21);
  EXPECT_TRUE(fs::exists(folder_ / "out/generation_config.json"));
}

// This tokenizer's template puts <s> before a text and </s> after it, as in training data.
TEST_F(Convert, GenerateAndEvalOpenATextAsPreprocessingDoes) {
  const fs::path hf = folder_ / "hf";
  fs::create_directories(hf);
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(reference("llama") / name, hf / name);
  std::ofstream(hf / "tokenizer.json") << R"({
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "decoder": null,
    "added_tokens": [
      {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true},
      {"id": 1, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                      "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                         "</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
              "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4}, "merges": ["a b"]}})";
  const std::string run_folder = (folder_ / "run").string();
  run({"convert", "--from", "hf", hf.string(), run_folder});
  const auto generated = nlohmann::json::parse(run(
      {"generate", run_folder, "--prompt", "ab", "--greedy", "--max-new-tokens", "1", "--json"}));
  EXPECT_EQ(generated.at("prompt_tokens"), 2);
  EXPECT_EQ(generated.at("ids").at(0), 0);
  EXPECT_EQ(generated.at("ids").at(1), 4);
  const std::string text = (folder_ / "text.txt").string();
  std::ofstream(text) << "ab\na\n";
  // <s> ab </s> and the end-of-document token, then <s> a </s> and another: 7 after the first.
  const auto lines = nlohmann::json::parse(
      run({"eval", run_folder, "--text", text, "--documents", "line", "--json"}));
  EXPECT_EQ(lines.at("tokens"), 7);
}

TEST_F(Convert, TellsFormatsByLooking) {
  const fs::path torch = reference("").parent_path().parent_path() / "torch";
  const auto kind = [&](const fs::path& from) {
    const std::string to = (folder_ / from.filename()).string();
    return nlohmann::json::parse(run({"convert", from.string(), to, "--json"}))
        .at("model")
        .get<std::string>();
  };
  EXPECT_EQ(kind(reference("gpt2")), "GPT2LMHeadModel");
  EXPECT_EQ(kind(torch / "llama_bin"), "LlamaForCausalLM");
  EXPECT_EQ(kind(torch / "llama_meta"), "Llama");
  EXPECT_EQ(kind(torch / "gpt2_legacy"), "Megatron GPT");
  EXPECT_EQ(kind(torch / "bert_legacy"), "Megatron BERT");
}

TEST_F(Convert, SaysWhatIsWrongWithItsArguments) {
  const std::string hf = reference("llama").string(), run_folder = (folder_ / "run").string();
  const std::string out = (folder_ / "out").string();
  run({"convert", hf, run_folder});
  const auto refused = [&](const std::vector<std::string>& arguments, const char* message) {
    EXPECT_THAT([&] { run(arguments); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(message)));
  };
  refused({"convert", run_folder, out}, "--to hf exports it as a Hugging Face folder");
  refused({"convert", "--from", "hf", "--to", "hf", hf, out},
          "--from and --to are mutually exclusive");
  refused({"convert", hf + "/config.json", out}, "is a file, but a folder was expected");
  refused({"convert", folder_.string(), out}, "not in a supported format");
  refused({"convert", hf, out, "--set", "train.iters=3"}, "only settings of model and moe");
  refused({"convert", "--from", "megatron", hf, out}, "mp_rank_TT");
  // Of torch.distributed.checkpoint's folders that with weights is proposed.
  const auto add = [&](const std::string& name) {
    fs::create_directories(folder_ / "step/dcp" / name);
    std::ofstream(folder_ / "step/dcp" / name / ".metadata") << "";
    return (folder_ / "step/dcp").string();
  };
  refused({"convert", add("optimizer_0"), out}, "no folder with weights");
  refused({"convert", add("model"), out}, "dcp/model'");
}

TEST_F(Convert, WritesFilesOfTorchSave) {
  const std::string first = (folder_ / "first").string(), second = (folder_ / "second").string();
  run({"convert", reference("llama").string(), first});
  run({"convert", "--to", "hf", "--weight-files", "bin", first, (folder_ / "bin").string()});
  EXPECT_TRUE(fs::exists(folder_ / "bin/pytorch_model.bin"));
  run({"convert", (folder_ / "bin").string(), second});
  run({"convert", "--to", "hf", second, (folder_ / "back").string()});
  const SafetensorsFile got(folder_ / "back/model.safetensors");
  const SafetensorsFile want(reference("llama") / "model.safetensors");
  EXPECT_EQ(got.tensors().size(), want.tensors().size());
  for (const SafetensorsEntry& entry : want.tensors()) {
    const auto a = want.bytes(entry), b = got.bytes(got.at(entry.name));
    EXPECT_TRUE(std::ranges::equal(a, b)) << entry.name;
  }
}

}  // namespace
}  // namespace trireme
