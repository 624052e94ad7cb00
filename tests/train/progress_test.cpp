// Tests of printed progress: line contents, sizes and durations, colors, no output without an
// audience, and the contents of the log file.
#include "train/reports/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
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
  report.samples_per_second = 31.2;
  report.seconds_per_iteration = 0.5;
  return report;
}

TEST(ProgressLine, NamesEverything) {
  EXPECT_EQ(progress_line(report(), 200),
            "step  100/2000 | loss 3.2187, lr 3.00e-04, grad 1.250 | 0.500 s/step, 31.2 samples/s, "
            "51.2k tok/s, 494.50 TFLOP/s | mem 1.5 GiB | left 15m50s");
}

TEST(ProgressLine, LeavesOutWhatDoesNotFit) {
  ProgressReport r = report();
  r.peak_flops = 989e12;
  EXPECT_EQ(progress_line(r, 111),
            "step  100/2000 | loss 3.2187, lr 3.00e-04, grad 1.250 | 0.500 s/step, 51.2k tok/s, "
            "494.50 TFLOP/s | left 15m50s");
  EXPECT_EQ(progress_line(r, 71),
            "step  100/2000 | loss 3.2187 | 0.500 s/step, 51.2k tok/s | left 15m50s");
  EXPECT_EQ(progress_line(r, 10), "step  100/2000 | loss 3.2187 | 0.500 s/step");
  r.loss_scale = 65536;
  r.parts = {{"words", 2.5}, {"order", 0.7}};
  std::string before;
  for (std::size_t columns = 50; columns < 220; ++columns) {
    const std::string line = progress_line(r, columns);
    EXPECT_LE(line.size(), columns);
    EXPECT_GE(line.size(), before.size());
    before = line;
  }
  EXPECT_EQ(before, progress_line(r));
}

// When a loss grows by one digit and displaces a piece, later lines omit that piece too.
TEST(ProgressLine, PiecesDoNotComeAndGo) {
  ProgressReport r = report();
  int rank = lowest_progress_rank;
  const std::size_t columns = progress_line(r, 115).size();
  EXPECT_THAT(progress_line(r, columns, rank), ::testing::HasSubstr("TFLOP/s"));
  r.loss = 13.2187;
  EXPECT_THAT(progress_line(r, columns, rank), ::testing::Not(::testing::HasSubstr("TFLOP/s")));
  r.loss = 3.2187;
  EXPECT_THAT(progress_line(r, columns, rank), ::testing::Not(::testing::HasSubstr("TFLOP/s")));
}

TEST(ProgressLine, SmallModelsCountInGigaflops) {
  ProgressReport r = report();
  r.flops_per_second = 2.5e7;
  EXPECT_THAT(progress_line(r), ::testing::HasSubstr(", 0.03 GFLOP/s"));
}

TEST(ProgressLine, ShareOfThePeak) {
  ProgressReport r = report();
  EXPECT_THAT(progress_line(r), ::testing::Not(::testing::HasSubstr("MFU")));
  r.peak_flops = 989e12;
  EXPECT_THAT(progress_line(r), ::testing::HasSubstr(" TFLOP/s, MFU 50.0% | mem "));
}

TEST(ProgressLine, LossScaleWhereThereIsOne) {
  ProgressReport r = report();
  r.loss_scale = 65536;
  r.skipped = 2;
  EXPECT_THAT(progress_line(r), ::testing::HasSubstr(", scale 65536, skipped 2 |"));
}

TEST(ProgressLine, SaysWhatCountsPerRankWhereThereAreSeveral) {
  ProgressReport r = report();
  r.devices = 8;
  EXPECT_THAT(progress_line(r, 200), ::testing::HasSubstr("494.50 TFLOP/s per rank |"));
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
    Console console(file);
    Progress progress(console, 0, 10);
    progress.tick(1, 2.0);
    console.print("a line");
    progress.tick(2, 2.0);
  }
  EXPECT_EQ(text_of(file), "a line\n");
  std::fclose(file);
}

// A pseudo-terminal, on which the bar is drawn, and erased before a line is printed.
class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0)
      GTEST_SKIP() << "no pseudo-terminals here";
    terminal_ = std::fopen(::ptsname(master_), "w");
    ASSERT_NE(terminal_, nullptr);
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }
  ~Terminal() override {
    if (terminal_) std::fclose(terminal_);
    if (master_ >= 0) ::close(master_);
    ::unsetenv("NO_COLOR");
  }
  // Returns what the terminal has shown up to `end`. The kernel delivers text in arbitrary pieces,
  // so a single read may return only the first of them.
  std::string shown_until(std::string_view end) const {
    std::string text;
    pollfd readable{.fd = master_, .events = POLLIN, .revents = 0};
    while (text.find(end) == std::string::npos && ::poll(&readable, 1, 10'000) == 1) {
      std::array<char, 4096> piece;
      const ssize_t bytes = ::read(master_, piece.data(), piece.size());
      if (bytes <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(bytes));
    }
    return text;
  }
  int master_ = -1;
  std::FILE* terminal_ = nullptr;
};

TEST_F(Terminal, ShowsABar) {
  Console console(terminal_);
  Progress progress(console, 0, 4);
  progress.tick(1, 2.5);
  console.print("a line");
  const std::string text = shown_until("a line\r\n");
  EXPECT_THAT(text, ::testing::HasSubstr("25%  step 1/4  loss 2.5000"));
  EXPECT_THAT(text, ::testing::HasSubstr("\r\x1b[Ka line"));
}

TEST_F(Terminal, IsColoredUnlessTheUserObjects) {
  Console(terminal_).warn("a line");
  EXPECT_THAT(shown_until("\r\n"), ::testing::HasSubstr("\x1b[33mwarning: a line\x1b[0m"));
  ::setenv("NO_COLOR", "1", 1);
  Console(terminal_).warn("a line");
  EXPECT_THAT(shown_until("\r\n"), ::testing::HasSubstr("warning: a line\r\n"));
}

class Log : public ::testing::Test {
 protected:
  Log() { std::filesystem::remove(path_); }
  ~Log() override { std::filesystem::remove(path_); }
  std::string kept() const { return read_file(path_); }
  const std::string path_ = ::testing::TempDir() + "trireme_log_" + std::to_string(::getpid());
};

TEST_F(Log, HoldsAllLinesPlainAlsoThoseBeforeItWasOpened) {
  std::FILE* null = std::fopen("/dev/null", "w");
  {
    Console console(null);
    console.print("early");
    console.keep_in(path_);
    console.warn_now("timed");
    console.record("only here");
  }
  EXPECT_THAT(kept(),
              ::testing::MatchesRegex("early\n[0-9]+:[0-9]+:[0-9]+ warning: timed\nonly here\n"));
  {
    Console console(null);
    console.keep_in(path_);
    console.print("once more");
  }
  EXPECT_THAT(kept(), ::testing::EndsWith("only here\nonce more\n"));
  std::fclose(null);
}

// Neither a full disk nor a closed reader is an error.
TEST_F(Log, ThatCannotBeWrittenIsGivenUpWithOneWarning) {
  std::FILE* file = std::tmpfile();
  {
    Console console(file);
    console.keep_in("/dev/full");
    console.print("one");
    console.print("two");
  }
  EXPECT_THAT(text_of(file),
              ::testing::MatchesRegex("one\nwarning: [^\n]*No space left[^\n]*\ntwo\n"));
  std::fclose(file);
  std::FILE* full = std::fopen("/dev/full", "w");
  Console(full).print("nowhere");
  std::fclose(full);
}

}  // namespace
}  // namespace trireme
