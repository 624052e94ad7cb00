// Commands that are stopped or cannot write leave nothing half done behind.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "program.h"

namespace trireme::testing_cli {
namespace {

// While it lives, files that children write cannot grow beyond `bytes`: as good as a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

class Leftovers : public Workspace {
 protected:
  std::vector<std::string> entries(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder)))
      names.push_back(entry.path().filename().string());
    return names;
  }
};

TEST_F(Leftovers, ConvertAndScoreOnAFullDisk) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=4"}).code, 0);
  write("ids.jsonl", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n");
  fs::create_directory(path("scores"));
  const std::vector<std::string> convert = {"convert", "--to", "hf", path("run"), path("hf")};
  const std::vector<std::string> score = {
      "score", path("run"), "--ids", path("ids.jsonl"), "--output", path("scores/l.safetensors")};
  {
    const SmallFiles limit(12000);
    const Outcome converted = run(convert);
    EXPECT_EQ(converted.code, 1) << converted.out;
    EXPECT_FALSE(fs::exists(path("hf")));
    fs::create_directory(path("hf"));
    EXPECT_EQ(run(convert).code, 1);
    EXPECT_THAT(entries("hf"), testing::IsEmpty());
    const Outcome scored = run(score);
    EXPECT_EQ(scored.code, 1) << scored.out;
    EXPECT_THAT(entries("scores"), testing::IsEmpty());
  }
  const Outcome again = run(convert);
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(run(score).code, 0);
  EXPECT_THAT(entries("scores"), testing::ElementsAre("l.safetensors"));
}

TEST_F(Leftovers, TokenizerOnAFullDisk) {
  write("corpus.txt", "the ship sees the wind and the wind sees the ship\n");
  const SmallFiles limit(1000);
  const Outcome outcome = run({"tokenizer", "train", "--input", path("corpus.txt"), "--vocab-size",
                               "260", "--output", path("tok")});
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(entries("tok"), testing::IsEmpty());
}

TEST_F(Leftovers, PreprocessThatIsStopped) {
  prepare_data();
  std::string lines;
  for (int i = 0; i < 1000000; ++i) lines += "the ship sees the wind " + std::to_string(i) + "\n";
  write("long.txt", lines);
  Program program({"preprocess", "--input", path("long.txt"), "--documents", "line", "--workers",
                   "1", "--tokenizer-type", "gpt2", "--tokenizer-model", path("tok"),
                   "--output-prefix", path("made/here/long")},
                  path("output.txt"));
  while (program.running() && !fs::exists(path("made/here/long_text_document.bin.tmp")))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  program.kill(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, -SIGTERM) << outcome.out;
  EXPECT_THAT(entries("made/here"), testing::IsEmpty());
}

}  // namespace
}  // namespace trireme::testing_cli
