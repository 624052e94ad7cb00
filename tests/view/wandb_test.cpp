// Tests of offline Weights & Biases runs: the bytes of a file that wandb itself has read, records
// across blocks, and the translation of a run's lines.
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"
#include "scratch_folder.h"
#include "view/wandb_export.h"
#include "view/wandb_file.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// Returns the complete records of a file, after verifying each piece's checksum.
std::vector<std::string> records_of(const std::string& file) {
  constexpr std::size_t block = 32 << 10;
  std::vector<std::string> records;
  std::string record;
  bool inside = false;
  for (std::size_t at = 7; at < file.size();) {
    if (block - at % block < 7) {
      at += block - at % block;
      continue;
    }
    std::uint32_t sum = 0;
    std::uint16_t size = 0;
    std::memcpy(&sum, &file[at], 4);
    std::memcpy(&size, &file[at + 4], 2);
    const char type = file[at + 6];
    EXPECT_EQ(sum, ::crc32(0, reinterpret_cast<const Bytef*>(&file[at + 6]), size + 1u));
    EXPECT_LE(at % block + 7 + size, block);
    EXPECT_EQ(inside, type == 3 || type == 4);
    inside = type == 2 || type == 3;  // a first piece may be empty
    record.append(file, at + 7, size);
    at += 7u + size;
    if (type == 1 || type == 4) records.push_back(std::exchange(record, ""));
  }
  return records;
}

TEST(WandbFile, HasTheBytesThatItsProgramReads) {
  const ScratchFolder dir;
  WandbFile file(dir / "run-x.wandb");
  file.write_row(3, std::vector<WandbItem>{{"loss", "0.5"}});
  file.finish();
  const std::string text = read_file(dir / "run-x.wandb");
  EXPECT_EQ(text.substr(0, 7), std::string(":W&B\xe1\xbe\0", 7));
  const auto records = records_of(text);
  ASSERT_EQ(records.size(), 2u);
  // Record { num = 2, history = { item { "loss", value_json "0.5" }, step { num = 3 } } }
  EXPECT_EQ(records[1], std::string("\x08\x02\x12\x12\x0a\x0c\x0a\x04loss\x82\x01\x03"
                                    "0.5\x12\x02\x08\x03"));
}

// A piece of a file by wandb itself: the checksum covers the type and the bytes, and is not masked.
TEST(WandbFile, SumsAreThoseOfTheRealProgram) {
  const std::string piece =
      std::string("\x01\x08\x03\x32\x16\x0a\x14\x0a\x10", 9) + "requirements.txt\x18\x01";
  EXPECT_EQ(
      ::crc32(0, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size())),
      0x998b7040u);
}

TEST(WandbFile, CutsRecordsAtTheEndsOfBlocks) {
  const ScratchFolder dir;
  const auto summary_of = [](std::size_t size) {
    return std::vector<WandbItem>{{"text", std::string(size, 'x')}};
  };
  // The first record ends at all positions near the end of a block, also where no header fits.
  for (std::size_t size = 32650; size < 32750; ++size) {
    const fs::path path = dir / std::to_string(size);
    WandbFile file(path);
    file.write_summary(summary_of(size));
    file.write_summary(summary_of(100'000));
    file.finish();
    const auto records = records_of(read_file(path));
    ASSERT_EQ(records.size(), 3u) << size;
    EXPECT_THAT(records[1], testing::EndsWith(std::string(size, 'x'))) << size;
    EXPECT_THAT(records[2], testing::EndsWith(std::string(100'000, 'x'))) << size;
  }
}

class ExportedRun : public testing::Test {
 protected:
  ExportedRun() { fs::create_directories(run_); }
  void write(const char* name, const std::string& text) const {
    write_file_durably(run_ / name, text);
  }
  std::string text_of(const WandbExport& written) const {
    for (const auto& entry : fs::directory_iterator(written.folder)) return read_file(entry.path());
    return "";
  }
  const ScratchFolder dir_;
  const fs::path run_ = dir_ / "run";
  const WandbOptions options_{dir_, "ships", "me"};
};

TEST_F(ExportedRun, JoinsTheLinesOfAStepAndLeavesOutWhatIsDamaged) {
  write("metrics.jsonl",
        "{\"step\": 1, \"loss\": 5.551115123125783e-17, \"lr\": 1.0}\n"
        "{\"step\": 2, \"loss\": null}\n"
        "{\"step\": 2, \"valid_loss\": 7.25}\n"
        "{\"loss\": 3}\n{\"step\": 3, \"lo");
  write("timings.jsonl", "{\"step\": 1, \"seconds\": 0.5}\n{\"step\": 2, \"seconds\": 0.25}\n");
  write("status.json", "{\"state\": \"failed\", \"reason\": \"a rank is gone\"}");
  const WandbExport written = export_to_wandb(run_, options_);
  EXPECT_EQ(written.rows, 2);
  EXPECT_EQ(written.damaged, 2);
  EXPECT_EQ(written.first_damaged, 4);
  EXPECT_FALSE(written.unfinished);
  const auto records = records_of(text_of(written));
  ASSERT_EQ(records.size(), 6u);  // header, run, two rows, summary, exit
  EXPECT_THAT(records[1], testing::AllOf(HasSubstr("ships"), HasSubstr("me"), HasSubstr("run")));
  EXPECT_THAT(records[2], HasSubstr("5.551115123125783e-17"));
  EXPECT_THAT(records[3], testing::AllOf(HasSubstr("7.25"), HasSubstr("0.75"),
                                         testing::Not(HasSubstr("null"))));
  EXPECT_THAT(records[4], HasSubstr("a rank is gone"));
  EXPECT_EQ(records[5], std::string("\x08\x06\x92\x01\x04\x08\x01\x10\x01"));
}

TEST_F(ExportedRun, RefusesAFolderThatIsThereAndOneThatIsNoRun) {
  EXPECT_THAT(refusal_of([&] { export_to_wandb(run_, options_); }),
              HasSubstr("metrics.jsonl' is missing: expected the folder of a run"));
  write("metrics.jsonl", "{\"step\": 1, \"loss\": 5}\n");
  EXPECT_TRUE(export_to_wandb(run_, options_).unfinished);
  EXPECT_THAT(refusal_of([&] { export_to_wandb(run_, options_); }),
              HasSubstr("already exists: remove it, or choose another folder with --out"));
}

TEST_F(ExportedRun, LeavesNothingOfWhatFails) {
  write("metrics.jsonl", "{\"step\": 1, \"loss\": 5}\n");
  write("config.toml", "[model]\nfamily = 3\n");
  refusal_of([&] { export_to_wandb(run_, options_); });
  EXPECT_TRUE(fs::is_empty(dir_ / "wandb"));
}

}  // namespace
}  // namespace trireme
