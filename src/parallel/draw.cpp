// Text diagrams with one line per rank, and SVG diagrams for browsers.
#include "parallel/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

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

// Inputs of a diagram: the schedule, its spans, and the numbers of its micro-batches.
struct Picture {
  const Schedule& schedule;
  const ScheduleReport& report;
  const DrawOptions& options;

  const Schedule& whole() const { return options.whole ? *options.whole : schedule; }
  const ScheduleReport& costs() const {
    return options.whole_report ? *options.whole_report : report;
  }
  // Micro-batches in the second half of the step are numbered after the omitted ones.
  int number(const Action& action, const Span& span) const {
    return action.micro_batch + (span.begin > report.makespan / 2 ? options.left_out : 0);
  }
};

// One cell of a line: "F12 ", "B3--- ", or just letters if there is no room.
std::string cell(const Action& action, int number, int width) {
  std::string text = fmt::format("{}{}", letter(action), number);
  if (static_cast<int>(text.size()) > width) return std::string(width, letter(action));
  if (static_cast<int>(text.size()) == width) return text;
  text.resize(width - 1, '-');
  return text + ' ';
}

// Keeps the first and the last columns of a line that is too long.
std::string without_middle(const std::string& line, std::size_t length, std::size_t columns) {
  if (length <= columns) return line;
  const std::size_t half = (columns - 5) / 2;
  std::string padded = line;
  padded.resize(length, ' ');
  return padded.substr(0, half) + " ... " + padded.substr(length - half);
}

std::string draw_text(const Picture& picture) {
  const auto& [schedule, report, options] = picture;
  const double shortest = shortest_pass(schedule, report);
  const int label = static_cast<int>(std::to_string(picture.whole().micro_batches - 1).size()) + 2;
  const double scale = shortest > 0 ? label / shortest : 1;  // columns per unit of time
  const auto length = static_cast<std::size_t>(std::lround(report.makespan * scale));
  std::string text = summary(picture.whole(), picture.costs()) + "\n" + legend(schedule) + "\n";
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::string line(length, ' ');
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      if (!is_compute(action.kind)) continue;
      const Span& span = report.ranks[rank].spans[i];
      const auto begin = std::lround(span.begin * scale);
      const auto end = std::lround(span.end * scale);
      line.replace(begin, end - begin,
                   cell(action, picture.number(action, span), static_cast<int>(end - begin)));
    }
    line = without_middle(line, length, static_cast<std::size_t>(options.columns));
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("rank {:>2} |{}\n", rank, line);
  }
  return text;
}

// Blue forward, green backward, orange weight gradient; paler for each chunk after the first.
struct Color {
  int r, g, b;

  Color paler(double share) const {
    const auto mix = [&](int c) { return static_cast<int>(c + (255 - c) * share); };
    return {mix(r), mix(g), mix(b)};
  }
  bool dark() const { return 0.299 * r + 0.587 * g + 0.114 * b < 140; }
  std::string text() const { return fmt::format("#{:02x}{:02x}{:02x}", r, g, b); }
};

Color color_of(ActionKind kind, int chunk, int chunks) {
  static constexpr Color colors[] = {{49, 104, 168}, {47, 125, 79}, {47, 125, 79}, {201, 115, 26}};
  const double share = chunks > 1 ? 0.6 * chunk / (chunks - 1) : 0;
  return colors[static_cast<int>(kind)].paler(share);
}

// A time interval of the step and its position in the diagram.
struct Window {
  double begin, end;  // time
  double x;
};

class SvgWriter {
 public:
  explicit SvgWriter(const Picture& picture)
      : picture_(picture),
        schedule_(picture.schedule),
        report_(picture.report),
        options_(picture.options) {
    const double shortest = shortest_pass(schedule_, report_);
    scale_ = shortest > 0 ? pass_width / shortest : 1;
    // The ramp-up of the pipeline and a few more micro-batches.
    const double shown = std::clamp(2.0 * schedule_.ranks() + 16, 30.0, 60.0) * shortest;
    if (report_.makespan <= 2.2 * shown) {
      windows_ = {{0, report_.makespan, left}};
    } else {
      const double second = left + shown * scale_ + break_width;
      windows_ = {{0, shown, left}, {report_.makespan - shown, report_.makespan, second}};
    }
    const Window& last = windows_.back();
    right_edge_ = last.x + (last.end - last.begin) * scale_;
    const double words = 7 * static_cast<double>(costs_text(picture.costs()).size());
    width_ = std::max({right_edge_ + right, left + words + 10, min_width});
  }

  std::string write() {
    const double height = top + schedule_.ranks() * row + bottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width_, height);
    text(left, 20, "start", title(picture_.whole()), "#222222", "font-size=\"15\"");
    legend();
    for (int rank = 0; rank < schedule_.ranks(); ++rank) line(rank);
    if (windows_.size() > 1) mark_break();
    axis();
    text(left, top + schedule_.ranks() * row + 50, "start",
         "B" + costs_text(picture_.costs()).substr(1) + ".", "#222222", "font-size=\"13\"");
    return out_ + "</svg>\n";
  }

 private:
  static constexpr double pass_width = 23, break_width = 64, min_width = 640;
  static constexpr double left = 64, right = 76, top = 62, bottom = 64, row = 30, gap = 3;

  void text(double x, double y, const char* anchor, std::string_view words, const char* color,
            const char* more = "") {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" {}>{}</text>\n",
                    x, y, anchor, color, more, words);
  }

  void box(double x, double y, double width, double height, const Color& color) {
    out_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"white\" stroke-width=\"0.7\"/>\n",
        x, y, width, height, color.text());
  }

  void legend() {
    double x = left;
    const auto entry = [&](ActionKind kind, std::string_view name) {
      for (int chunk = 0; chunk < std::min(schedule_.chunks(), 4); ++chunk) {
        box(x, 32, 14, 14, color_of(kind, chunk, schedule_.chunks()));
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
    for (const Window& window : windows_) {
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#f0f0f0\"/>\n",
          window.x, y, (window.end - window.begin) * scale_, row - gap);
      for (std::size_t i = 0; i < schedule_.actions[rank].size(); ++i) {
        const Action& action = schedule_.actions[rank][i];
        if (is_compute(action.kind)) pass(action, report_.ranks[rank].spans[i], window, y);
      }
    }
    const ScheduleReport& costs = picture_.costs();
    const double share = costs.makespan > 0 ? costs.ranks[rank].idle / costs.makespan : 0;
    text(right_edge_ + 6, y + 18, "start", fmt::format("{:.1f}% idle", 100 * share), "#666666");
  }

  // Draws the part of a pass inside a window.
  void pass(const Action& action, const Span& span, const Window& window, double y) {
    const double begin = std::max(span.begin, window.begin), end = std::min(span.end, window.end);
    if (begin >= end) return;
    const double x = window.x + (begin - window.begin) * scale_, width = (end - begin) * scale_;
    const Color color = color_of(action.kind, action.chunk, schedule_.chunks());
    box(x, y, width, row - gap, color);
    const std::string number = std::to_string(picture_.number(action, span));
    const bool small = width < 7.5 * static_cast<double>(number.size()) + 2;
    if (small && width < 5.6 * static_cast<double>(number.size()) + 1) return;
    text(x + width / 2, y + 18, "middle", number, color.dark() ? "#ffffff" : "#222222",
         small ? "font-size=\"9\"" : "");
  }

  void mark_break() {
    const double x = windows_[1].x - break_width / 2;
    const double middle = top + (schedule_.ranks() * row - gap) / 2;
    text(x, middle + 4, "middle", "&#8943;", "#666666", "font-size=\"24\"");
    text(x, middle + 22, "middle", "repeats", "#666666", "font-size=\"11\"");
  }

  void axis() {
    const double y = top + schedule_.ranks() * row + 4;
    const double target = 120 / scale_;
    const double power = target > 0 ? std::pow(10, std::floor(std::log10(target))) : 1;
    const double ratio = target / power;
    const double step = power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
    // Times after the break are those of the full step.
    const double later = picture_.costs().makespan - report_.makespan;
    for (const Window& window : windows_) {
      const double shift = window.begin > 0 ? later : 0;
      const double first = std::max(0.0, std::ceil((window.begin + shift) / step - 1e-9)) * step;
      for (double time = first; time <= (window.end + shift) * (1 + 1e-9); time += step) {
        const double x = window.x + (time - shift - window.begin) * scale_;
        out_ += fmt::format(
            "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
            "stroke=\"#888888\"/>\n",
            x, y, y + 4);
        text(x, y + 17, "middle", fmt::format("{:g}", time), "#666666");
      }
    }
    text(right_edge_ + 6, y + 17, "start", options_.unit.empty() ? "passes" : options_.unit,
         "#666666");
  }

  const Picture& picture_;
  const Schedule& schedule_;
  const ScheduleReport& report_;
  const DrawOptions& options_;
  std::vector<Window> windows_;
  double width_ = 0, right_edge_ = 0;
  double scale_ = 1;  // points per unit of time
  std::string out_;
};

}  // namespace

ScheduleDrawing draw_schedule(const Schedule& schedule, const ScheduleReport& report,
                              const DrawOptions& options) {
  TRIREME_CHECK(schedule.loops.empty());
  const Picture picture{schedule, report, options};
  return {draw_text(picture), SvgWriter(picture).write()};
}

ScheduleDrawing draw_even_schedule(const Schedule& schedule, const ScheduleReport& report) {
  const int p = schedule.ranks(), enough = 8 * p + 40;
  DrawOptions options;
  options.whole = &schedule;
  options.whole_report = &report;
  ScheduleRequest request{schedule.kind, p, schedule.micro_batches, schedule.chunks()};
  request.written_out = true;
  if (schedule.micro_batches > enough) {
    request.micro_batches = enough + (schedule.micro_batches - enough) % p;
    options.left_out = schedule.micro_batches - request.micro_batches;
  }
  const Schedule drawn = make_schedule(request);
  return draw_schedule(drawn, check_schedule(drawn), options);
}

}  // namespace trireme
