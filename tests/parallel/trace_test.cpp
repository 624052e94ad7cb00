// Tests of traces: lanes of computation and communication in a format that trace viewers read.
#include "parallel/trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

TEST(Trace, HasALanePerChunkAndGroup) {
  using std::chrono::milliseconds;
  Trace trace(3);
  const auto begin = std::chrono::steady_clock::now();
  trace.computed("forward", 0, 7, begin, begin + milliseconds(2));
  trace.computed("optimizer", 1, -1, begin, begin + milliseconds(1));
  trace.completed("shard", Label("reduce gradients", 4), 4096, begin + milliseconds(1),
                  begin + milliseconds(4));
  const auto events = nlohmann::json::parse("[" + trace.json() + "]");

  std::map<int, std::string> lanes;
  std::map<std::string, std::pair<std::string, double>> spans;  // lane and duration by name
  for (const auto& event : events) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("name") == "thread_name") lanes[event.at("tid")] = event["args"]["name"];
    if (event.at("ph") == "X")
      spans[event.at("name")] = {lanes.at(event.at("tid")), event.at("dur")};
  }
  EXPECT_EQ(events.back()["args"]["sent bytes"], 4096);
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(spans.at("forward 7").first, "compute, chunk 0");
  EXPECT_EQ(spans.at("optimizer").first, "compute, chunk 1");
  EXPECT_EQ(spans.at("reduce gradients 4").first, "communicate, shard");
  EXPECT_NEAR(spans.at("forward 7").second, 2000, 0.01);
  EXPECT_NEAR(spans.at("reduce gradients 4").second, 3000, 0.01);
}

TEST(Trace, RecordsOnlyWhileThereIsOne) {
  Trace trace(0);
  { const TraceSpan span(&trace, "forward", 0, 1); }
  { const TraceSpan span(nullptr, "forward", 0, 2); }
  const std::string text = trace.json();
  EXPECT_NE(text.find("forward 1"), std::string::npos);
  EXPECT_EQ(text.find("forward 2"), std::string::npos);
}

}  // namespace
}  // namespace trireme
