// Tests of `trireme inspect` on every kind of input that it supports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/writer.h"
#include "cli/commands.h"
#include "data/indexed_writer.h"
#include "formats/torch/forged.h"
#include "formats/torch/writer.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Inspect : public testing::Test {
 protected:
  Inspect() { fs::create_directories(folder_); }
  ~Inspect() override { fs::remove_all(folder_); }

  static std::string run(const std::vector<std::string>& arguments) {
    CLI::App app;
    cli::add_inspect(app);
    std::vector<std::string> reversed{arguments.rbegin(), arguments.rend()};
    reversed.push_back("inspect");
    testing::internal::CaptureStdout();
    try {
      app.parse(reversed);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }
  static nlohmann::json run_json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    return nlohmann::json::parse(run(arguments));
  }
  static std::string refusal(const std::string& path) {
    try {
      run({path});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "accepted";
  }
  void save_checkpoint_here() {
    const float values[4] = {1, -3, NAN, std::numeric_limits<float>::infinity()};
    const SourceSlice slice{"weight",
                            DType::f32,
                            {2, 2},
                            Region::whole({2, 2}),
                            reinterpret_cast<const std::byte*>(values)};
    save_checkpoint({folder_ / "checkpoints", "trireme 1.2.3"}, {.step = 17}, {&slice, 1});
  }

  fs::path folder_ =
      fs::path(testing::TempDir()) / ("trireme_inspect_" + std::to_string(::getpid()));
};

TEST_F(Inspect, Checkpoint) {
  save_checkpoint_here();
  EXPECT_THAT(run({folder_.string()}),
              testing::AllOf(HasSubstr("step 17"), HasSubstr("trireme 1.2.3"),
                             HasSubstr("all checksums are correct")));
  const nlohmann::json json = run_json({folder_.string(), "--stats"});
  EXPECT_EQ(json.at("kind"), "checkpoint");
  EXPECT_EQ(json.at("elements"), 4);
  const nlohmann::json tensor = json.at("tensors").at(0);
  EXPECT_EQ(tensor.at("shape"), (std::vector{2, 2}));
  EXPECT_EQ(tensor.at("min"), -3);
  EXPECT_EQ(tensor.at("max"), 1);
  EXPECT_EQ(tensor.at("mean"), -1);
  EXPECT_EQ(tensor.at("nan"), 1);
  EXPECT_EQ(tensor.at("inf"), 1);
}

TEST_F(Inspect, DamagedCheckpoint) {
  save_checkpoint_here();
  const fs::path shard = folder_ / "checkpoints/step-00000017/shard-00000.safetensors";
  std::fstream(shard, std::ios::in | std::ios::out | std::ios::ate).seekp(-1, std::ios::end).put(9);
  EXPECT_THAT(refusal(folder_.string()), HasSubstr("'weight'"));
}

TEST_F(Inspect, Safetensors) {
  const fs::path path = folder_ / "model.safetensors";
  SafetensorsWriter writer(path, {{"a", DType::u8, {3}}}, {{"format", "pt"}});
  writer.write(0, 0, "\1\2\6", 3);
  writer.finish();
  EXPECT_THAT(run({path.string(), "--stats"}), testing::AllOf(HasSubstr("[3]"), HasSubstr("U8")));
  const nlohmann::json json = run_json({path.string(), "--stats"});
  EXPECT_EQ(json.at("metadata").at("format"), "pt");
  EXPECT_EQ(json.at("tensors").at(0).at("mean"), 3);
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_THAT(refusal(path.string()), HasSubstr("truncated"));
}

TEST_F(Inspect, IndexedDataset) {
  const std::string prefix = (folder_ / "text").string();
  IndexedDatasetWriter writer(prefix, TokenType::u16);
  writer.add_document(std::vector{1, 2, 3});
  writer.add_document(std::vector{4});
  writer.finish();
  for (const std::string& path : {prefix, prefix + ".idx", prefix + ".bin"}) {
    const nlohmann::json json = run_json({path});
    EXPECT_EQ(json.at("kind"), "dataset");
    EXPECT_EQ(json.at("documents"), 2);
    EXPECT_EQ(json.at("tokens"), 4);
    EXPECT_EQ(json.at("longest_sequence"), 3);
  }
  fs::resize_file(prefix + ".bin", 3);
  EXPECT_NE(refusal(prefix), "accepted");
}

// Unknown arguments in a rank's file, and in a step's folder.
TEST_F(Inspect, ArgumentsThatAreNotKnown) {
  const fs::path step = folder_ / "iter_0000001", rank = step / "mp_rank_00/model_optim_rng.pt";
  const auto note = [&](const std::string& argument, const fs::path& path) {
    make_folders(rank.parent_path());
    const TorchDict args{{"num_layers", {std::int64_t{1}}}, {argument, {std::string("sparse")}}};
    TorchWriter(rank, {TorchDict{{"args", {args}}, {"iteration", {std::int64_t{1}}}}}).finish();
    const std::string note = run_json({path.string()}).at("note");
    EXPECT_EQ(run({path.string()}).find("note: ") != std::string::npos, !note.empty());
    return note;
  };
  for (const fs::path& path : {rank, step}) {
    EXPECT_THAT(note("some_attention_variant", path),
                HasSubstr("some_attention_variant = sparse, which is unknown to Trireme"));
    EXPECT_EQ(note("save", path), "");
  }
}

// 500 bytes may claim to be any number of elements: without a stride all are the same one.
TEST_F(Inspect, ElementsThatAreRepeatedEndlesslyHaveNoStatistics) {
  const auto inspect = [&](std::int64_t rows) {
    const ForgedTensor tensor{0, 1, {rows, rows}, {0, 0}};
    std::ofstream(folder_ / "a.pth")
        << forged_torch(pickle_of(pickle_tensor(tensor)), std::string("\0\0\x80\x3f", 4));
    return run_json({(folder_ / "a.pth").string(), "--stats"}).at("tensors").at(0);
  };
  EXPECT_EQ(inspect(4).at("max"), 1);
  EXPECT_FALSE(inspect(std::int64_t{1} << 18).contains("max"));
}

TEST_F(Inspect, AnythingElse) {
  EXPECT_THAT(refusal((folder_ / "nothing").string()), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(folder_.string()), HasSubstr("no checkpoint"));
  std::ofstream(folder_ / "notes.txt").put('x');
  EXPECT_THAT(refusal((folder_ / "notes.txt").string()),
              HasSubstr("is not the folder of a checkpoint or run"));
}

}  // namespace
}  // namespace trireme
