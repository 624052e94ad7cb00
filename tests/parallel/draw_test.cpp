// Drawings: the text as a reader sees it, and a picture that is well formed and complete.
#include "parallel/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

using testing::HasSubstr;

ScheduleDrawing draw(const ScheduleRequest& request, const DrawOptions& options = {}) {
  const Schedule schedule = make_schedule(request);
  return draw_schedule(schedule, check_schedule(schedule), options);
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(Draw, TextShowsRanksDownAndTimeAcross) {
  EXPECT_EQ(draw({ScheduleKind::one_f_one_b, 2, 3}).text,
            "1f1b, 2 ranks, 3 micro-batches: bubble 25.0% (25.0% without run-in and run-out), "
            "activations of "
            "up to 2 micro-batches held, 6 messages\n"
            "F forward, B backward\n"
            "rank  0 |F0 F1       B0--- F2 B1---    B2---\n"
            "rank  1 |   F0 B0--- F1 B1--- F2 B2---\n");
}

TEST(Draw, ZeroBubbleShowsBothGradientsAndChunks) {
  const std::string text = draw({ScheduleKind::zbv, 2, 3}).text;
  EXPECT_THAT(text, HasSubstr("I input gradient, W weight gradient; small letters"));
  EXPECT_THAT(text, HasSubstr("rank  0 |F0 F1 F2 f0 i0 w0"));
}

TEST(Draw, LongSchedulesKeepToTheColumns) {
  const std::string text = draw({ScheduleKind::one_f_one_b, 4, 200}, {.columns = 100}).text;
  const std::size_t first_line = text.find("\nrank") + 1;
  std::size_t longest = 0;
  for (std::size_t at = first_line; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  EXPECT_LE(longest, 100 + std::string("rank  0 |").size());
}

TEST(Draw, SvgHasEveryPassAndClosesEveryTag) {
  const std::string svg = draw({ScheduleKind::zb1p, 3, 5}, {.unit = "ms"}).svg;
  // Passes, three colours of the legend, three lanes, the background.
  EXPECT_EQ(count(svg, "<rect"), 3 * 5 * 3 + 3 + 3 + 1);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "<svg"), count(svg, "</svg>"));
  EXPECT_THAT(svg, HasSubstr("time, ms"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Draw, OneRankAndOneMicroBatch) {
  EXPECT_THAT(draw({ScheduleKind::gpipe, 1, 1}).text, HasSubstr("rank  0 |F0 B0---\n"));
}

}  // namespace
}  // namespace trireme
