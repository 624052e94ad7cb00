// Tests of wrong input from the command line: one clear message, exit code 2, nothing lost.
#include <gmock/gmock.h>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class BadInput : public Workspace {
 protected:
  void expect_refused(const Outcome& outcome, const std::string& message) {
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  }
};

TEST_F(BadInput, Configurations) {
  prepare_data();
  const std::pair<std::string, std::string> cases[] = {
      {"model.hiden_size=32", "hidden_size"},
      {"modle.hidden_size=32", "model"},
      {"model.num_heads=5", "num_heads"},
      {"model.hidden_size=wide", "hidden_size"},
      {"train.global_batch_size=7", "global_batch_size"},
      {"train.rampup_batch_size=[3,2,24]", "batch"},
      {"model.max_positions=8", "max_positions"},
      {"model.vocab_size=100", "vocab_size"},
      {"run.precision=fp8", "precision"},
      {"optimizer.decay_style=cosin", "cosine"},
      {"parallel.tp=2", "tp"},
      {"data.split=0,0,0", "split"},
      {"data.path=[\"" + path("absent") + "\"]", "trireme preprocess"},
      {"data.path=[\"0.7\", \"" + path("corpus_text_document") + "\", \"0.3\"]", "weight 0.7"},
      {"data.vocab_file=" + path("absent.json"), "data.vocab_file"},
      {"data.tokenizer=gpt3", "gpt2"},
      {"run.device=cuda", "run.device = \"cuda\": this build of trireme has no plug-in"},
      {"run.dir=/dev/null/run", "/dev/null/run"},
      {"checkpoint.load=" + path("absent"), "absent"},
  };
  for (const auto& [override_, message] : cases) {
    SCOPED_TRACE(override_);
    expect_refused(train("run", {override_}), message);
  }
  expect_refused(run({"train", path("absent.toml")}), "absent.toml");
  write("broken.toml", "[model\nnum_layers = 2\n");
  expect_refused(run({"train", path("broken.toml")}), "broken.toml");
  expect_refused(run({"trian"}), "did you mean 'train'");
  expect_refused(run({"train", path("run.toml"), "--dump-grap", "x"}), "--dump-graph");
  expect_refused(run({"train"}), "trireme train: file is required; see trireme train --help");
  expect_refused(run({"trian", "--help"}),
                 "trireme: unknown command 'trian'; did you mean 'train'?; see trireme --help");
  expect_refused(train("run", {}, {{"TRIREME_ISA", "sse"}}), "TRIREME_ISA");
  expect_refused(train("run", {}, {{"TRIREME_THREADS", "many"}}), "TRIREME_THREADS");
}

TEST_F(BadInput, DamagedDataAndCheckpoints) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=4"}).code, 0);
  const fs::path step = folder_ / "run/checkpoints/step-00000004";

  const std::string shard = contents(step / "shard-00000.safetensors");
  write("run/checkpoints/step-00000004/shard-00000.safetensors", shard.substr(0, shard.size() / 2));
  expect_refused(train("run"), "shard-00000.safetensors");
  expect_refused(run({"generate", path("run"), "--prompt", "the", "--max-new-tokens", "5"}),
                 "shard-00000.safetensors");
  std::string flipped = shard;
  flipped[flipped.size() - 100] ^= 1;
  write("run/checkpoints/step-00000004/shard-00000.safetensors", flipped);
  expect_refused(train("run"), "shard-00000.safetensors");
  write("run/checkpoints/step-00000004/shard-00000.safetensors", shard);

  const std::string index = contents(folder_ / "corpus_text_document.idx");
  write("corpus_text_document.idx", index.substr(0, index.size() - 9));
  expect_refused(train("run"), "corpus_text_document.idx");
  write("corpus_text_document.idx", index);
  const std::string tokens = contents(folder_ / "corpus_text_document.bin");
  write("corpus_text_document.bin", tokens.substr(0, tokens.size() - 10));
  expect_refused(train("run"), "corpus_text_document.bin");
  std::string outside = tokens;
  outside[1] = '\x7f';  // a token ID far outside the vocabulary
  write("corpus_text_document.bin", outside);
  expect_refused(train("fresh"), "vocabulary");
  write("corpus_text_document.bin", tokens);

  const std::string latest = contents(folder_ / "run/checkpoints/latest");
  write("run/checkpoints/latest", "garbage\n");
  expect_refused(train("run"), "step-00000004'");
  write("run/checkpoints/latest", latest);

  // With all changes reverted, the run continues from its checkpoint.
  const Outcome resumed = train("run");
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("resumed from"));
}

TEST_F(BadInput, PathsThatCannotBeLookedAt) {
  const std::string name(300, 'x');
  expect_refused(run({"inspect", path(name)}), "': File name too long");
  expect_refused(run({"convert", "--from", "hf", path(name), path("run")}), "cannot use '");
  fs::create_symlink("loop", path("loop"));
  expect_refused(run({"generate", path("loop")}), "': Too many levels of symbolic links");
}

TEST_F(BadInput, BertDoesNotContinueTexts) {
  const fs::path bert = (fs::path(TRIREME_TESTS) / "formats/data/hf/bert").lexically_normal();
  ASSERT_EQ(run({"convert", "--from", "hf", bert.string(), path("bert")}).code, 0);
  write("text.txt", "the ship");
  const char* message = "which predicts masked tokens";
  expect_refused(run({"generate", path("bert"), "--prompt", "the ship"}), message);
  expect_refused(run({"eval", path("bert"), "--text", path("text.txt")}), message);
}

TEST_F(BadInput, ModelThatDoesNotFitTheCheckpoint) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=5"}).code, 0);
  const Outcome outcome = train("run", {"model.hidden_size=64"});
  expect_refused(outcome, "[300, 32]");
  EXPECT_THAT(outcome.out, HasSubstr("[300, 64]"));
}

TEST_F(BadInput, Generation) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=5"}).code, 0);
  expect_refused(run({"generate", path("absent")}), "absent");
  expect_refused(run({"generate", path("run"), "--prompt", "the ship", "--max-new-tokens", "100"}),
                 "--max-new-tokens");
  expect_refused(run({"generate", path("run"), "--prompt", "the", "--seed", "-1"}), "--seed");
  expect_refused(run({"generate", path("run"), "--prompt", "the", "--temperature", "0"}),
                 "temperature");
  expect_refused(run({"eval", path("run"), "--text", path("corpus.txt"), "--stride", "17"}),
                 "--stride 17");
  // A loss needs no text; generating text needs a tokenizer.
  expect_refused(
      run({"eval", path("run"), "--text", path("corpus.txt"), "--set", "data.tokenizer="}),
      "--set data.tokenizer");
  expect_refused(run({"generate", path("run"), "--prompt", "the", "--set", "moe.num_experts=4",
                      "--set", "moe.top_k=5"}),
                 "moe.top_k = 5");
  const Outcome loss = run({"eval", path("run"), "--data", path("corpus_text_document"), "--set",
                            "data.tokenizer=\"\""});
  EXPECT_EQ(loss.code, 0) << loss.out;
  EXPECT_THAT(loss.out, HasSubstr("perplexity"));
  write("ids.jsonl", "[1.5]\n");
  expect_refused(
      run({"score", path("run"), "--ids", path("ids.jsonl"), "--output", path("l.safetensors")}),
      ":1:");
  write("ids.jsonl", "[1, 2, 3]\n[1, 999]\n");
  expect_refused(
      run({"score", path("run"), "--ids", path("ids.jsonl"), "--output", path("l.safetensors")}),
      "999");
  write("ids.jsonl", "[1, 2, 3]\n1, 2\n");
  expect_refused(
      run({"score", path("run"), "--ids", path("ids.jsonl"), "--output", path("l.safetensors")}),
      ":2:");
}

TEST_F(BadInput, FlagsAreNamedWithWhatTheyAllow) {
  expect_refused(
      run({"tokenizer", "train", "--input", "a", "--output", "b", "--vocab-size", "abc"}),
      "--vocab-size must be a whole number, not 'abc'");
  expect_refused(run({"bench", "step", "--steps", "two"}),
                 "--steps must be a number from 1 to 1000");
  expect_refused(run({"eval", "run", "--documents", "x"}), "one of file, paragraph, line, not 'x'");
  expect_refused(run({"preprocess", "--documents", "x"}), "file, line, paragraph");
  expect_refused(run({"generate", "run", "--max-new-tokens", "-3"}), "a number from 0 to 16777216");
  expect_refused(run({"tokenizer", "decode", "--tokenizer-type", "null", "--vocab-size", "9",
                      "--ids", "[1.5]"}),
                 "not a JSON array of ids");
}

TEST_F(BadInput, ImportedScriptsThatLackFlags) {
  write("run.sh", "python pretrain_gpt.py --num-layers 2 --hidden-size 64\n");
  const Outcome outcome =
      run({"import-args", "--run", path("run.sh"), "--output", path("run.toml")});
  expect_refused(outcome, "--num-attention-heads");
  EXPECT_THAT(outcome.out, HasSubstr("is not yet valid"));
  EXPECT_TRUE(fs::exists(path("run.toml")));
}

TEST_F(BadInput, Preprocessing) {
  prepare_data();
  const auto preprocess = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"preprocess", path("lines.jsonl"), "--tokenizer-type", "gpt2",
                               "--vocab-file", path("tok/vocab.json"), "--merge-file",
                               path("tok/merges.txt"), "--output-prefix", path("out")});
    return run(more);
  };
  write("lines.jsonl", "{\"text\": \"the ship\"}\n{\"text\": \n{\"other\": 1}\n");
  expect_refused(preprocess({}), "line 2");
  EXPECT_FALSE(fs::exists(folder_ / "out_text_document.bin"));
  const Outcome skipped = preprocess({"--skip-bad-lines"});
  EXPECT_EQ(skipped.code, 0) << skipped.out;
  EXPECT_THAT(skipped.out, HasSubstr("skipped 2 lines; the first: "));
  EXPECT_THAT(skipped.out, HasSubstr("lines.jsonl"));
  EXPECT_THAT(skipped.out, HasSubstr("line 2"));
}

TEST_F(BadInput, Tokenizers) {
  const std::vector<std::string> encode = {"tokenizer", "encode", "--tokenizer-type", "gpt2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), encode.begin(), encode.end());
    return run(more);
  };
  expect_refused(with({"--vocab-file", path("absent.json")}), "one of --text, --file, --jsonl");
  expect_refused(with({"--text", "a", "--file", "b"}), "one of --text, --file, --jsonl");
  expect_refused(with({"--txt", "a"}), "did you mean '--text'");
  expect_refused(with({"--text", "a"}), "--vocab-file");
  expect_refused(with({"--text", "a", "--tokenizer-model", path("absent")}), "absent");
  expect_refused(run({"tokenizer", "encod"}), "did you mean 'encode'");
}

}  // namespace
}  // namespace trireme::testing_cli
