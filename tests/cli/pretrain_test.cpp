// Tests of `trireme pretrain-gpt`, `pretrain-bert` and `import-args` as a Megatron user calls them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <iterator>
#include <regex>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Pretrain : public Workspace {
 protected:
  // Flags of a tiny run on the workspace's corpus.
  std::vector<std::string> flags(const std::string& dir, std::vector<std::string> more = {}) const {
    std::istringstream fixed(
        "pretrain-gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 "
        "--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 --train-iters 12 "
        "--lr 1e-2 --lr-warmup-fraction .1 --lr-decay-style cosine --bf16 --eval-iters 1 "
        "--eval-interval 6 --split 90,10,0 --log-interval 4 --save-interval 6");
    std::vector<std::string> all(std::istream_iterator<std::string>(fixed), {});
    for (const auto& [flag, value] : {std::pair{"--data-path", path("corpus_text_document")},
                                      {"--vocab-file", path("tok/vocab.json")},
                                      {"--merge-file", path("tok/merges.txt")},
                                      {"--save", path(dir)},
                                      {"--load", path(dir)}}) {
      all.insert(all.end(), {flag, value});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  static std::string recipe(const std::string& name) {
    return fs::path(TRIREME_TESTS "/../recipes/megatron").lexically_normal() / name;
  }

  // Imports a script of recipes/megatron into run.toml.
  void import(const std::string& name) const {
    const Outcome outcome = run({"import-args", "--run", recipe(name), "--device", "cpu",
                                 "--output", path("run.toml"), "--add=--calculate-per-token-loss"});
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("# Launch: "), Not(HasSubstr("Not carried over"))));
  }

  // Settings that make any of the scripts small, on the workspace's corpus.
  std::vector<std::string> toy(const std::string& dir, std::vector<std::string> more = {}) const {
    std::istringstream fixed(
        "model.num_layers=2 model.hidden_size=64 model.num_heads=4 model.seq_length=16 "
        "model.max_positions=16 data.split=90,10,0 train.micro_batch_size=2 "
        "train.global_batch_size=4 train.eval_iters=1 train.log_interval=4");
    std::vector<std::string> all(std::istream_iterator<std::string>(fixed), {});
    all.insert(all.end(), {"data.path=" + path("corpus_text_document"),
                           "data.vocab_file=" + path("tok/vocab.json"),
                           "data.merge_file=" + path("tok/merges.txt"), "run.dir=" + path(dir)});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Outcome train_toy(std::vector<std::string> overrides,
                    std::vector<std::string> before = {}) const {
    before.insert(before.begin(), "train");
    before.push_back(path("run.toml"));
    before.insert(before.end(), overrides.begin(), overrides.end());
    return run(before);
  }
};

TEST_F(Pretrain, TrainsOnIdsWithoutATokenizer) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("{} 7 {} 11 3\n", i % 40, (i * i) % 40);
  write("ids.txt", lines);
  const std::vector<std::string> null = {"--tokenizer-type", "NullTokenizer", "--vocab-size", "40"};
  std::vector<std::string> preprocess = {"preprocess",      "--input",     path("ids.txt"),
                                         "--documents",     "line",        "--append-eod",
                                         "--output-prefix", path("corpus")};
  preprocess.insert(preprocess.end(), null.begin(), null.end());
  const Outcome made = run(preprocess);
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("200 documents, 200 sequences, 1200 tokens"));
  std::vector<std::string> more = null;
  more.insert(more.end(), {"--eod-mask-loss", "--calculate-per-token-loss"});
  const Outcome outcome = run(flags("run", more));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("vocabulary 41"), HasSubstr("done at step 12")));
  const Outcome generated =
      run({"generate", path("run"), "--prompt", "1 7", "--max-new-tokens", "3", "--greedy"});
  EXPECT_EQ(generated.code, 0) << generated.out;
  more[3] = "20";
  const Outcome small = run(flags("small", more));
  EXPECT_EQ(small.code, 2);
  EXPECT_THAT(small.out, HasSubstr("outside of the vocabulary of 21"));
}

TEST_F(Pretrain, TrainsAndGoesOn) {
  prepare_data();
  const Outcome outcome = run(flags("run", {"--use-flash-attn", "--distributed-backend", "nccl"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("note: --use-flash-attn: "),
                    HasSubstr("note: --distributed-backend: "), HasSubstr("done at step 12")));
  const Outcome more = run(flags("run", {"train.iters=16"}));
  ASSERT_EQ(more.code, 0) << more.out;
  EXPECT_THAT(more.out, AllOf(HasSubstr("resumed from"), HasSubstr("done at step 16"),
                              Not(HasSubstr("was saved with"))));
  const Outcome exact = run(flags("run", {"train.iters=20", "parallel.numerics=exact"}));
  EXPECT_THAT(exact.out, HasSubstr("the run was saved with parallel.numerics = \"fast\" and "
                                   "continues with \"exact\""));
}

TEST_F(Pretrain, PrintedConfigurationMeansTheSame) {
  prepare_data();
  ASSERT_EQ(run(flags("run")).code, 0);
  const Outcome printed = run(flags("again", {"--print-config", "run.device=cpu"}));
  ASSERT_EQ(printed.code, 0) << printed.out;
  EXPECT_FALSE(fs::exists(path("again")));
  write("printed.toml", printed.out);
  const Outcome outcome = run({"train", path("printed.toml")});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(metrics("again"), metrics("run"));
}

TEST_F(Pretrain, PrintsItsSummaryAsJson) {
  prepare_data();
  const Outcome outcome = run(flags("run", {"--json", "--use-flash-attn"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("\"steps\":12"));
}

TEST_F(Pretrain, GptScriptTrainsAsAToy) {
  prepare_data();
  import("gpt_345m.sh");
  const Outcome outcome =
      train_toy(toy("run", {"train.iters=8", "optimizer.decay_iters=8", "parallel.tp=1",
                            "parallel.pp=1", "parallel.sequence_parallel=false"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("done at step 8"));
}

TEST_F(Pretrain, GptScriptTrainsOnFourRanks) {
  prepare_data();
  import("gpt_345m.sh");
  const Outcome outcome =
      train_toy(toy("run", {"train.iters=8", "optimizer.decay_iters=8"}), {"--nproc", "4"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("done at step 8"));
}

TEST_F(Pretrain, FlagsTrainOnTwoRanks) {
  prepare_data();
  const Outcome outcome = run(flags(
      "run", {"--nproc", "2", "--tensor-model-parallel-size", "2", "--distributed-backend", "x"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("mesh: tp 2"), HasSubstr("done at step 12")));
  const std::string note = "note: --distributed-backend";
  EXPECT_EQ(outcome.out.find(note), outcome.out.rfind(note));
}

TEST_F(Pretrain, ARunThatIsKilledGoesOnAndLosesNothing) {
  prepare_data();
  const std::vector<std::string> steps = {"--train-iters", "100", "--save-interval", "10"};
  ASSERT_EQ(run(flags("whole", steps)).code, 0);
  std::vector<std::string> arguments = flags("run", steps);
  arguments.insert(arguments.end(), {"--restarts", "2", "--restart-wait=0"});
  Program program(arguments, path("output.txt"));
  ASSERT_TRUE(program.runs_until([&] { return values_of(metrics("run"), "loss").size() > 12; }));
  const std::vector<double> pids = values_of(contents(path("run/status.json")), "pid");
  ASSERT_EQ(pids.size(), 1U);
  ASSERT_NE(static_cast<pid_t>(pids.front()), program.pid());
  ASSERT_EQ(::kill(static_cast<pid_t>(pids.front()), SIGKILL), 0);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(metrics("run"), metrics("whole"));
  EXPECT_THAT(contents(path("run/log.txt")), HasSubstr("killed by signal 9"));
}

TEST_F(Pretrain, WrongNumbersOfRestartsAreRefused) {
  for (const char* wrong : {"-1", "1001", "two", "1.5", ""}) {
    const Outcome outcome = run({"pretrain-gpt", "--restarts", wrong});
    EXPECT_EQ(outcome.code, 2) << wrong;
    EXPECT_THAT(outcome.out, HasSubstr("--restarts: expected a number of restarts from 0 to 1000"));
  }
  for (const char* wrong : {"-1", "301", "nan", "soon"}) {
    const Outcome outcome =
        run({"pretrain-bert", "--restarts", "1", fmt::format("--restart-wait={}", wrong)});
    EXPECT_EQ(outcome.code, 2) << wrong;
    EXPECT_THAT(outcome.out, HasSubstr("--restart-wait: expected a number of seconds"));
  }
}

TEST_F(Pretrain, LlamaScriptTrainsAsAToy) {
  prepare_data();
  import("llama_1b.sh");
  const Outcome outcome = train_toy(
      toy("run", {"train.iters=8", "optimizer.warmup_iters=2", "model.num_kv_heads=2",
                  "model.head_dim=16", "model.ffn_hidden_size=96", "data.tokenizer=gpt2",
                  "parallel.tp=1", "parallel.sequence_parallel=false", "parallel.zero=0"}));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("model: llama"), HasSubstr("done at step 8")));
}

class PretrainBert : public Pretrain {
 protected:
  // Prepares the same corpus as sentences, each starting with a capital letter, with a vocabulary
  // of its words.
  void prepare_sentences() const {
    prepare_data();
    std::string text = contents(path("corpus.txt"));
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i == 0 || text[i - 1] == '\n') text[i] = static_cast<char>(std::toupper(text[i]));
    }
    write("corpus.txt", text);
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n##er\n";
    for (const char* word : {"the", "ship", "a", "row", "wind", "one", "oar", "captain", "turns",
                             "sees", "carries", "follows", "meets"}) {
      vocabulary += std::string(word) + "\n";
    }
    write("vocab.txt", vocabulary);
    const Outcome made =
        run({"preprocess", "--input", path("corpus.txt"), "--documents", "paragraph",
             "--split-sentences", "--tokenizer-type", "bert", "--vocab-file", path("vocab.txt"),
             "--output-prefix", path("corpus")});
    ASSERT_EQ(made.code, 0) << made.out;
  }

  std::vector<std::string> sentences(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"data.path=" + path("corpus_text_sentence"),
                             "data.vocab_file=" + path("vocab.txt"), "data.merge_file=\"\""});
    return more;
  }
};

TEST_F(PretrainBert, ScriptTrainsAsAToy) {
  prepare_sentences();
  import("bert_base.sh");
  const Outcome outcome =
      train_toy(toy("run", sentences({"train.samples=64", "optimizer.warmup_samples=8",
                                      "parallel.zero=0", "log.tensorboard=true"})));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("model: bert"), HasSubstr("(words "), HasSubstr("done at step 16")));
  EXPECT_THAT(metrics("run"), AllOf(HasSubstr("\"lm_loss\""), HasSubstr("\"order_loss\""),
                                    HasSubstr("\"valid_order_loss\"")));
}

TEST_F(PretrainBert, FlagsTrainAndGoOnWithTheSameBits) {
  prepare_sentences();
  const auto train = [&](const std::string& dir, std::vector<std::string> more) {
    more.insert(more.end(),
                {"--bert-no-binary-head", "--hidden-dropout", "0.1", "--calculate-per-token-loss"});
    std::vector<std::string> arguments = flags(dir, sentences(more));
    arguments[0] = "pretrain-bert";
    return run(arguments);
  };
  const Outcome whole = train("whole", {});
  ASSERT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("done at step 12"), Not(HasSubstr("(words "))));
  ASSERT_EQ(train("cut", {"train.exit_interval=5"}).code, 0);
  const Outcome rest = train("cut", {"train.exit_interval=0"});
  ASSERT_EQ(rest.code, 0) << rest.out;
  EXPECT_THAT(rest.out, HasSubstr("resumed from"));
  EXPECT_EQ(metrics("cut"), metrics("whole"));
}

// The loss beside it is the sum of two.
TEST_F(PretrainBert, PerplexityIsThatOfTheWords) {
  prepare_sentences();
  std::vector<std::string> arguments = flags("run", sentences({"--calculate-per-token-loss"}));
  arguments[0] = "pretrain-bert";
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  std::smatch found;
  const std::regex line(
      R"(validation loss ([0-9.]+) \(words ([0-9.]+), order ([0-9.]+)\), perplexity of the words ([0-9.]+))");
  ASSERT_TRUE(std::regex_search(outcome.out, found, line)) << outcome.out;
  const double words = std::stod(found[2]);
  EXPECT_NEAR(std::stod(found[1]), words + std::stod(found[3]), 2e-4);
  EXPECT_NEAR(std::stod(found[4]) / std::exp(words), 1, 1e-3);
}

// Exact numerics: equal metrics on one rank, on two that share the states, and on two stages.
TEST_F(PretrainBert, LayoutsGiveTheSameBits) {
  prepare_sentences();
  import("bert_base.sh");
  const auto train = [&](const std::string& dir, std::vector<std::string> more,
                         std::vector<std::string> before) {
    more.insert(more.end(), {"train.samples=32", "optimizer.warmup_samples=8",
                             "parallel.numerics=exact", "model.hidden_dropout=0.1"});
    const Outcome outcome = train_toy(toy(dir, sentences(more)), before);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
  };
  train("one", {"parallel.zero=0"}, {});
  train("zero", {"parallel.zero=2"}, {"--nproc", "2"});
  train("stages", {"parallel.zero=0", "parallel.pp=2"}, {"--nproc", "2"});
  EXPECT_EQ(metrics("zero"), metrics("one"));
  EXPECT_EQ(metrics("stages"), metrics("one"));
}

TEST_F(PretrainBert, RefusesWhatDoesNotGo) {
  prepare_sentences();
  import("bert_base.sh");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"data.reset_attention_mask=true"}, "never do: remove them"},
      {{"model.activation=swiglu"}, "has no gate"},
      {{"data.tokenizer=gpt2", "data.vocab_file=" + path("tok/vocab.json"),
        "data.merge_file=" + path("tok/merges.txt")},
       "[MASK]"},
  };
  for (const auto& [more, message] : cases) {
    std::vector<std::string> arguments =
        sentences({"train.samples=64", "optimizer.warmup_samples=8"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = train_toy(toy("run", arguments));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  }
  EXPECT_FALSE(fs::exists(path("run/checkpoints")));
}

// Flags and the configuration that they print give the same outcome, whatever that is.
TEST_F(Pretrain, BertDoesWhatItsConfigurationDoes) {
  prepare_data();
  std::vector<std::string> arguments =
      flags("run", {"--mask-prob", "0.2", "--calculate-per-token-loss"});
  arguments[0] = "pretrain-bert";
  arguments.push_back("data.tokenizer=gpt2");  // a vocabulary without [MASK]
  const Outcome direct = run(arguments);
  arguments.push_back("--print-config");
  const Outcome printed = run(arguments);
  ASSERT_EQ(printed.code, 0) << printed.out;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("family = \"bert\""), HasSubstr("mask_prob = 0.2")));
  write("printed.toml", printed.out.substr(printed.out.find("[run]")));
  const Outcome trained = run({"train", path("printed.toml")});
  EXPECT_EQ(direct.code, trained.code) << direct.out << trained.out;
  EXPECT_THAT(direct.out, HasSubstr(trained.out));
}

TEST_F(Pretrain, HelpAndWrongInput) {
  const Outcome help = run({"pretrain-gpt", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Parallelism:"), HasSubstr("--num-layers N"),
                              HasSubstr("refused: "), HasSubstr("accepted with a note: ")));
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--num-layer", "2"}, "did you mean '--num-layers'?"},
      {{"--lr", "fast"}, "--lr: 'fast' is not a number"},
      {{"--fp16"}, "--fp16: contradicts --bf16"},
      {{"--num-experts", "4"}, "--num-experts"},
      {{"--nproc", "x"}, "--nproc: expected a number of processes from 1 to 65536, found 'x'"},
      {{"--nproc", "4", "--tensor-model-parallel-size", "3"}, "parallel.tp = 3"},
      {{"train.itres=3"}, "did you mean \"train.iters\"?"},
      {{"--hidden-size", "65"}, "model.hidden_size is --hidden-size"},
  };
  for (const auto& [more, message] : cases) {
    const Outcome outcome = run(flags("run", more));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  }
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Pretrain, ImportArgsPrintsAndWrites) {
  const Outcome printed =
      run({"import-args", "--run", recipe("gpt_345m.sh"), "ckpt", "tok", "corpus"});
  ASSERT_EQ(printed.code, 0) << printed.out;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("# Launch: mpirun -n 4 trireme train gpt_345m.toml"),
                                 HasSubstr("path = [\"corpus\"]")));
  const Outcome json =
      run({"import-args", "--run", recipe("llama_1b.sh"), "--set", "NUM_NODES=2", "--json"});
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"ranks\":16"), HasSubstr("\"not_carried_over\":[]")));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"nothing.sh"},
                                                    {recipe("gpt_345m.sh"), "--set", "=1"},
                                                    {path("empty.sh")}}) {
    write("empty.sh", "#!/bin/sh\necho hello\n");
    std::vector<std::string> all = arguments;
    all.insert(all.begin(), {"import-args", "--run"});
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
  }
}

TEST_F(Pretrain, ArgumentsOfScriptsFollowTwoDashes) {
  write("run.sh", "echo $@ >&2; exit 1\n");
  for (const char* flag : {"-z", "--zero"})
    EXPECT_THAT(run({"import-args", "--run", path("run.sh"), flag, "1"}).out,
                HasSubstr("after --"));
  EXPECT_THAT(run({"import-args", "--run", path("run.sh"), "--", "-z", "1"}).out,
              HasSubstr("| -z 1"));
}

TEST_F(Pretrain, ScriptsAreRunOnlyWithConsent) {
  write("run.sh", "touch made; python pretrain_gpt.py --num-layers 2\n");
  const Outcome asked = run({"import-args", path("run.sh")});
  EXPECT_EQ(asked.code, 2);
  EXPECT_THAT(asked.out,
              AllOf(HasSubstr("add --run to allow this"), Not(HasSubstr("note: executing"))));
  const Outcome agreed = run({"import-args", path("run.sh"), "--run"});
  EXPECT_EQ(agreed.code, 2);
  EXPECT_THAT(agreed.out, AllOf(HasSubstr("note: executing"), HasSubstr("num_layers = 2"),
                                HasSubstr("is not yet valid")));
  EXPECT_FALSE(fs::exists("made"));
}

// The file is written, but the exit code says that this would be a different training.
TEST_F(Pretrain, ALossThatChangesTheTrainingIsAnError) {
  std::string command = "deepspeed --num_gpus 1";
  for (std::string word : flags("run", {"--num-experts-switch", "8", "--use-flash-attn"})) {
    if (word == "pretrain-gpt") word = "pretrain_gpt.py";
    command += " " + word;
  }
  write("run.sh", command + "\n");
  const Outcome outcome =
      run({"import-args", "--run", path("run.sh"), "--output", path("run.toml")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("#   --num-experts-switch: '8': use --num-experts"),
            HasSubstr("#   --use-flash-attn: "),
            HasSubstr("the result would be a different training run: --num-experts-switch: ")));
  EXPECT_TRUE(fs::exists(path("run.toml")));
}

TEST_F(Pretrain, ACheckpointOfMegatronInSaveIsNotIgnored) {
  fs::create_directories(path("run") + "/iter_0001000");
  const Outcome outcome = run(flags("run"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("looks like a Megatron checkpoint ('iter_0001000')"));
}

}  // namespace
}  // namespace trireme::testing_cli
