// Text with one line per rank, and a picture for the browser.
#include "parallel/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

char letter(const Action& action) {
  constexpr const char* upper = "FBIW";
  const char c = upper[static_cast<int>(action.kind)];
  return action.chunk == 0 ? c : static_cast<char>(c - 'A' + 'a');
}

double shortest_pass(const Schedule& schedule, const ScheduleReport& report) {
  double shortest = report.makespan;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Span& span = report.ranks[rank].spans[i];
      if (is_compute(schedule.actions[rank][i].kind) && span.end > span.begin) {
        shortest = std::min(shortest, span.end - span.begin);
      }
    }
  }
  return shortest;
}

std::string legend(const Schedule& schedule) {
  std::string text = splits_backward(schedule.kind)
                         ? "F forward, I input gradient, W weight gradient"
                         : "F forward, B backward";
  if (schedule.chunks() > 1) text += "; small letters: chunks after the first";
  return text;
}

// One cell of a line: "F12 ", "B3--- ", or just letters where there is no room.
std::string cell(const Action& action, int width) {
  std::string text = fmt::format("{}{}", letter(action), action.micro_batch);
  if (static_cast<int>(text.size()) > width) return std::string(width, letter(action));
  if (static_cast<int>(text.size()) == width) return text;
  text.resize(width - 1, '-');
  return text + ' ';
}

std::string draw_text(const Schedule& schedule, const ScheduleReport& report,
                      const DrawOptions& options) {
  const double shortest = shortest_pass(schedule, report);
  const int label = static_cast<int>(std::to_string(schedule.micro_batches - 1).size()) + 2;
  double scale = shortest > 0 ? label / shortest : 1;  // columns per unit of time
  if (report.makespan * scale > options.columns) {
    // Whole columns for the shortest pass where possible: equal passes then look equal.
    const double columns = options.columns / report.makespan * shortest;
    scale = (columns >= 1 ? std::floor(columns) : columns) / shortest;
  }
  std::string text = summary(schedule, report) + "\n" + legend(schedule) + "\n";
  const double columns = shortest * scale;  // of the shortest pass
  if (columns < 1) {
    text += fmt::format("one column is {:.1f} of the shortest passes: letters stand for the last\n",
                        1 / columns);
  } else if (columns < label - 1) {
    text += "no room for the numbers of micro-batches\n";
  }
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::string line(static_cast<std::size_t>(std::lround(report.makespan * scale)), ' ');
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      if (!is_compute(action.kind)) continue;
      const Span& span = report.ranks[rank].spans[i];
      const auto begin = std::lround(span.begin * scale);
      const auto end = std::lround(span.end * scale);
      line.replace(begin, end - begin, cell(action, static_cast<int>(end - begin)));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("rank {:>2} |{}\n", rank, line);
  }
  return text;
}

// Blue forward, green backward, orange weight gradient; paler for each chunk after the first.
struct Colour {
  int r, g, b;

  Colour paler(double share) const {
    const auto mix = [&](int c) { return static_cast<int>(c + (255 - c) * share); };
    return {mix(r), mix(g), mix(b)};
  }
  bool dark() const { return 0.299 * r + 0.587 * g + 0.114 * b < 140; }
  std::string text() const { return fmt::format("#{:02x}{:02x}{:02x}", r, g, b); }
};

Colour colour_of(ActionKind kind, int chunk, int chunks) {
  static constexpr Colour colours[] = {
      {49, 104, 168}, {47, 125, 79}, {47, 125, 79}, {201, 115, 26}};
  const double share = chunks > 1 ? 0.6 * chunk / (chunks - 1) : 0;
  return colours[static_cast<int>(kind)].paler(share);
}

class SvgWriter {
 public:
  SvgWriter(const Schedule& schedule, const ScheduleReport& report, const DrawOptions& options)
      : schedule_(schedule), report_(report), options_(options) {
    const double shortest = shortest_pass(schedule, report);
    const double wanted = shortest > 0 ? report.makespan / shortest * wanted_pass : 1;
    const double title = 7.5 * static_cast<double>(summary(schedule, report).size());
    width_ = std::clamp(wanted, std::max(min_width, title - right), max_width);
    scale_ = report.makespan > 0 ? width_ / report.makespan : 1;
  }

  std::string write() {
    const double height = top + schedule_.ranks() * row + bottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        left + width_ + right, height);
    text(left, 20, "start", summary(schedule_, report_), "#222222", "font-size=\"14\"");
    legend();
    for (int rank = 0; rank < schedule_.ranks(); ++rank) line(rank);
    axis();
    return out_ + "</svg>\n";
  }

 private:
  static constexpr double wanted_pass = 26, min_width = 640, max_width = 6000;
  static constexpr double left = 64, right = 76, top = 62, bottom = 40, row = 30, gap = 3;

  void text(double x, double y, const char* anchor, std::string_view words, const char* colour,
            const char* more = "") {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" {}>{}</text>\n",
                    x, y, anchor, colour, more, words);
  }

  void box(double x, double y, double width, double height, const Colour& colour) {
    out_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"white\" stroke-width=\"0.7\"/>\n",
        x, y, width, height, colour.text());
  }

  void legend() {
    double x = left;
    const auto entry = [&](ActionKind kind, std::string_view name) {
      for (int chunk = 0; chunk < std::min(schedule_.chunks(), 4); ++chunk) {
        box(x, 32, 14, 14, colour_of(kind, chunk, schedule_.chunks()));
        x += 15;
      }
      text(x + 4, 44, "start", name, "#444444");
      x += 20 + 6.2 * static_cast<double>(name.size());
    };
    entry(ActionKind::forward, "forward");
    if (splits_backward(schedule_.kind)) {
      entry(ActionKind::input_grad, "input gradient");
      entry(ActionKind::weight_grad, "weight gradient");
    } else {
      entry(ActionKind::backward, "backward");
    }
    if (schedule_.chunks() > 1) text(x, 44, "start", "(paler: chunks after the first)", "#444444");
  }

  void line(int rank) {
    const double y = top + rank * row;
    text(left - 8, y + 18, "end", fmt::format("rank {}", rank), "#222222");
    out_ += fmt::format(
        "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#f0f0f0\"/>\n", left,
        y, width_, row - gap);
    for (std::size_t i = 0; i < schedule_.actions[rank].size(); ++i) {
      const Action& action = schedule_.actions[rank][i];
      if (is_compute(action.kind)) pass(action, report_.ranks[rank].spans[i], y);
    }
    const double share = report_.makespan > 0 ? report_.ranks[rank].idle / report_.makespan : 0;
    text(left + width_ + 6, y + 18, "start", fmt::format("{:.0f}% idle", 100 * share), "#666666");
  }

  void pass(const Action& action, const Span& span, double y) {
    const double width = (span.end - span.begin) * scale_;
    const Colour colour = colour_of(action.kind, action.chunk, schedule_.chunks());
    box(left + span.begin * scale_, y, width, row - gap, colour);
    const std::string number = std::to_string(action.micro_batch);
    if (width < 7.5 * static_cast<double>(number.size()) + 2) return;
    text(left + span.begin * scale_ + width / 2, y + 18, "middle", number,
         colour.dark() ? "#ffffff" : "#222222");
  }

  void axis() {
    const double y = top + schedule_.ranks() * row + 4;
    const double target = report_.makespan / std::max(4.0, width_ / 120);
    const double power = target > 0 ? std::pow(10, std::floor(std::log10(target))) : 1;
    const double ratio = target / power;
    const double step = power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
    for (int i = 0; target > 0 && i * step <= report_.makespan * (1 + 1e-9); ++i) {
      const double x = left + i * step * scale_;
      out_ += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
          "stroke=\"#888888\"/>\n",
          x, y, y + 4);
      text(x, y + 17, "middle", fmt::format("{:g}", i * step), "#666666");
    }
    text(left + width_ / 2, y + 32, "middle",
         options_.unit.empty() ? "time, in passes" : "time, " + options_.unit, "#666666");
  }

  const Schedule& schedule_;
  const ScheduleReport& report_;
  const DrawOptions& options_;
  double width_ = 0;
  double scale_ = 1;
  std::string out_;
};

}  // namespace

ScheduleDrawing draw_schedule(const Schedule& schedule, const ScheduleReport& report,
                              const DrawOptions& options) {
  return {draw_text(schedule, report, options), SvgWriter(schedule, report, options).write()};
}

}  // namespace trireme
