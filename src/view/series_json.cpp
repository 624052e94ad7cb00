// Compact encoding of many numbers, which are most of what is sent to the page.
#include "view/series_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

namespace trireme {
namespace {

using Points = std::span<const SeriesPoint>;

bool is_counter(std::string_view name) {
  return name.starts_with("consumed_") || name == "elapsed" || name == "skipped_steps";
}

// Series that the page does not draw.
bool is_left_out(std::string_view name) {
  return name == "consumed_samples" || name == "seconds";
}

template <class Value>
void add_list(std::string& text, const char* name, Points points, const Value& value) {
  text += fmt::format(",\"{}\":[", name);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0) text += ',';
    const double number = value(points[i]);
    if (std::isfinite(number))
      fmt::format_to(std::back_inserter(text), "{:.5g}", number);
    else
      text += "null";
  }
  text += ']';
}

// Whether aggregation hides more than a hundredth of the plot's height.
bool hides_much(Points points) {
  double low = INFINITY, high = -INFINITY, widest = 0;
  for (const SeriesPoint& point : points) {
    low = std::min(low, point.mean);
    high = std::max(high, point.mean);
    widest = std::max(widest, point.high - point.low);
  }
  return widest > 0.01 * (high - low);
}

std::string member(const std::string& name, const Series& series, std::size_t from) {
  const Points points = series.points().subspan(from);
  std::string text = fmt::format("{}:{{\"at\":{},\"steps\":[", nlohmann::json(name).dump(), from);
  std::int64_t before = 0;
  for (const SeriesPoint& point : points) {
    fmt::format_to(std::back_inserter(text), "{}{}", &point == points.data() ? "" : ",",
                   point.step - before);
    before = point.step;
  }
  text += ']';
  if (is_counter(name)) {
    // Exact, since axis positions are computed from them.
    text += ",\"mean\":[";
    for (const SeriesPoint& point : points)
      fmt::format_to(std::back_inserter(text), "{}{:.10g}", &point == points.data() ? "" : ",",
                     point.last);
    text += ']';
  } else {
    add_list(text, "mean", points, [](const SeriesPoint& point) { return point.mean; });
    if (series.stride() > 1 && hides_much(series.points())) {
      add_list(text, "low", points, [](const SeriesPoint& point) { return point.low; });
      add_list(text, "high", points, [](const SeriesPoint& point) { return point.high; });
    }
  }
  return text + "}";
}

}  // namespace

std::vector<std::string> series_members(std::initializer_list<const SeriesByName*> all,
                                        std::uint64_t version) {
  std::vector<std::string> members;
  for (const SeriesByName* names : all) {
    for (const auto& [name, series] : *names) {
      const std::size_t from = series.first_after(version);
      if (from < series.points().size() && !is_left_out(name))
        members.push_back(member(name, series, from));
    }
  }
  return members;
}

}  // namespace trireme
