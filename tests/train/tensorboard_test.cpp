// Tests of event files byte by byte: known checksums, a committed golden record, the file's order.
#include "train/reports/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace trireme {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text;
}

// Returns a file's records, each verified against its checksums.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  std::size_t at = 0;
  while (at < file.size()) {
    std::uint64_t size = 0;
    std::memcpy(&size, file.data() + at, 8);
    records.push_back(file.substr(at + 12, size));
    EXPECT_EQ(file.substr(at, size + 16), tfrecord(records.back()));
    at += size + 16;
  }
  return records;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

// The expected bytes were made from the same values by the protobuf classes and the record writer
// of the tensorboard package (2.21).
TEST(ScalarEvent, EqualsTheReferenceWriter) {
  const Scalar scalars[] = {{"lm loss", 2.7182817}, {"learning-rate vs samples", 0.0}};
  EXPECT_EQ(hex(tfrecord(scalar_event(1234567890.125, 300, scalars))),
            "3f000000000000005165766109000088b48065d24110ac022a310a0e0a076c6d206c6f73731554f8"
            "2d400a1f0a186c6561726e696e672d726174652076732073616d706c657315000000003df5ce26");
}

TEST(TensorBoardFile, BeginsWithItsVersionAndHoldsWhatWasWritten) {
  const fs::path folder = fs::path(::testing::TempDir()) / "trireme_tensorboard";
  fs::remove_all(folder);
  TensorBoardFile file(folder, 0);
  file.write_both(3, 96, {{{"lm loss", 2.5}, {"learning-rate", 1e-3}}});
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents."));
  const auto records = records_of(read_file(file.path()));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(records[1].find("lm loss"), std::string::npos);
  EXPECT_EQ(records[1].find(" vs samples"), std::string::npos);
  EXPECT_NE(records[2].find("lm loss vs samples"), std::string::npos);
  EXPECT_NE(records[2].find("learning-rate vs samples"), std::string::npos);
  fs::remove_all(folder);
}

TEST(TensorBoardFile, ResumeCutsLaterStepsOfEarlierFiles) {
  const fs::path folder = fs::path(::testing::TempDir()) / "trireme_tensorboard_resume";
  fs::remove_all(folder);
  TensorBoardFile first(folder, 0);
  for (std::int64_t step = 100; step <= 500; step += 100) {
    first.write_both(step, 8 * step, {{{"lm loss", 1.0}}});
  }
  const std::string whole = read_file(first.path());
  const std::string torn = whole.substr(0, whole.size() - 3);
  write_file_durably(first.path(), torn);

  const TensorBoardFile second(folder, 300);
  EXPECT_NE(first.path(), second.path());
  const std::string kept = read_file(first.path());
  EXPECT_TRUE(whole.starts_with(kept));
  EXPECT_EQ(records_of(kept).size(), 7u);  // the version, then two records per step
  const TensorBoardFile third(folder, 300);
  EXPECT_EQ(read_file(first.path()), kept);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme
