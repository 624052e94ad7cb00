// States in a file instead of in memory: the same bits, the memory that is left, and what a disk
// can do wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Offload : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("trireme_offload_{}", ::getpid());
  }
  void TearDown() override { fs::remove_all(folder_); }

  Config in_file(Config config) const {
    config.offload.optimizer = "file";
    config.offload.path = folder_.string();
    return config;
  }

  fs::path folder_;
};

TEST_F(Offload, GivesTheSameBits) {
  struct Case {
    const char *optimizer, *precision, *moments;
    int ranks = 1, zero = 0, pp = 1;
  };
  for (const Case& c :
       {Case{"adamw", "bf16", "fp32"}, Case{"adamw", "fp32", "fp32"}, Case{"adamw", "bf16", "bf16"},
        Case{"sgd", "bf16", "fp32"}, Case{"muon", "bf16", "fp32"}, Case{"muon", "fp32", "bf16"},
        Case{"adamw", "bf16", "fp32", 2, 1}, Case{"muon", "bf16", "bf16", 4, 3, 2}}) {
    SCOPED_TRACE(fmt::format("{} {}, moments {}, {} ranks, ZeRO {}", c.optimizer, c.precision,
                             c.moments, c.ranks, c.zero));
    Config config = config_of(c.precision, 4, "llama");
    config.optimizer.name = c.optimizer;
    config.optimizer.moment_dtype = c.moments;
    config.parallel.zero = c.zero;
    config.parallel.pp = c.pp;
    const Result expected = train(config, c.ranks, 4);
    const Result result = train(in_file(config), c.ranks, 4);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);  // and moments, as checkpoints read them
    EXPECT_TRUE(fs::is_empty(folder_));               // files without names
  }
}

// Larger than all slots together, in parts that no block divides.
TEST_F(Offload, BlocksPassThroughAFewSlots) {
  Config config = config_of("bf16", 2, "gpt");
  config.model.vocab_size = 70000;
  config.model.hidden_size = 96;
  config.model.ffn_hidden_size = 384;
  config.model.head_dim = 24;
  config.train.global_batch_size = batch * 2;
  const Result expected = train(config, 1, 2);
  const Result result = train(in_file(config), 1, 2);
  EXPECT_EQ(result.norms, expected.norms);
  EXPECT_TRUE(result.weights == expected.weights);
  const Engine engine(in_file(config), build_options(config), {});
  std::int64_t in_flight = 0;
  for (const MemoryRegion& region : engine.memory().regions) {
    if (region.name == "states in flight") in_flight = region.bytes;
    if (region.name == "master weights" || region.name == "first moments" ||
        region.name == "second moments") {
      EXPECT_EQ(region.bytes, 0) << region.name;
    }
  }
  EXPECT_EQ(in_flight, 4 * 12 * (std::int64_t{1} << 20));
  EXPECT_GT(engine.file_bytes(), 1.5 * static_cast<double>(in_flight));
}

TEST_F(Offload, AFolderThatCannotBeUsed) {
  const auto message_of = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::failed);
      return error.what();
    }
    return "";
  };
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(message_of([&] { StateFile(folder_.string(), 4096, 60); }),
              testing::HasSubstr("cannot be made there"));
  fs::remove(folder_);
  EXPECT_THAT(message_of([&] { StateFile(folder_.string(), std::int64_t{1} << 60, 60); }),
              testing::AllOf(testing::HasSubstr("which cannot be reserved there"),
                             testing::HasSubstr("free space")));
}

TEST_F(Offload, ADiskThatIsTooSlow) {
  static std::vector<std::byte> memory((64 << 20) + StateFile::alignment);  // outlives the thread
  auto* const at = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(memory.data()) + StateFile::alignment - 1) /
      StateFile::alignment * StateFile::alignment);
  StateFile file(folder_.string(), 64 << 20, 1e-6);
  const StateFile::Ticket ticket = file.write({{at, 0, 64 << 20}}, 0);
  try {
    file.wait(ticket);
    ADD_FAILURE() << "64 MiB were written in a microsecond";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), testing::HasSubstr("did not end within train.timeout_s"));
  }
}

}  // namespace
}  // namespace trireme
