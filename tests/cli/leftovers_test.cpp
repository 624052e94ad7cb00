// Tests that commands which are stopped or cannot write leave no unfinished files.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "program.h"

namespace trireme::testing_cli {
namespace {

// While it exists, files of child processes cannot grow beyond `bytes`, which acts as a full disk.
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

  // Runs a command until one of its output files exists, then sends it a signal that kills it.
  void stop(const std::vector<std::string>& arguments, const std::string& output, int signal) {
    Program program(arguments, path("output.txt"));
    program.runs_until([&] { return fs::exists(path(output)); });
    program.kill(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, -signal) << outcome.out;
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
  stop({"preprocess", "--input", path("long.txt"), "--documents", "line", "--workers", "1",
        "--tokenizer-type", "gpt2", "--tokenizer-model", path("tok"), "--output-prefix",
        path("made/here/long")},
       "made/here/long_text_document.bin.tmp", SIGTERM);
  EXPECT_THAT(entries("made/here"), testing::IsEmpty());
}

TEST_F(Leftovers, ScoreThatIsStopped) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=4"}).code, 0);
  std::string lines;
  for (int i = 0; i < 200000; ++i) lines += "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n";
  write("ids.jsonl", lines);
  fs::create_directory(path("made"));
  stop({"score", path("run"), "--ids", path("ids.jsonl"), "--output", path("made/l.safetensors")},
       "made/l.safetensors.tmp", SIGINT);
  EXPECT_THAT(entries("made"), testing::IsEmpty());
}

TEST_F(Leftovers, MergeThatIsStopped) {
  // One document of 2^28 zeros in a sparse file.
  const std::int32_t length = 1 << 28;
  const std::int64_t numbers[] = {0, 0, 1};
  std::string index{"MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 34};
  index.append(reinterpret_cast<const char*>(&length), sizeof length);
  index.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  write("long.idx", index);
  write("long.bin", "");
  fs::resize_file(path("long.bin"), std::uintmax_t{2} * length);
  fs::create_directory(path("made"));
  stop({"data", "merge", path("long"), path("long"), "--output-prefix", path("made/merged")},
       "made/merged.bin.tmp", SIGTERM);
  EXPECT_THAT(entries("made"), testing::IsEmpty());
}

TEST_F(Leftovers, ConvertThatIsStopped) {
  const std::int64_t vocab = 50000, hidden = 1024;
  fs::create_directory(path("hf"));
  write("hf/config.json",
        R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 1024, "n_head": 16, "n_positions": 64,
            "vocab_size": 50000})");
  {
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors = {
        {"wte.weight", {vocab, hidden}},
        {"wpe.weight", {64, hidden}},
        {"h.0.ln_1.weight", {hidden}},
        {"h.0.ln_1.bias", {hidden}},
        {"h.0.attn.c_attn.weight", {hidden, 3 * hidden}},
        {"h.0.attn.c_attn.bias", {3 * hidden}},
        {"h.0.attn.c_proj.weight", {hidden, hidden}},
        {"h.0.attn.c_proj.bias", {hidden}},
        {"h.0.ln_2.weight", {hidden}},
        {"h.0.ln_2.bias", {hidden}},
        {"h.0.mlp.c_fc.weight", {hidden, 4 * hidden}},
        {"h.0.mlp.c_fc.bias", {4 * hidden}},
        {"h.0.mlp.c_proj.weight", {4 * hidden, hidden}},
        {"h.0.mlp.c_proj.bias", {hidden}},
        {"ln_f.weight", {hidden}},
        {"ln_f.bias", {hidden}}};
    std::string header = "{";
    std::int64_t at = 0;
    for (const auto& [name, shape] : tensors) {
      const std::int64_t bytes = 4 * shape[0] * (shape.size() > 1 ? shape[1] : 1);
      header +=
          fmt::format("{}\"{}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                      at ? "," : "", name, fmt::join(shape, ","), at, at + bytes);
      at += bytes;
    }
    header += "}";
    const std::uint64_t length = header.size();
    write("hf/model.safetensors",
          std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
    fs::resize_file(path("hf/model.safetensors"), 8 + length + static_cast<std::uint64_t>(at));
  }
  stop({"convert", "--from", "hf", path("hf"), path("run")}, "run/checkpoints", SIGTERM);
  EXPECT_FALSE(fs::exists(path("run")));
}

}  // namespace
}  // namespace trireme::testing_cli
