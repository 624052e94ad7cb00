// Stacked horizontal bars with a legend and an axis.
#include "plan/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "runtime/memory.h"

namespace trireme {
namespace {

struct Bar {
  std::string label;
  std::vector<double> parts;  // by kind
  std::string note;           // after the bar
};

struct Chart {
  std::string title, subtitle, unit;
  double scale = 1;  // a unit of the axis, in units of the parts
  std::vector<std::string> kinds, colors;
  std::vector<Bar> bars;
  double limit = 0;  // a line across all bars
  std::string limit_name;

  // Removes kinds that no bar shows, and merges those too small to be visible.
  void tidy();
  double longest() const;
};

double sum_of(const Bar& bar) {
  double sum = 0;
  for (const double part : bar.parts) sum += part;
  return sum;
}

double Chart::longest() const {
  double longest = limit;
  for (const Bar& bar : bars) longest = std::max(longest, sum_of(bar));
  return longest;
}

void Chart::tidy() {
  const double seen = longest() / 400;
  std::vector<double> rest(bars.size());
  for (std::size_t k = kinds.size(); k-- > 0;) {
    const bool any =
        std::any_of(bars.begin(), bars.end(), [&](const Bar& bar) { return bar.parts[k] >= seen; });
    if (any) continue;
    for (std::size_t b = 0; b < bars.size(); ++b) {
      rest[b] += bars[b].parts[k];
      bars[b].parts.erase(bars[b].parts.begin() + static_cast<std::ptrdiff_t>(k));
    }
    kinds.erase(kinds.begin() + static_cast<std::ptrdiff_t>(k));
    colors.erase(colors.begin() + static_cast<std::ptrdiff_t>(k));
  }
  if (std::all_of(rest.begin(), rest.end(), [](double part) { return part <= 0; })) return;
  kinds.emplace_back("all else");
  colors.emplace_back("#b8b8b8");
  for (std::size_t b = 0; b < bars.size(); ++b) bars[b].parts.push_back(rest[b]);
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text)
    safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

double width_of(std::string_view text) {
  return 6.6 * static_cast<double>(text.size());
}

class ChartWriter {
 public:
  explicit ChartWriter(const Chart& chart) : chart_(chart) {
    for (const Bar& bar : chart.bars) {
      left_ = std::max(left_, width_of(bar.label) + 24);
      right_ = std::max(right_, width_of(bar.note) + 24);
    }
    if (!chart.limit_name.empty()) right_ = std::max(right_, width_of(chart.limit_name) / 2 + 12);
    points_ = bar_width / std::max(chart.longest(), 1e-300);
    width_ = left_ + bar_width + right_;
  }

  std::string write() {
    lay_out_legend();
    const double top = legend_y_ + 34 + (chart_.limit > 0 ? 14 : 0),
                 bottom = top + row * static_cast<double>(chart_.bars.size());
    axis(top, bottom);
    for (std::size_t i = 0; i < chart_.bars.size(); ++i)
      bar(chart_.bars[i], top + row * static_cast<double>(i));
    if (chart_.limit > 0) limit(top, bottom);
    const double height = bottom + 44;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width_, height) +
           out_ + "</svg>\n";
  }

 private:
  static constexpr double bar_width = 620, row = 30, gap = 7;

  void text(double x, double y, const char* anchor, std::string_view words, const char* color,
            const char* more = "") {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" {}>{}</text>\n",
                    x, y, anchor, color, more, escaped(words));
  }

  void box(double x, double y, double width, double height, const std::string& color) {
    out_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"white\" stroke-width=\"0.6\"/>\n",
        x, y, width, height, color);
  }

  void line(double x, double y, double to, const char* color, const char* more = "") {
    out_ += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" {4}/>\n",
        x, y, to, color, more);
  }

  void lay_out_legend() {
    text(16, 24, "start", chart_.title, "#222222", "font-size=\"16\"");
    text(16, 42, "start", chart_.subtitle, "#555555");
    double x = 16;
    legend_y_ = 56;
    for (std::size_t k = 0; k < chart_.kinds.size(); ++k) {
      const double needed = 34 + width_of(chart_.kinds[k]);
      if (x + needed > width_ && x > 16) {
        x = 16;
        legend_y_ += 20;
      }
      box(x, legend_y_, 13, 13, chart_.colors[k]);
      text(x + 18, legend_y_ + 11, "start", chart_.kinds[k], "#444444");
      x += needed;
    }
  }

  void bar(const Bar& bar, double y) {
    text(left_ - 10, y + 16, "end", bar.label, "#222222");
    double x = left_;
    for (std::size_t k = 0; k < bar.parts.size(); ++k) {
      const double width = bar.parts[k] * points_;
      if (width > 0.05) box(x, y, width, row - gap, chart_.colors[k]);
      x += std::max(0.0, width);
    }
    // Must not cross the limit's line.
    const double line = left_ + chart_.limit * points_;
    const bool crosses = chart_.limit > 0 && x < line && x + 12 + width_of(bar.note) > line;
    text((crosses ? line : x) + 8, y + 16, "start", bar.note, "#444444");
  }

  void axis(double top, double bottom) {
    const double longest = chart_.longest() / chart_.scale;
    const double power = std::pow(10, std::floor(std::log10(std::max(longest, 1e-300) / 5)));
    const double ratio = longest / 5 / power;
    const double step = power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
    for (double value = 0; value <= longest * (1 + 1e-9); value += step) {
      const double x = left_ + value * chart_.scale * points_;
      line(x, top - 4, bottom, "#e4e4e4");
      text(x, bottom + 16, "middle", fmt::format("{:g}", value), "#666666");
    }
    text(left_, bottom + 34, "start", chart_.unit, "#666666");
  }

  void limit(double top, double bottom) {
    const double x = left_ + chart_.limit * points_;
    line(x, top - 6, bottom, "#b00020", "stroke-width=\"1.5\" stroke-dasharray=\"5 3\"");
    text(x, top - 10, "middle", chart_.limit_name, "#b00020");
  }

  const Chart& chart_;
  double left_ = 60, right_ = 40, points_ = 1, width_ = 0, legend_y_ = 0;
  std::string out_;
};

constexpr std::array<const char*, 14> palette = {
    "#3168a8", "#c9731a", "#2f7d4f", "#8e5bb5", "#b8323c", "#4fa3b8", "#d6a62c",
    "#7a6a5c", "#9ab83c", "#d977a2", "#5c6f9e", "#8fc9a6", "#e0a58a", "#a8a2d6"};

// Dark colors for kernels, lighter shades of the same color for the corresponding waits.
constexpr std::array<const char*, time_kinds> busy_colors = {
    "#1f4e8c", "#3b82c4", "#86b6e0", "#5b4b9a", "#8a8a8a", "#c9731a", "#b8323c",
    "#2f7d4f", "#d6a62c", "#a4508b", "#d977a2", "#4fa3b8", "#7a6a5c"};
constexpr std::array<const char*, time_kinds> wait_colors = {
    "#9db6d6", "#b5d2ec", "#d3e4f4", "#bdb5dd", "#c8c8c8", "#f0b878", "#e59aa0",
    "#97cfae", "#f2dc9b", "#dcaece", "#f3c9da", "#b5dce4", "#c4bab0"};

std::string name_of_position(std::size_t position) {
  return fmt::format("pp {}", position);
}

// Indices that fit into a picture: both ends, and some in between.
std::vector<std::size_t> shown_of(std::size_t count) {
  constexpr std::size_t room = 16;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < std::min(count, room); ++i)
    positions.push_back(count <= room ? i : i * (count - 1) / (room - 1));
  return positions;
}

void add_time_kinds(Chart& chart) {
  for (std::size_t k = 0; k < time_kinds; ++k) {
    chart.kinds.emplace_back(name_of(static_cast<TimeKind>(k)));
    chart.colors.emplace_back(busy_colors[k]);
  }
  for (std::size_t k = 0; k < time_kinds; ++k) {
    chart.kinds.push_back(fmt::format("waits for {}", name_of(static_cast<TimeKind>(k))));
    chart.colors.emplace_back(wait_colors[k]);
  }
  chart.kinds.emplace_back("idle");
  chart.colors.emplace_back("#e8e8e8");
}

std::vector<double> parts_in_order(const StepParts& parts) {
  std::vector<double> all(parts.busy.begin(), parts.busy.end());
  all.insert(all.end(), parts.waits.begin(), parts.waits.end());
  all.push_back(std::max(0.0, parts.idle));
  return all;
}

void set_time_axis(Chart& chart, double seconds) {
  chart.scale = seconds >= 1 ? 1 : seconds >= 1e-3 ? 1e-3 : 1e-6;
  chart.unit = seconds >= 1 ? "seconds" : seconds >= 1e-3 ? "milliseconds" : "microseconds";
}

}  // namespace

std::string draw_memory(const LayoutPlan& plan, std::int64_t limit) {
  Chart chart;
  chart.title = "Memory per rank";
  chart.subtitle = "by pipeline stage; " + plan.mesh.text();
  chart.unit = "GiB";
  chart.scale = static_cast<double>(std::int64_t{1} << 30);
  chart.limit = static_cast<double>(limit);
  if (limit > 0) chart.limit_name = bytes_to_text(limit);
  for (const MemoryRegion& region : plan.ranks[0].memory.regions)
    chart.kinds.push_back(region.name);
  chart.kinds.emplace_back("estimated additional memory");
  chart.colors.resize(chart.kinds.size());
  for (const std::size_t position : shown_of(plan.ranks.size())) {
    const RankPlan& rank = plan.ranks[position];
    Bar bar{name_of_position(position), {}, {}};
    for (const std::string& kind : chart.kinds) {
      double bytes = 0;
      for (const MemoryRegion& region : rank.memory.regions)
        if (region.name == kind) bytes += static_cast<double>(region.bytes);
      bar.parts.push_back(bytes);
    }
    bar.parts.back() = static_cast<double>(rank.besides.total());
    bar.note = bytes_to_text(rank.device_bytes());
    chart.bars.push_back(std::move(bar));
  }
  chart.tidy();
  for (std::size_t k = 0; k < chart.kinds.size(); ++k)
    chart.colors[k] = palette[k % palette.size()];
  return ChartWriter(chart).write();
}

std::string draw_time(const TimePlan& time) {
  Chart chart;
  chart.title = fmt::format("One step of {}", seconds_text(time.seconds));
  chart.subtitle = fmt::format("on {}, by pipeline stage; {:.0f} tokens/s per device", time.machine,
                               time.tokens_per_second());
  set_time_axis(chart, time.seconds);
  add_time_kinds(chart);
  for (const std::size_t position : shown_of(time.ranks.size())) {
    const RankTime& rank = time.ranks[position];
    StepParts parts{rank.busy, rank.waits, time.seconds};
    double busy = 0;
    for (std::size_t k = 0; k < time_kinds; ++k) {
      busy += rank.busy[k];
      parts.idle -= rank.busy[k] + rank.waits[k];
    }
    chart.bars.push_back({name_of_position(position), parts_in_order(parts),
                          fmt::format("{:.1f}% busy", 100 * busy / time.seconds)});
  }
  chart.tidy();
  return ChartWriter(chart).write();
}

std::string draw_layouts(std::span<const FoundLayout> layouts, int ranks) {
  Chart chart;
  chart.title = "Steps of the fastest layouts";
  chart.subtitle = fmt::format("over {} devices on {}; mean over pipeline stages", ranks,
                               layouts.front().time.machine);
  set_time_axis(chart, layouts.front().time.seconds);
  add_time_kinds(chart);
  for (const FoundLayout& found : layouts)
    chart.bars.push_back({layout_text(found.layout, ranks), parts_in_order(parts_of(found.time)),
                          seconds_text(found.time.seconds)});
  chart.tidy();
  return ChartWriter(chart).write();
}

}  // namespace trireme
