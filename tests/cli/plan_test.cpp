// Tests of `trireme plan`: its JSON output, memory verdicts, step times and layout search.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Plan : public Workspace {};

TEST_F(Plan, TellsProgramsWhatItTellsPeople) {
  prepare_data();
  const Outcome outcome = run({"plan", path("run.toml"), "--ranks", "8", "--json", "parallel.pp=2",
                               "model.num_layers=4", "parallel.schedule=zbv",
                               "train.micro_batch_size=1", "train.global_batch_size=16"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto plan = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(plan.at("ranks"), 8);
  EXPECT_EQ(plan.at("degrees").at("dp"), 4);
  EXPECT_EQ(plan.at("degrees").at("pp"), 2);
  EXPECT_EQ(plan.at("schedule"), "zbv");
  EXPECT_EQ(plan.at("virtual_stages"), 2);
  EXPECT_EQ(plan.at("micro_batches"), 4);
  ASSERT_EQ(plan.at("pipeline_ranks").size(), 2u);
  // Each rank runs 4 micro-batches x 2 chunks x 3 passes of equal length. ZBV never stalls; the
  // second rank waits for the first rank's first pass, and the first rank as long at the end.
  EXPECT_NEAR(plan.at("bubble").get<double>(), 1.0 / 25, 1e-12);
  for (const auto& rank : plan["pipeline_ranks"]) {
    EXPECT_EQ(rank.at("micro_batches_held"), 2);  // zbv keeps as many as there are stages
    EXPECT_GT(rank.at("messages_sent"), 0);
    EXPECT_NEAR(rank.at("idle").get<double>(), 1.0 / 25, 1e-12);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : rank.at("memory").items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(rank.at("memory_total"), sum);
    // No tensor parallelism, ZeRO 0: only activations and gradients are sent.
    EXPECT_EQ(rank.at("bytes_sent").at("tensor"), 0);
    EXPECT_EQ(rank.at("bytes_sent").at("parameters"), 0);
    EXPECT_GT(rank.at("bytes_sent").at("pipeline"), 0);
    EXPECT_GT(rank.at("bytes_sent").at("gradients"), 0);
  }
}

// The planned startup messages and files match those of real runs, which log both numbers.
TEST_F(Plan, CountsWhatAStartSendsAndOpens) {
  prepare_data();
  for (const bool resumes : {false, true}) {
    // ZeRO is off: with it, parameters are sent before the first step, as in every step.
    std::vector<std::string> settings = {"train.global_batch_size=8", "checkpoint.async=false",
                                         "optimizer.warmup_iters=1",
                                         resumes ? "train.iters=4" : "train.iters=2"};
    std::vector<std::string> arguments = {
        "plan", path("run.toml"), "--ranks", "4", "--json", "--startup", "run.dir=" + path("run")};
    if (resumes) arguments.emplace_back("--resume");
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const Outcome planned = run(arguments);
    ASSERT_EQ(planned.code, 0) << planned.out;
    const auto start = nlohmann::json::parse(planned.out).at("startup");
    arguments = {"train", path("run.toml"),        "--nproc", "4", "--log-level",
                 "debug", "run.dir=" + path("run")};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const Outcome trained = run(arguments);
    ASSERT_EQ(trained.code, 0) << trained.out;
    const std::size_t at = trained.out.find("start-up: this rank opened");
    ASSERT_NE(at, std::string::npos) << trained.out;
    int files = 0, groups = 0, messages = 0;
    double amount = 0;
    char unit[8] = {};
    ASSERT_EQ(std::sscanf(trained.out.c_str() + at,
                          "start-up: this rank opened %d files and read %lf %7[A-Za-z], joined "
                          "%d groups and sent %d messages",
                          &files, &amount, unit, &groups, &messages),
              5)
        << trained.out.substr(at, 200);
    EXPECT_EQ(start.at("groups"), groups);
    // While the first rank opens the data, it sends the others a notice every tenth of a
    // second.
    EXPECT_GE(messages, start.at("messages_of_rank").get<int>());
    EXPECT_LE(messages, start.at("messages_of_rank").get<int>() + 10);
    // Rank 0 additionally keeps copies of the tokenizer's files and its own record.
    EXPECT_GE(files, start.at("files_total").at("by_rank").get<int>());
    EXPECT_LE(files, start.at("files_total").at("by_rank").get<int>() + 8);
  }
}

// The time of a step on a machine with known figures, and its timeline.
TEST_F(Plan, TellsTheTimeOfAStep) {
  write("gpu.toml",
        "[model]\npreset = \"gpt2-124m\"\n[train]\niters = 1\n[optimizer]\nlr = 1e-4\n"
        "[run]\ndevice = \"hip\"\n");
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"plan", path("gpu.toml"), "--ranks", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Outcome text = with({"--machine", "lumi-g", "--trace", path("step.json")});
  EXPECT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out, HasSubstr("tokens/s per device"));
  const Outcome json = with({"--machine", "lumi-g", "--json"});
  ASSERT_EQ(json.code, 0) << json.out;
  const auto time = nlohmann::json::parse(json.out).at("time");
  EXPECT_GT(time.at("seconds"), 0);
  EXPECT_GT(time.at("band"), 0);
  std::ifstream trace(path("step.json"));
  EXPECT_TRUE(nlohmann::json::parse(trace).is_array());
  EXPECT_EQ(with({"--machine", "lumi-g", "--stack", "jax"}).code, 2);
  EXPECT_EQ(with({"--trace", path("step.json")}).code, 2);
  EXPECT_EQ(with({"--machine", "lumi-g", "run.device=cpu"}).code, 2);
}

// The fastest layouts that fit, for people and for programs, and the case that none fits.
TEST_F(Plan, LooksForLayouts) {
  write(
      "gpu.toml",
      "[model]\npreset = \"gpt2-124m\"\nnum_layers = 2\n[train]\niters = 1\nglobal_batch_size = 4\n"
      "[optimizer]\nlr = 1e-4\n[run]\ndevice = \"hip\"\n");
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"plan", path("gpu.toml"), "--search"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Outcome text =
      with({"--machine", "lumi-g", "--devices", "2", "--pictures", path("pictures")});
  EXPECT_EQ(text.code, 0) << text.out;
  for (const char* part : {"the fastest layouts on 2 devices", "the second takes",
                           "the usual choice by model size for 1B", "were simulated",
                           "[parallel]\ntp = ", "micro_batch_size = "})
    EXPECT_THAT(text.out, HasSubstr(part));
  for (const char* name : {"memory.svg", "time.svg", "schedule.svg", "layouts.svg"})
    EXPECT_THAT(contents(path(std::string("pictures/") + name)), HasSubstr("</svg>")) << name;
  const Outcome json = with({"--machine", "lumi-g", "--devices", "2", "--json"});
  ASSERT_EQ(json.code, 0) << json.out;
  const auto search = nlohmann::json::parse(json.out);
  EXPECT_GT(search.at("best").at(0).at("seconds"), 0);
  EXPECT_EQ(search.at("best").size(), 5u);

  const Outcome full = with({"--machine", "lumi-g", "--devices", "2", "--memory", "200MiB"});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.out, HasSubstr("no layout of this model fits on 2 devices"));
  const std::vector<std::pair<std::vector<std::string>, const char*>> wrong = {
      {{"--machine", "lumi-g"}, "add --devices N"},
      {{"--machine", "nowhere", "--devices", "2"}, "neither a file nor a known machine"},
      {{"--devices", "2", "run.device=cpu"}, "--search requires a machine with speed figures"},
      {{"--machine", "lumi-g", "--devices", "2", "train.global_batch_size=0"},
       "--search requires train.global_batch_size"},
      {{"--machine", "lumi-g", "--devices", "2", "--stack", "torchtitan"}, "remove --stack"},
      {{"--machine", "lumi-g", "--devices", "64", "train.global_batch_size=3"},
       "is not possible with any layout on 64 ranks"}};
  for (const auto& [more, message] : wrong) {
    const Outcome outcome = with(more);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  }
}

// A verdict with an exit code, its assumptions, and what would fit.
TEST_F(Plan, JudgesAMemory) {
  write("big.toml",
        "[model]\npreset = \"gpt3-13b\"\n[train]\niters = 1\n[optimizer]\nlr = 1e-4\n"
        "[parallel]\ntp = 1\n");
  const auto with = [&](const std::string& memory, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"plan", path("big.toml"), "--ranks",
                                          "16",   "--memory",       memory};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Outcome no = with("64GiB", {"parallel.zero=1"});
  EXPECT_EQ(no.code, 1) << no.out;
  EXPECT_THAT(no.out, HasSubstr("verdict: does not fit 64.00 GiB"));
  EXPECT_THAT(no.out, HasSubstr("the largest regions: gradients"));
  EXPECT_THAT(no.out, HasSubstr("    parallel.zero=2"));
  const Outcome yes = with("64GiB", {"parallel.zero=2"});
  EXPECT_EQ(yes.code, 0) << yes.out;
  EXPECT_THAT(yes.out, HasSubstr("verdict: fits 64.00 GiB"));
  const Outcome none = with("1GiB", {"--json"});
  EXPECT_EQ(none.code, 1);
  const auto verdict = nlohmann::json::parse(none.out).at("verdict");
  EXPECT_FALSE(verdict.at("fits"));
  EXPECT_EQ(verdict.at("limit"), 1 << 30);
  EXPECT_GT(verdict.at("needed"), verdict.at("planned"));
  EXPECT_TRUE(verdict.at("alternatives").empty());
  const Outcome wrong = with("much", {});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("expected a size of memory such as 64GiB"));
}

TEST_F(Plan, NeedsNoTokenizerFiles) {
  const std::string rest = "[train]\niters = 1\n[optimizer]\nlr = 1e-4\n";
  write("plan.toml",
        "[model]\nnum_layers = 2\nhidden_size = 64\nnum_heads = 4\nseq_length = 32\n"
        "[data]\ntokenizer = \"gpt2\"\nmerge_file = \"nowhere/merges.txt\"\n" +
            rest);
  const Outcome usual = run({"plan", path("plan.toml")});
  EXPECT_EQ(usual.code, 0) << usual.out;
  EXPECT_THAT(usual.out,
              HasSubstr("note: planned with the vocabulary size 50257 of the usual gpt2"));
  const Outcome given = run({"plan", path("plan.toml"), "model.vocab_size=1000"});
  EXPECT_EQ(given.code, 0) << given.out;
  EXPECT_THAT(given.out, Not(HasSubstr("note:")));
  const Outcome other = run({"plan", path("plan.toml"), "data.tokenizer=hf"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.out, HasSubstr("set model.vocab_size"));
}

// Returns the processor time of all ended children, which does not depend on other load.
double processor_seconds_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec) / 1e6;
}

// A hundred thousand micro-batches on 128 stages, and thousands of layers: seconds, not minutes.
TEST_F(Plan, OfLongStepsAndDeepModelsTakesSeconds) {
  write("deep.toml",
        "[model]\nnum_layers = 4096\nhidden_size = 64\nnum_heads = 4\nseq_length = 32\n"
        "vocab_size = 1000\n[train]\niters = 1\n[optimizer]\nlr = 1e-4\n");
  for (const std::string layout :
       {"parallel.pp=1", "parallel.pp=128 train.global_batch_size=100000"}) {
    const double begin = processor_seconds_of_children();
    std::vector<std::string> arguments = {"plan", path("deep.toml")};
    for (std::size_t at = 0; at < layout.size();) {
      const std::size_t end = std::min(layout.find(' ', at), layout.size());
      arguments.push_back(layout.substr(at, end - at));
      at = end + 1;
    }
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    // Both used to take minutes; the slower one takes five seconds.
    EXPECT_LT(processor_seconds_of_children() - begin, 15) << layout;
  }
}

TEST_F(Plan, AbsurdSizesAreRefusedAtOnce) {
  prepare_data();
  for (const std::string command : {"plan", "train"}) {
    for (const auto& [override_text, message] :
         {std::pair{"model.seq_length=1000000000", "model.seq_length = 1000000000 is out of range"},
          std::pair{"model.head_dim=512", "model.head_dim = 512 exceeds 256"},
          std::pair{"train.micro_batch_size=268435456", "train.micro_batch_size = 268435456"}}) {
      const double begin = processor_seconds_of_children();
      const Outcome outcome =
          run({command, path("run.toml"), override_text, "train.global_batch_size=0"});
      EXPECT_EQ(outcome.code, 2) << outcome.out;
      EXPECT_THAT(outcome.out, HasSubstr(message));
      EXPECT_LT(processor_seconds_of_children() - begin, 10);
    }
  }
  // Memory is checked before the data order is built.
  const Outcome large =
      run({"train", path("run.toml"), "model.hidden_size=65536", "model.num_heads=256"});
  EXPECT_EQ(large.code, 2) << large.out;
  EXPECT_THAT(large.out, HasSubstr("but this machine has"));
  const Outcome limited = run({"train", path("run.toml"), "run.memory=1KiB"});
  EXPECT_EQ(limited.code, 2) << limited.out;
  EXPECT_THAT(limited.out, HasSubstr("run.memory allows 1.00 KiB"));
}

}  // namespace
}  // namespace trireme::testing_cli
