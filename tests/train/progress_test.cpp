// Printed progress: the words of a line, sizes and durations, silence where nobody watches.
#include "train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace trireme {
namespace {

ProgressReport report() {
  ProgressReport report;
  report.iteration = 100;
  report.iterations = 2000;
  report.loss = 3.21874;
  report.lr = 3e-4;
  report.grad_norm = 1.25;
  report.tokens_per_second = 51234;
  report.flops_per_second = 4.945e14;
  report.memory_bytes = std::uint64_t{3} << 29;
  report.seconds_per_iteration = 0.5;
  return report;
}

TEST(ProgressLine, NamesEverything) {
  EXPECT_EQ(
      progress_line(report()),
      "step  100/2000 | loss 3.2187 | lr 3.00e-04 | grad 1.250 | 51.2k tok/s | 494.50 TFLOP/s "
      "| MFU n/a | mem 1.5 GiB | left 15m50s");
}

TEST(ProgressLine, MfuAndLossScaleWhereKnown) {
  ProgressReport r = report();
  r.peak_flops = 989e12;
  r.loss_scale = 65536;
  r.skipped = 2;
  const std::string line = progress_line(r);
  EXPECT_THAT(line, ::testing::HasSubstr("| MFU 50.0% |"));
  EXPECT_THAT(line, ::testing::HasSubstr("| scale 65536 | skipped 2 |"));
}

TEST(ProgressLine, SaysWhatCountsPerRankWhereThereAreSeveral) {
  ProgressReport r = report();
  r.devices = 8;
  EXPECT_THAT(progress_line(r), ::testing::HasSubstr("| 51.2k tok/s | 494.50 TFLOP/s per rank |"));
}

TEST(Texts, Durations) {
  EXPECT_EQ(duration_text(0.2), "0s");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(725), "12m05s");
  EXPECT_EQ(duration_text(3600 * 3 + 60 * 7 + 5), "3h07m");
  EXPECT_EQ(duration_text(86400 * 2 + 3600 * 4), "2d04h");
  EXPECT_EQ(duration_text(std::nan("")), "n/a");
  EXPECT_EQ(duration_text(INFINITY), "n/a");
}

TEST(Texts, BytesAndCounts) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::uint64_t{80} << 30), "80.0 GiB");
  EXPECT_EQ(count_text(980), "980");
  EXPECT_EQ(count_text(1.3e6), "1.30M");
}

TEST(ProgressBar, FillsFromLeftToRight) {
  EXPECT_EQ(progress_bar(0, 10, 10), "[>         ]   0%");
  EXPECT_EQ(progress_bar(5, 10, 10), "[=====>    ]  50%");
  EXPECT_EQ(progress_bar(10, 10, 10), "[==========] 100%");
  EXPECT_EQ(progress_bar(1, 0, 4), "[>   ]   0%");
}

std::string text_of(std::FILE* file) {
  std::fflush(file);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(Progress, IsQuietInALogFile) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    Progress progress(file, 0, 10);
    progress.tick(1, 2.0);
    progress.note("a line");
    progress.tick(2, 2.0);
  }
  EXPECT_EQ(text_of(file), "a line\n");
  std::fclose(file);
}

// On a pseudo-terminal the bar is drawn, and erased before a line is printed.
TEST(Progress, DrawsABarOnATerminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  std::FILE* terminal = std::fopen(::ptsname(master), "w");
  ASSERT_NE(terminal, nullptr);
  {
    Progress progress(terminal, 0, 4);
    progress.tick(1, 2.5);
    progress.note("a line");
  }
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(master, text.data(), 4096))));
  EXPECT_THAT(text, ::testing::HasSubstr("25%  step 1/4  loss 2.5000"));
  EXPECT_THAT(text, ::testing::HasSubstr("\r\x1b[Ka line"));
  std::fclose(terminal);
  ::close(master);
}

}  // namespace
}  // namespace trireme
