// Tests that commands which plan, write or start a run share the same rules; and parser messages.
#include <gmock/gmock.h>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Rules : public Workspace {
 protected:
  // The configuration has no data and tokenizer files, which plans do not read.
  void write_config() const { write("run.toml", configuration() + "[parallel]\nzero = 0\n"); }

  // Returns the commands that take a file and overrides, on two ranks.
  std::vector<std::vector<std::string>> commands() const {
    return {{"train", "--nproc", "2"},
            {"plan", "--ranks", "2"},
            {"plan", "--search", "--machine", "h100", "--ranks", "2"},
            {"profile", "--nproc", "2"},
            {"slurm", "--cluster", "generic", "--nodes", "1", "--ranks-per-node", "2",
             "--cores-per-rank", "1", "--time", "1:00:00"}};
  }
  Outcome run_with(std::vector<std::string> command, const std::vector<std::string>& overrides) {
    command.push_back(path("run.toml"));
    command.push_back("run.dir=" + path("run"));
    command.insert(command.end(), overrides.begin(), overrides.end());
    return run(command);
  }
};

TEST_F(Rules, AreThoseOfTrainForEveryCommand) {
  prepare_data();
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{R"(data.path=[0.5,"/a",-0.5,"/b"])"}, "weights are positive numbers"},
      {{"data.path=[]", R"(data.train_path=[0,"/a",1,"/b"])"},
       "data.train_path: expected the weight of"},
      {{"data.path=[]", R"(data.sources=["0.3","a.jsonl","nan","b.jsonl"])"},
       "data.sources: expected the weight of"},
      {{"run.device=hip", "offload.optimizer=file", "offload.path=/tmp", "checkpoint.async=false"},
       "requires run.device = \"cpu\""},
      {{"run.precision=fp64", "parallel.numerics=exact"}, "sums 32-bit gradients"}};
  for (const std::vector<std::string>& command : commands()) {
    const bool on_gpu = command[1] == "--search";
    for (const auto& [overrides, message] : wrong) {
      if (on_gpu && overrides[0].starts_with("run."))
        continue;  // the machine determines its device
      const Outcome outcome = run_with(command, overrides);
      EXPECT_EQ(outcome.code, 2) << command[0] << ": " << outcome.out;
      EXPECT_THAT(outcome.out, HasSubstr(message)) << command[0];
    }
  }
  // An impossible layout for two ranks.
  for (const std::vector<std::string>& command : commands()) {
    if (command[1] == "--search") continue;  // the search chooses it
    const Outcome outcome = run_with(command, {"parallel.tp=3"});
    EXPECT_EQ(outcome.code, 2) << command[0] << ": " << outcome.out;
  }
}

// Otherwise the job would be refused only after waiting in the queue.
TEST_F(Rules, SlurmRefusesAFolderOfAnotherProgram) {
  prepare_data();
  fs::create_directories(path("run/global_step1"));
  write("run/latest", "global_step1");
  write("run/global_step1/mp_rank_00_model_states.pt", "x");
  const Outcome trained = run_with({"train", "--nproc", "2"}, {});
  const Outcome written = run_with(commands().back(), {});
  EXPECT_EQ(trained.code, 2) << trained.out;
  EXPECT_EQ(written.code, 2) << written.out;
  EXPECT_THAT(written.out, HasSubstr("run.dir"));
}

TEST_F(Rules, LongArgumentsAreRefusedInALine) {
  write_config();
  const std::string long_word(60'000, '9');
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"plan", path("run.toml"), "--ranks", long_word},
        {"plan", path("run.toml"), "--" + long_word},
        {"train", path("run.toml"), "--log-level", long_word},
        {"eval", path("run"), "--documents", long_word},
        {"doctor", "--device", long_word},
        {long_word}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << outcome.out.substr(0, 200);
    EXPECT_THAT(outcome.out, HasSubstr(" characters)")) << outcome.out.substr(0, 200);
    EXPECT_LT(outcome.out.size(), 600u);
  }
}

TEST_F(Rules, MessagesNameTheFlagAndItsValues) {
  write_config();
  const auto message = [&](std::vector<std::string> command) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    return outcome.out;
  };
  EXPECT_THAT(message({"plan", path("run.toml"), "--ranks", "0"}),
              HasSubstr("--ranks must be a number from 1 to 16777216, not '0'"));
  EXPECT_THAT(message({"plan", path("run.toml"), "--ranks", "two = 2"}),
              HasSubstr("not 'two = 2'"));
  EXPECT_THAT(
      message({"train", path("run.toml"), "--log-level", "a: b not in {c}"}),
      HasSubstr("--log-level must be one of error, warning, info, debug, not 'a: b not in {c}'"));
  EXPECT_THAT(message({"eval", path("run"), "--documents", "pages"}),
              HasSubstr("--documents must be one of "));
  EXPECT_THAT(message({"tokenizer", "encode", "--tokenizer-type", "gpt2"}),
              HasSubstr("give one of --text, --file, --jsonl"));
  EXPECT_THAT(message({"plan", path("run.toml"), "--ranks"}), HasSubstr("requires a value"));
  EXPECT_THAT(message({"config", "--template", "--presets"}), HasSubstr("excludes"));
}

TEST_F(Rules, HelpHasNoWordsOfTheParser) {
  for (const char* command : {"eval", "preprocess", "config", "plan", "doctor", "convert"}) {
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.code, 0);
    for (const char* word : {"ENUM", "} OR {", "->", "Option Group", "one-of-two"})
      EXPECT_THAT(help.out, Not(HasSubstr(word))) << command;
  }
}

// Clusters have the same names in all commands.
TEST_F(Rules, ClustersHaveOneName) {
  write_config();
  for (const char* name : {"lumi", "lumi-g"}) {
    const Outcome planned = run(
        {"plan", path("run.toml"), "--machine", name, "run.device=hip", "model.vocab_size=300"});
    EXPECT_EQ(planned.code, 0) << planned.out;
    EXPECT_THAT(planned.out, HasSubstr("on lumi-g"));
    const Outcome script =
        run({"slurm", path("run.toml"), "--cluster", name, "--nodes", "1", "--time", "1:00:00",
             "--account", "x", "run.device=hip", "model.vocab_size=300",
             "train.global_batch_size=16", "run.dir=" + path("run")});
    EXPECT_EQ(script.code, 0) << script.out;
    EXPECT_EQ(run({"config", "-y", "--machine", name, "--model", "gpt2-355m", "--nodes", "1"}).code,
              0);
  }
}

}  // namespace
}  // namespace trireme::testing_cli
