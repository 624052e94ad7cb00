// Tests of drawings: the text as a reader sees it, and a well-formed, complete picture.
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

double svg_width(const std::string& svg) {
  return std::stod(svg.substr(svg.find("width=\"") + 7));
}

TEST(Draw, TextShowsRanksDownAndTimeAcross) {
  EXPECT_EQ(draw({ScheduleKind::one_f_one_b, 2, 3}).text,
            "1f1b, 2 ranks, 3 micro-batches: bubble 25.0%; ranks hold the activations of at most 2 "
            "micro-batches and send 6 messages\n"
            "F forward, B backward\n"
            "rank  0 |F0 F1       B0--- F2 B1---    B2---\n"
            "rank  1 |   F0 B0--- F1 B1--- F2 B2---\n");
}

TEST(Draw, ZeroBubbleShowsBothGradientsAndChunks) {
  const std::string text = draw({ScheduleKind::zbv, 2, 3}).text;
  EXPECT_THAT(text, HasSubstr("I input gradient, W weight gradient; small letters"));
  EXPECT_THAT(text, HasSubstr("rank  0 |F0 F1 F2 f0 i0 w0"));
}

// A long step is drawn with its beginning and its end, with the true micro-batch
// numbers.
TEST(Draw, LongSchedulesLoseTheirMiddle) {
  for (const int micro_batches : {128, 100000}) {
    const Schedule schedule = make_schedule({ScheduleKind::one_f_one_b, 4, micro_batches});
    const auto [text, svg] = draw_even_schedule(schedule, check_schedule(schedule));
    for (std::size_t at = text.find("\nrank") + 1; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_LE(end - at, 200 + std::string("rank  0 |").size());
      at = end + 1;
    }
    EXPECT_THAT(text, HasSubstr("-- B0---"));  // the last rank turns around immediately
    EXPECT_THAT(text, HasSubstr(" ... "));
    const std::string last = std::to_string(micro_batches - 1);
    EXPECT_THAT(text, HasSubstr("B" + last + "-"));
    EXPECT_THAT(text, HasSubstr(std::to_string(micro_batches) + " micro-batches: bubble"));
    EXPECT_THAT(svg, HasSubstr(">" + last + "</text>"));
    EXPECT_THAT(svg, HasSubstr("repeats"));
    EXPECT_THAT(svg, HasSubstr(">0</text>"));
    EXPECT_EQ(svg.find(">-0"), std::string::npos);
    EXPECT_LT(svg_width(svg), 1600);
  }
}

TEST(Draw, SvgHasEveryPassAndClosesEveryTag) {
  const std::string svg = draw({ScheduleKind::zb1p, 3, 5}, {.unit = "ms"}).svg;
  // Passes, three legend colors, three lanes, the background.
  EXPECT_EQ(count(svg, "<rect"), 3 * 5 * 3 + 3 + 3 + 1);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "<svg"), count(svg, "</svg>"));
  EXPECT_THAT(svg, HasSubstr(">ms</text>"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Draw, OneRankAndOneMicroBatch) {
  EXPECT_THAT(draw({ScheduleKind::gpipe, 1, 1}).text, HasSubstr("rank  0 |F0 B0---\n"));
}

}  // namespace
}  // namespace trireme
