// Tests that a run's folder keeps its tokenizer's files, and that runs without copies find them
// relative to the folder they were started in.
#include "data/configured_tokenizer.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class KeptTokenizer : public testing::Test {
 protected:
  KeptTokenizer() { fs::create_directories(folder_ / "tok"); }
  ~KeptTokenizer() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string in_run(const std::string& name) const {
    return (folder_ / "run/tokenizer" / name).string();
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("trireme_kept_" + std::to_string(::getpid()));
};

TEST_F(KeptTokenizer, CopiesAreUsedWhereverTheRunIs) {
  Config saved;
  saved.data.tokenizer = "gpt2";
  saved.data.vocab_file = write("tok/vocab.json", "v");
  saved.data.merge_file = write("tok/merges.txt", "m");
  keep_tokenizer(saved, folder_ / "run");
  EXPECT_EQ(read_file(in_run("vocab.json")), "v");
  Config config = saved;
  locate_tokenizer(config, saved, folder_ / "run");
  EXPECT_EQ(config.data.vocab_file, in_run("vocab.json"));
  EXPECT_EQ(config.data.merge_file, in_run("merges.txt"));
  config.data.vocab_file = "another";
  locate_tokenizer(config, saved, folder_ / "run");
  EXPECT_EQ(config.data.vocab_file, "another") << "the caller's choice counts";
  write("tok/vocab.json", "v2");
  keep_tokenizer(saved, folder_ / "run");
  EXPECT_EQ(read_file(in_run("vocab.json")), "v2") << "the copy follows the run's tokenizer";
}

TEST_F(KeptTokenizer, FilesOfTheSameNameStayApart) {
  Config saved;
  saved.data.tokenizer = "gpt2";
  saved.data.vocab_file = write("a/x", "v");
  saved.data.merge_file = write("b/x", "m");
  keep_tokenizer(saved, folder_ / "run");
  Config config = saved;
  locate_tokenizer(config, saved, folder_ / "run");
  EXPECT_EQ(read_file(config.data.vocab_file), "v");
  EXPECT_EQ(read_file(config.data.merge_file), "m");
}

TEST_F(KeptTokenizer, AFolderIsCopiedWithWhatBelongsToIt) {
  Config saved;
  saved.data.tokenizer = "hf";
  write("tok/tokenizer.json", "t");
  write("tok/tokenizer_config.json", "c");
  saved.data.tokenizer_model = (folder_ / "tok/").string();
  keep_tokenizer(saved, folder_ / "run");
  EXPECT_EQ(read_file(in_run("tok/tokenizer.json")), "t");
  EXPECT_EQ(read_file(in_run("tok/tokenizer_config.json")), "c");
  Config config = saved;
  locate_tokenizer(config, saved, folder_ / "run");
  EXPECT_EQ(config.data.tokenizer_model, in_run("tok"));
  saved.data.tokenizer_model = (folder_ / "tok/tokenizer.json").string();
  keep_tokenizer(saved, folder_ / "other");
  EXPECT_EQ(read_file(folder_ / "other/tokenizer/tokenizer_config.json"), "c");
}

TEST_F(KeptTokenizer, RunsWithoutCopiesAreFoundFromWhereTheyWereStarted) {
  write("start/tok/tokenizer.model", "t");
  fs::create_directories(folder_ / "start/runs/a");
  Config saved;
  saved.run.dir = "./runs/a";
  saved.data.tokenizer = "llama2";
  saved.data.tokenizer_model = "tok/tokenizer.model";
  Config config = saved;
  locate_tokenizer(config, saved, folder_ / "start/runs/a");
  EXPECT_EQ(config.data.tokenizer_model, (folder_ / "start/tok/tokenizer.model").string());
  config = saved;
  EXPECT_THAT([&] { locate_tokenizer(config, saved, folder_ / "start/runs/b"); },
              testing::ThrowsMessage<Error>(AllOf(HasSubstr("tok/tokenizer.model"),
                                                  HasSubstr("--set data.tokenizer_model=FILE"))));
}

}  // namespace
}  // namespace trireme
