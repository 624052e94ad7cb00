// Tests of metrics.jsonl: exact numbers, and its contents after a kill or a resume.
#include "train/reports/metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

class Metrics : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() /
        ("trireme_metrics_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
         ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = folder_ / "metrics.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  void write_steps(std::int64_t last_step, std::int64_t first, std::int64_t last) const {
    MetricsFile file(path_, last_step);
    for (std::int64_t step = first; step <= last; ++step) {
      file.write(step, {{{"loss", 1.0 / static_cast<double>(step)}}});
    }
  }

  fs::path folder_, path_;
};

TEST_F(Metrics, NumbersReadBackToTheSameBits) {
  const double values[] = {0.1,   1.0 / 3,    5e-324, 1.7976931348623157e308,   -0.0, 1.0,
                           1e100, 123456789., 2.5f,   static_cast<double>(0.1f)};
  MetricsFile file(path_, 0);
  for (const double value : values) file.write(1, {{{"x", value}}});
  std::ifstream in(path_);
  std::string line;
  for (const double value : values) {
    ASSERT_TRUE(std::getline(in, line));
    const double read = nlohmann::json::parse(line).at("x").get<double>();
    EXPECT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(value)) << line;
  }
}

TEST_F(Metrics, LinesAreJsonOfEveryKind) {
  const Metric metrics[] = {{"loss", 2.5},
                            {"samples", std::int64_t{9007199254740993}},
                            {"note", std::string_view("a \"b\"\n\xff")},
                            {"norm", std::numeric_limits<double>::infinity()},
                            {"nan", std::nan("")}};
  const std::string line = metrics_line(7, metrics);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("step"), 7);
  EXPECT_EQ(json.at("loss"), 2.5);
  EXPECT_EQ(json.at("samples").get<std::int64_t>(), 9007199254740993);
  EXPECT_TRUE(json.at("norm").is_null());
  EXPECT_TRUE(json.at("nan").is_null());
}

TEST_F(Metrics, ResumeCutsWhatCameAfterTheCheckpoint) {
  write_steps(0, 1, 10);
  const std::string whole = read_file(path_);
  write_steps(6, 7, 10);
  EXPECT_EQ(read_file(path_), whole);
  write_steps(0, 1, 10);
  EXPECT_EQ(read_file(path_), whole);
}

// Whatever prefix of the file a kill leaves, resuming from step 6 yields the uninterrupted file.
TEST_F(Metrics, EveryTornEndIsRepaired) {
  write_steps(0, 1, 10);
  const std::string whole = read_file(path_);
  const std::size_t six = whole.find("{\"step\": 7");
  for (std::size_t size = six; size <= whole.size(); ++size) {
    put(whole.substr(0, size));
    write_steps(6, 7, 10);
    ASSERT_EQ(read_file(path_), whole) << "cut at byte " << size;
  }
}

TEST_F(Metrics, LinesThatAreNoneAreDroppedAndOthersKept) {
  put("{\"step\": 1, \"loss\": 1.0}\nnot json\n[1]\n{\"loss\": 2}\n{\"step\": \"x\"}\n" +
      std::string("\0\0\n", 3) + "{\"step\": 2, \"loss\": 2.0}\n");
  MetricsFile file(path_, 2);
  EXPECT_EQ(read_file(path_), "{\"step\": 1, \"loss\": 1.0}\n{\"step\": 2, \"loss\": 2.0}\n");
}

TEST_F(Metrics, UnwritablePlacesAreErrors) {
  EXPECT_THROW(MetricsFile(folder_ / "no" / "such" / "folder", 0), Error);
  EXPECT_THROW(MetricsFile(folder_, 0), Error);
}

}  // namespace
}  // namespace trireme
