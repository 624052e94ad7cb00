// Tests of `trireme config`: the answers produce a configuration that trains, or can be planned.
#include <gmock/gmock.h>

#include <cstdlib>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class ConfigQuestions : public Workspace {
 protected:
  // Runs the program under a shell, with these lines as input.
  Outcome answer(const std::string& lines, const std::string& command) const {
    write("answers", lines);
    const int status =
        std::system((command + " <" + path("answers") + " >" + path("out") + " 2>&1").c_str());
    return {WEXITSTATUS(status), contents(path("out"))};
  }
  static bool has_terminal() { return std::system("script --version >/dev/null 2>&1") == 0; }
  Outcome at_terminal(const std::string& lines, const std::string& command) const {
    return answer(lines, "script -qec '" + command + "' /dev/null");
  }
  std::string config(const std::string& file) const {
    return std::string(TRIREME_BINARY) + " config -o " + path(file);
  }
};

// The three questions are asked on a terminal: a pseudo-terminal of the program `script`.
TEST_F(ConfigQuestions, OfThisMachineMakeAFileThatTrains) {
  if (!has_terminal()) GTEST_SKIP() << "there is no program 'script'";
  prepare_data();
  const Outcome asked =
      at_terminal("this\n\ngpt\n2\n32\n4\n16\nfp32\n" + path("corpus_text_document") + "\n" +
                      path("tok/vocab.json") + "\n8\n3\n1e-3\n",
                  config("mine.toml"));
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(asked.out, HasSubstr("How many layers? [4]: "));
  const Outcome trained = run({"train", path("mine.toml"), "run.dir=" + path("run")});
  EXPECT_EQ(trained.code, 0) << trained.out;
  EXPECT_EQ(values_of(metrics("run"), "loss").size(), 3u);
}

// A wrong answer is asked for again.
TEST_F(ConfigQuestions, OfANodeOfGpusMakeAFileThatPlans) {
  if (!has_terminal()) GTEST_SKIP() << "there is no program 'script'";
  const Outcome asked =
      at_terminal("mars\ncuda\n1\n8\n80GiB\nllama3-8b\n\n\n\n\n\n\n\n", config("node.toml"));
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(asked.out, HasSubstr("expected one of this, lumi, frontier, a100"));
  const Outcome planned = run({"plan", path("node.toml"), "--ranks", "8", "--memory", "80GiB"});
  EXPECT_EQ(planned.code, 0) << planned.out;
}

// A wrong answer is asked for again immediately, and errors found at the end lose no answers.
TEST_F(ConfigQuestions, WrongAnswersLoseNothing) {
  if (!has_terminal()) GTEST_SKIP() << "there is no program 'script'";
  prepare_data();
  const std::string data = path("corpus_text_document") + "\n" + path("tok/vocab.json") + "\n";
  const Outcome asked = at_terminal(
      "this\n2\ngpt\n2\n65\n64\n5\n16\nfp32\n" + data + "8\n3\n1e-3\n", config("mine.toml"));
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(asked.out, HasSubstr("How many processes on this machine? [1]: "));
  EXPECT_THAT(asked.out, HasSubstr("How many heads? [1]: "));
  const std::string written = contents(path("mine.toml"));
  for (const char* line : {"num_heads = 5", "global_batch_size = 8"})
    EXPECT_THAT(written, HasSubstr(line));

  const Outcome ended =
      at_terminal("cuda\n1\n8\n1GiB\nllama3-405b\n\n\n\n\n\n\n\n\n", config("no.toml"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("no layout of this model fits"));
  EXPECT_THAT(ended.out, HasSubstr("--machine cuda --nodes 1 --ranks 8 --memory 1GiB --model "
                                   "llama3-405b"));
}

// Micro-batches x micro-batch size x data-parallel ranks is the batch size, which a flag sets.
TEST_F(ConfigQuestions, TheBatchAgreesWithTheMicroBatchesOfTheFile) {
  write("four.yaml",
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MEGATRON_LM\nmegatron_lm_config:\n"
        "  megatron_lm_learning_rate_decay_iters: 320000\n  megatron_lm_num_micro_batches: 4\n"
        "  megatron_lm_pp_degree: 2\n  megatron_lm_tp_degree: 2\nmixed_precision: bf16\n"
        "num_machines: 1\nnum_processes: 8\n");
  const auto config_of = [&](const std::string& batch) {
    return run({"config", "--from", path("four.yaml"), "--machine", "cuda", "--nodes", "1",
                "--model", "gpt2-355m", "--batch", batch, "-y"});
  };
  const Outcome agrees = config_of("32");
  ASSERT_EQ(agrees.code, 0) << agrees.out;
  for (const char* line : {"micro_batch_size = 4", "global_batch_size = 32", "tp = 2 ", "pp = 2 ",
                           "decay_iters = 320000"})
    EXPECT_THAT(agrees.out, HasSubstr(line));
  const Outcome contradicts = config_of("30");
  EXPECT_EQ(contradicts.code, 2);
  EXPECT_THAT(contradicts.out,
              HasSubstr("--batch '30': a batch of 30 is not a multiple of megatron_lm_config."
                        "megatron_lm_num_micro_batches = 4 times 2 data-parallel ranks"));
  const Outcome ranks =
      run({"config", "--from", path("four.yaml"), "--machine", "cuda", "--ranks", "4", "-y"});
  EXPECT_EQ(ranks.code, 2);
  EXPECT_THAT(ranks.out, HasSubstr("the file is for 8 ranks, but --ranks is 4"));
}

TEST_F(ConfigQuestions, OfTwoNodesOfLumiMakeAFileThatPlans) {
  if (!has_terminal()) GTEST_SKIP() << "there is no program 'script'";
  const Outcome asked = at_terminal("lumi\n2\ngpt3-13b\n\n\n\n\n\n\n\n", config("lumi.toml"));
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(contents(path("lumi.toml")), HasSubstr("device = \"hip\""));
  const Outcome planned = run({"plan", path("lumi.toml"), "--ranks", "16", "--memory", "63.98GiB"});
  EXPECT_EQ(planned.code, 0) << planned.out;
}

TEST_F(ConfigQuestions, AreAnsweredByLinesOfAPipe) {
  prepare_data();
  const Outcome asked = answer("this\n\ngpt\n2\n32\n4\n16\nfp32\n" + path("corpus_text_document") +
                                   "\n" + path("tok/vocab.json") + "\n8\n3\n1e-3\n",
                               config("mine.toml"));
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(asked.out, HasSubstr("How many layers? [4]: 2"));
}

// The vocabulary size is unknown if the tokenizer's file does not exist.
TEST_F(ConfigQuestions, AskForAVocabularyThatNothingSays) {
  write("job.toml",
        "[model]\nname = 'llama3'\nflavor = 'debugmodel'\ntokenizer_path = 'not/there'\n"
        "[training]\nsteps = 10\n");
  std::vector<std::string> words = {
      "config",  "--from", path("job.toml"), "--machine", "cuda",
      "--ranks", "8",      "--yes",          "-o",        path("mine.toml")};
  const Outcome proposed = run(words);
  ASSERT_EQ(proposed.code, 0) << proposed.out;
  EXPECT_THAT(contents(path("mine.toml")),
              HasSubstr("vocab_size = 32000  # 'not/there/tokenizer.json' could not be read"));
  words.back() = path("other.toml");
  words.insert(words.end(), {"--vocab-size", "2000"});
  ASSERT_EQ(run(words).code, 0);
  EXPECT_THAT(contents(path("other.toml")), HasSubstr("vocab_size = 2000 "));
  const Outcome planned = run({"plan", path("other.toml"), "--ranks", "8", "--memory", "80GiB"});
  EXPECT_EQ(planned.code, 0) << planned.out;
  // Where another setting gives the vocabulary size, the question is omitted.
  const Outcome known = run({"config", "--yes", "--machine", "lumi", "--vocab-size", "9"});
  EXPECT_EQ(known.code, 2);
  EXPECT_THAT(known.out, HasSubstr("--vocab-size '9' answers a question that"));
}

// The output says that the batch, not memory, is the reason for splitting the model.
TEST_F(ConfigQuestions, SayThatABatchCutsTheModel) {
  const Outcome asked = run({"config", "--yes", "--machine", "lumi", "--model", "gpt3-125m",
                             "--batch", "12", "-o", path("cut.toml")});
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(
      contents(path("cut.toml")),
      HasSubstr("A batch of 12 sequences cannot be distributed evenly over 8 ranks; tp = 2, pp "
                "= 1 splits the model least (a batch that is a multiple of 8 needs no model "
                "parallelism).\n[parallel]"));
}

// With a file of accelerate, questions that it answers are not asked, its layout is kept, and the
// run behaves as it does there.
TEST_F(ConfigQuestions, ThatAFileOfAnotherSystemAnswersAreNotAsked) {
  prepare_data();
  write("ddp.yaml",
        "distributed_type: MULTI_CPU\nnum_processes: 2\nmixed_precision: 'no'\n"
        "deepspeed_config: {}\n");
  const std::string lines = "\ngpt\n2\n32\n4\n16\n" + path("corpus_text_document") + "\n" +
                            path("tok/vocab.json") + "\n8\n3\n1e-3\n";
  const Outcome asked = answer(lines, config("mine.toml") + " --from " + path("ddp.yaml"));
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(asked.out, HasSubstr("How many processes on this machine? 2 (from "));
  const std::string written = contents(path("mine.toml"));
  EXPECT_THAT(written, HasSubstr("precision = \"fp32\""));
  EXPECT_THAT(written, HasSubstr("zero = 0  # distributed_type"));
  EXPECT_EQ(run({"plan", path("mine.toml"), "--ranks", "2"}).code, 0);
}

TEST_F(ConfigQuestions, KeepTheLayoutOfTorchtitansFile) {
  write("job.toml",
        "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\n"
        "seq_len = 8192\nsteps = 1000\n[lr_scheduler]\nwarmup_steps = 2\n"
        "[parallelism]\ntensor_parallel_degree = 4\npipeline_parallel_degree = 2\n");
  const auto config_of = [&](const std::string& ranks, const std::string& file) {
    return run({"config", "--yes", "--from", path("job.toml"), "--machine", "cuda", "--nodes", "2",
                "--ranks", ranks, "-o", path(file)});
  };
  const Outcome asked = config_of("8", "mine.toml");
  ASSERT_EQ(asked.code, 0) << asked.out;
  const std::string written = contents(path("mine.toml"));
  for (const char* line : {"preset = \"llama3-8b\"", "tp = 4 ", "pp = 2 ", "warmup_iters = 1 "})
    EXPECT_THAT(written, HasSubstr(line));
  EXPECT_EQ(run({"plan", path("mine.toml"), "--ranks", "16", "--memory", "80GiB"}).code, 0);

  const Outcome wrong = config_of("3", "other.toml");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("has a product of degrees of 8, which does not divide 6 ranks"));
  write("job.toml", "[model]\nname = 'llama3'\nconverters = ['float8']\n[training]\nsteps = 9\n");
  const Outcome lost = config_of("8", "third.toml");
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.out, HasSubstr("some settings cannot be carried over: model.converters has "
                                  "'float8': unsupported fp8 recipes"));
}

TEST_F(ConfigQuestions, OfTwoNodesOfLumiAreAnsweredByFlags) {
  const Outcome asked = run({"config", "--yes", "--machine", "lumi", "--nodes", "2", "--model",
                             "gpt3-13b", "-o", path("lumi.toml")});
  ASSERT_EQ(asked.code, 0) << asked.out;
  // Derived values are explained.
  EXPECT_THAT(contents(path("lumi.toml")), HasSubstr("it would need"));
  const Outcome planned = run({"plan", path("lumi.toml"), "--ranks", "16", "--memory", "63.98GiB"});
  EXPECT_EQ(planned.code, 0) << planned.out;
}

// Whatever the answers contain, the file is valid TOML.
TEST_F(ConfigQuestions, AnswersComeBackFromTheFile) {
  const Outcome asked =
      run({"config", "--yes", "--data", "a\"]\nb\\c", "--tokenizer", "d\"e/tokenizer.model",
           "--model", "llama3-8b", "--machine", "lumi", "--lr", ".001", "-o", path("odd.toml")});
  ASSERT_EQ(asked.code, 0) << asked.out;
  EXPECT_THAT(contents(path("odd.toml")), HasSubstr("tokenizer = \"tiktoken\""));
  const Outcome planned = run({"plan", path("odd.toml"), "--ranks", "8"});
  EXPECT_EQ(planned.code, 0) << planned.out;
}

TEST_F(ConfigQuestions, OfBertProposeWhatItWasTrainedWith) {
  const Outcome asked = run({"config", "--yes", "--model", "bert-base", "--machine", "lumi"});
  ASSERT_EQ(asked.code, 0) << asked.out;
  for (const char* line : {"global_batch_size = 256\n", "iters = 1000000\n", "lr = 0.0001\n",
                           "decay_style = \"linear\"\nwarmup_iters = 10000\n"})
    EXPECT_THAT(asked.out, HasSubstr(line));
}

TEST_F(ConfigQuestions, WrongAnswersAreRefused) {
  const Outcome model = run({"config", "--yes", "--model", "gpt5"});
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.out, HasSubstr("--model 'gpt5': expected gpt, llama, or a preset: gpt2-124m"));
  const Outcome heads = run({"config", "--yes", "--heads", "7"});
  EXPECT_EQ(heads.code, 2);
  EXPECT_THAT(heads.out, HasSubstr("num_heads"));
  const Outcome large = run({"config", "--yes", "--machine", "lumi", "--model", "llama3-405b"});
  EXPECT_EQ(large.code, 2);
  EXPECT_THAT(large.out, HasSubstr("no layout of this model fits on 8 ranks of 63.98 GiB"));
  const Outcome ended = answer("this\n", config("x.toml"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.out, HasSubstr("--yes accepts all proposed values"));
  const Outcome batch = run({"config", "--yes", "--ranks", "3", "--batch", "16"});
  EXPECT_EQ(batch.code, 2);
  EXPECT_THAT(batch.out, HasSubstr("no layout of this model and batch exists for 3 ranks"));
  const Outcome unasked = run({"config", "--yes", "--nodes", "7"});
  EXPECT_EQ(unasked.code, 2);
  EXPECT_THAT(unasked.out, HasSubstr("--nodes '7' answers a question that"));
  EXPECT_EQ(run({"config", "--yes", "--lr", "1e-320"}).code, 2);
  EXPECT_EQ(run({"config", "-o", path("no/folder.toml")}).code, 2);  // before any question
  write("taken.toml", "");
  EXPECT_EQ(run({"config", "--yes", "-o", path("taken.toml")}).code, 2);
}

}  // namespace
}  // namespace trireme::testing_cli
