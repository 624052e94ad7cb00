// Tests of `trireme try`: from text to a model, without decisions; and what it refuses.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Returns sentences of a tiny grammar, with `between` after each.
std::string sentences(int count, const std::string& between) {
  const char* subjects[] = {"the ship", "a rower", "the wind", "one oar", "the captain"};
  const char* verbs[] = {"turns", "sees", "carries", "follows", "meets"};
  std::string text;
  unsigned state = 1;
  const auto draw = [&state] { return (state = state * 1664525u + 1013904223u) >> 16; };
  for (int i = 0; i < count; ++i) {
    text += std::string(subjects[draw() % 5]) + " " + verbs[draw() % 5] + " " +
            subjects[draw() % 5] + " " + std::to_string(draw() % 100) + " times." + between;
  }
  return text;
}

class Try : public Workspace {
 protected:
  Try() : before_(fs::current_path()) { fs::current_path(folder_); }
  ~Try() override { fs::current_path(before_); }

  void expect_refused(const std::vector<std::string>& arguments, const std::string& words) {
    std::vector<std::string> all = {"try"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(words), HasSubstr("trireme")));
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
    EXPECT_FALSE(fs::exists("runs"));
  }

 private:
  fs::path before_;
};

TEST_F(Try, TrainsOnATextAndSaysWhatWasLearned) {
  write("mine.txt", sentences(1500, "\n\n"));
  const Outcome outcome = run({"try", "mine.txt", "--steps", "4"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  for (const char* words :
       {"bits per byte, this model", "bits per byte, gzip -9", "primed with the training text",
        "training, steps", "early checkpoint (step-00000001)", "last checkpoint (step-00000004)",
        "train runs/try/try.toml train.iters=8", "convert --to hf runs/try runs/try-hf"})
    EXPECT_THAT(outcome.out, HasSubstr(words));
  const json summary = json::parse(contents("runs/try/summary.json"));
  EXPECT_GT(summary["bits_per_byte"], 0);
  EXPECT_GT(summary["gzip_bits_per_byte"], summary["xz_bits_per_byte"]);
  // The commands that it suggests work: the run continues, and is exported to Hugging Face.
  EXPECT_EQ(run({"train", "runs/try/try.toml", "train.iters=6"}).code, 0);
  EXPECT_EQ(run({"convert", "--to", "hf", "runs/try", "runs/try-hf"}).code, 0);
  EXPECT_TRUE(fs::exists("runs/try-hf/tokenizer.json"));
}

TEST_F(Try, TheSameCommandContinuesARunAndAnotherGetsAFolderOfItsOwn) {
  write("mine.txt", sentences(1500, " "));  // one line
  Program program({"try", "mine.txt", "--steps", "30"}, path("first.txt"));
  ASSERT_TRUE(program.runs_until([&] { return !contents("runs/try/metrics.jsonl").empty(); }));
  program.kill(SIGINT);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.code, 3) << stopped.out;
  EXPECT_THAT(stopped.out, HasSubstr("the same command resumes it"));

  const Outcome resumed = run({"try", "mine.txt", "--steps", "30"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("continuing the run in runs/try\n"));
  const Outcome again = run({"try", "mine.txt", "--steps", "30"});
  EXPECT_THAT(again.out, AllOf(HasSubstr("nothing to do"), HasSubstr("this model")));

  const Outcome other = run({"try", "mine.txt", "--steps", "1"});
  EXPECT_EQ(other.code, 0) << other.out;
  EXPECT_TRUE(fs::exists("runs/try-2/summary.json"));
  EXPECT_EQ(values_of(contents("runs/try/metrics.jsonl"), "loss").size(), 30);
  // An explicitly named folder is neither replaced nor swapped for another.
  const Outcome named = run({"try", "mine.txt", "--steps", "2", "--output", "runs/try"});
  EXPECT_EQ(named.code, 2);
  EXPECT_THAT(named.out, HasSubstr("a try of another text or with other flags"));
}

// The plan has far more steps than fit, as if the machine had become slower since it was made.
TEST_F(Try, EndsInTimeWithFewerStepsWhereTheMachineBecomesSlower) {
  write("mine.txt", sentences(1500, "\n\n"));
  const std::vector<std::string> command = {"try", "mine.txt", "--minutes", "0.02"};
  ASSERT_EQ(run(command).code, 0);
  std::string settings = contents("runs/try/try.toml");
  settings.replace(settings.find("\niters = "), 9, "\niters = 3000 # ");
  settings.replace(settings.find("warmup_iters = "), 15, "warmup_iters = 2000 # ");
  write("runs/try/try.toml", settings);
  json mark = json::parse(contents("runs/try/try.json"));
  mark.erase("steps");  // as if the machine had slowed down in the first run already
  write("runs/try/try.json", mark.dump());

  const Outcome slower = run(command);
  ASSERT_EQ(slower.code, 0) << slower.out;
  EXPECT_THAT(slower.out, HasSubstr("the machine has become slower"));
  const std::int64_t steps = json::parse(contents("runs/try/try.json"))["steps"];
  EXPECT_LT(steps, 3000);
  EXPECT_EQ(json::parse(contents("runs/try/summary.json"))["steps"], steps);
  // The learning rate reaches the final value of any run.
  EXPECT_NEAR(values_of(contents("runs/try/metrics.jsonl"), "lr").back(), 6e-5, 6e-4);
  EXPECT_THAT(run(command).out, HasSubstr("nothing to do"));
}

TEST_F(Try, HoldsOutATwentiethOfAnyText) {
  // Lines without blank ones, one long line, and paragraphs of which every other one is short.
  std::string uneven;
  for (int i = 0; i < 400; ++i) uneven += (i % 2 ? "x" : sentences(8, " ")) + "\n\n";
  for (const std::string& text : {sentences(1500, "\n"), sentences(1500, " "), uneven}) {
    write("mine.txt", text);
    fs::remove_all("runs");
    const Outcome outcome = run({"try", "mine.txt", "--steps", "1"});
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    const std::size_t held_out = contents("runs/try/data/heldout.txt").size();
    EXPECT_GT(held_out, text.size() / 45);
    EXPECT_LT(held_out, text.size() / 10);
    EXPECT_NEAR(contents("runs/try/data/train.txt").size() + held_out, text.size(), 500);
  }
}

TEST_F(Try, RefusesWhatIsNoText) {
  expect_refused({"missing.txt"}, "'missing.txt'");
  write("empty.txt", "");
  expect_refused({"empty.txt"}, "'empty.txt' is empty");
  write("blank.txt", std::string(50'000, '\n'));
  expect_refused({"blank.txt"}, "blanks");
  write("small.txt", sentences(20, "\n"));
  expect_refused({"small.txt"}, "at least");
  write("zeros", std::string(50'000, '\0'));
  expect_refused({"zeros"}, "binary");
  expect_refused({TRIREME_BINARY}, "binary");
  write("lines.jsonl", "{\"text\": \"" + sentences(1500, " ") + "\"}\n");
  expect_refused({"lines.jsonl"}, "JSON");
  fs::create_directory("texts");
  expect_refused({"texts"}, "is a folder");
  write("mine.txt", sentences(1500, "\n"));
  expect_refused({"mine.txt", "empty.txt"}, "'empty.txt' is empty");
}

TEST_F(Try, RefusesFlagsAndFoldersThatAreNotItsOwn) {
  write("mine.txt", sentences(1500, "\n"));
  expect_refused({"mine.txt", "--stepz", "3"}, "--stepz");
  expect_refused({"mine.txt", "--steps", "0"}, "--steps");
  expect_refused({"mine.txt", "--minutes", "nan"}, "--minutes");
  expect_refused({"mine.txt", "--full", "--minutes", "2"}, "--full");
  expect_refused({"mine.txt", "--steps", "2", "--output", "mine.txt"}, "is not of `trireme try`");
  fs::create_directories("own/data");
  expect_refused({"mine.txt", "--steps", "2", "--output", "own"}, "is not of `trireme try`");
  EXPECT_FALSE(fs::exists("own/try.json"));
}

}  // namespace
}  // namespace trireme::testing_cli
