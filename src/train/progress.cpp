// Lines and the live bar of a training run.
#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme {
namespace {

constexpr auto kRedrawEvery = std::chrono::milliseconds(200);
constexpr int kWidestBar = 30;

int terminal_width(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string flops_text(double flops_per_second) {
  return flops_per_second >= 1e11 ? fmt::format("{:.2f} TFLOP/s", flops_per_second / 1e12)
                                  : fmt::format("{:.4f} TFLOP/s", flops_per_second / 1e12);
}

}  // namespace

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.2f}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
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

std::string progress_line(const ProgressReport& r) {
  const std::string total = fmt::format("{}", r.iterations);
  std::string line =
      fmt::format("step {:>{}}/{} | loss {:.4f}", r.iteration, total.size(), total, r.loss);
  if (r.order_loss)
    line += fmt::format(" (words {:.4f}, order {:.4f})", r.loss - *r.order_loss, *r.order_loss);
  line += fmt::format(" | lr {:.2e} | grad {:.3f}", r.lr, r.grad_norm);
  if (r.loss_scale) line += fmt::format(" | scale {:g}", *r.loss_scale);
  if (r.skipped > 0) line += fmt::format(" | skipped {}", r.skipped);
  line += fmt::format(" | {} tok/s | {}{}", count_text(r.tokens_per_second),
                      flops_text(r.flops_per_second), r.devices > 1 ? " per rank" : "");
  line += r.peak_flops ? fmt::format(" | MFU {:.1f}%", 100 * r.flops_per_second / *r.peak_flops)
                       : std::string(" | MFU n/a");
  const double left = static_cast<double>(r.iterations - r.iteration) * r.seconds_per_iteration;
  return line + fmt::format(" | mem {} | left {}", bytes_text(r.memory_bytes), duration_text(left));
}

Progress::Progress(std::FILE* out, std::int64_t first, std::int64_t iterations, bool live)
    : out_(out),
      terminal_(live && ::isatty(::fileno(out)) == 1),
      first_(first),
      iterations_(iterations),
      start_(Clock::now()),
      last_drawn_(start_) {}

Progress::~Progress() {
  erase();
}

void Progress::erase() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", out_);  // to the start of the line, clear it
  std::fflush(out_);
  drawn_ = false;
}

void Progress::draw(std::int64_t iteration, double loss) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto done = static_cast<double>(iteration - first_);
  const double left = elapsed / done * static_cast<double>(iterations_ - iteration);
  const std::string text = fmt::format("  step {}/{}  loss {:.4f}  left {}", iteration, iterations_,
                                       loss, duration_text(left));
  // A line that wraps could not be erased: brackets and percentage take 7 columns, one stays free.
  const int columns = terminal_width(out_);
  const int width = std::min(kWidestBar, columns - static_cast<int>(text.size()) - 8);
  std::string line = width >= 5 ? progress_bar(iteration, iterations_, width) + text : text;
  line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(columns - 1, 0))));
  std::fprintf(out_, "\r%s\x1b[K", line.c_str());
  std::fflush(out_);
  drawn_ = true;
}

void Progress::tick(std::int64_t iteration, double loss) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && now - last_drawn_ < kRedrawEvery) return;
  last_drawn_ = now;
  draw(iteration, loss);
}

void Progress::report(const ProgressReport& report) {
  note(progress_line(report));
}

void Progress::note(const std::string& line) {
  erase();
  std::fprintf(out_, "%s\n", line.c_str());
  std::fflush(out_);
}

}  // namespace trireme
