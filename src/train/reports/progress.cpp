// Progress lines and the live bar of a training run.
#include "train/reports/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

constexpr auto kRedrawEvery = std::chrono::milliseconds(200);
constexpr int kWidestBar = 30;

std::string seconds_text(double seconds) {
  return fmt::format("{:.{}f} s/step", seconds, seconds < 1 ? 3 : seconds < 100 ? 2 : 0);
}

std::string flops_text(double flops_per_second) {
  return flops_per_second >= 1e12 ? fmt::format("{:.2f} TFLOP/s", flops_per_second / 1e12)
                                  : fmt::format("{:.2f} GFLOP/s", flops_per_second / 1e9);
}

}  // namespace

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.2f}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.{}f}", count, count < 100 ? 1 : 0);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "n/a";
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::string progress_bar(std::int64_t done, std::int64_t total, int width) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const int filled = static_cast<int>(share * width);
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < width) bar += '>' + std::string(static_cast<std::size_t>(width - filled - 1), ' ');
  return fmt::format("[{}] {:3.0f}%", bar, std::floor(share * 100));
}

namespace {

// A part of a progress line, with the separator before it.
struct Piece {
  std::string text;
  int rank;  // the parts with the lowest ranks stay if space is short; 0: always
};

std::vector<Piece> pieces_of(const ProgressReport& r) {
  const std::string total = fmt::format("{}", r.iterations);
  std::vector<Piece> pieces = {
      {fmt::format("step {:>{}}/{} | loss {:.4f}", r.iteration, total.size(), total, r.loss), 0}};
  std::string parts;
  for (const auto& [word, loss] : r.parts)
    parts += fmt::format("{}{} {:.4f}", parts.empty() ? "" : ", ", word, loss);
  if (!parts.empty()) pieces.push_back({fmt::format(" ({})", parts), 5});
  pieces.push_back({fmt::format(", lr {:.2e}", r.lr), 4});
  pieces.push_back({fmt::format(", grad {:.3f}", r.grad_norm), 3});
  if (r.loss_scale) pieces.push_back({fmt::format(", scale {:g}", *r.loss_scale), 8});
  if (r.skipped > 0) pieces.push_back({fmt::format(", skipped {}", r.skipped), 0});
  pieces.push_back({fmt::format(" | {}", seconds_text(r.seconds_per_iteration)), 0});
  pieces.push_back({fmt::format(", {} samples/s", count_text(r.samples_per_second)), 7});
  pieces.push_back({fmt::format(", {} tok/s", count_text(r.tokens_per_second)), 2});
  pieces.push_back(
      {fmt::format(", {}{}", flops_text(r.flops_per_second), r.devices > 1 ? " per rank" : ""), 6});
  if (r.peak_flops > 0)
    pieces.push_back({fmt::format(", MFU {:.1f}%", 100 * r.flops_per_second / r.peak_flops), 9});
  pieces.push_back({fmt::format(" | mem {}", bytes_text(r.memory_bytes)), 10});
  const double left = static_cast<double>(r.iterations - r.iteration) * r.seconds_per_iteration;
  pieces.push_back({fmt::format(" | left {}", duration_text(left)), 1});
  return pieces;
}

}  // namespace

std::string progress_line(const ProgressReport& r, std::size_t columns) {
  int rank = lowest_progress_rank;
  return progress_line(r, columns, rank);
}

std::string progress_line(const ProgressReport& r, std::size_t columns, int& rank) {
  const std::vector<Piece> pieces = pieces_of(r);
  const auto line_up_to = [&](int last) {
    std::string line;
    for (const Piece& piece : pieces)
      if (piece.rank <= last) line += piece.text;
    return line;
  };
  while (rank > 0 && line_up_to(rank).size() > columns) --rank;
  return line_up_to(rank);
}

Progress::Progress(Console& console, std::int64_t first, std::int64_t iterations)
    : console_(console), first_(first), iterations_(iterations) {}

void Progress::draw(std::int64_t iteration, double loss) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto done = static_cast<double>(iteration - first_);
  const double left = elapsed / done * static_cast<double>(iterations_ - iteration);
  const std::string text = fmt::format("  step {}/{}  loss {:.4f}  left {}", iteration, iterations_,
                                       loss, duration_text(left));
  // A wrapped line could not be erased: brackets and percentage take 7 columns, one stays free.
  const int columns = console_.columns();
  const int width = std::min(kWidestBar, columns - static_cast<int>(text.size()) - 8);
  std::string line = width >= 5 ? progress_bar(iteration, iterations_, width) + text : text;
  line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(columns - 1, 0))));
  console_.draw(line);
}

void Progress::tick(std::int64_t iteration, double loss) {
  if (!console_.is_live()) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && now - last_drawn_ < kRedrawEvery) return;
  drawn_ = true;
  last_drawn_ = now;
  draw(iteration, loss);
}

void Progress::report(const ProgressReport& report) {
  const std::size_t columns = console_.line_columns();
  if (columns != columns_) rank_ = lowest_progress_rank;
  columns_ = columns;
  const std::size_t room = columns - std::min(columns, time_of_day().size() + 1);
  console_.print_now(progress_line(report, room, rank_), progress_line(report));
}

}  // namespace trireme
