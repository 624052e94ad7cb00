// Progress display: a line per log interval, and a live bar on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/reports/console.h"

namespace trireme {

// Means over a log interval, as printed.
struct ProgressReport {
  std::int64_t iteration = 0;   // finished
  std::int64_t iterations = 0;  // of the whole run
  double loss = 0;              // token-weighted
  // Components of the loss, if the model has several losses.
  std::vector<std::pair<const char*, double>> parts;
  double lr = 0;
  double grad_norm = 0;          // before clipping
  double tokens_per_second = 0;  // of all ranks
  double samples_per_second = 0;
  int devices = 1;
  double flops_per_second = 0;     // per device, without causal halving
  double peak_flops = 0;           // of a device; 0: not known
  std::uint64_t memory_bytes = 0;  // of this process
  double seconds_per_iteration = 0;
  std::optional<double> loss_scale;  // fp16
  std::int64_t skipped = 0;          // steps without an update, in this interval
};

// Formats "step 100/2000 | loss 3.2187, lr 3.00e-04, grad 1.250 | 0.512 s/step, 31.2 samples/s,
// 51.2k tok/s, 494.50 TFLOP/s, MFU 50.0% | mem 1.5 GiB | left 12m05s". Parts that do not fit into
// `columns` are dropped, memory first; step, loss and step time always remain.
std::string progress_line(const ProgressReport& report, std::size_t columns = std::string::npos);

// The same for consecutive lines. `rank` is the rank of the least important part shown, initially
// the lowest. It only decreases, so that parts do not appear and disappear as the digits of others
// change.
inline constexpr int lowest_progress_rank = 10;
std::string progress_line(const ProgressReport& report, std::size_t columns, int& rank);

// Formats "[=====>    ]  52%", with `width` characters between the brackets.
std::string progress_bar(std::int64_t done, std::int64_t total, int width);

// Formats "48s", "12m05s", "3h07m", "2d04h"; "n/a" for non-finite values.
std::string duration_text(double seconds);

// Formats "512 B", "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

// Formats "980", "51.2k", "1.30M".
std::string count_text(double count);

// Not thread-safe. Prints only when it is called.
class Progress {
 public:
  // Draws on `console`, which must outlive it. `first` is the number of iterations completed before
  // this process started.
  Progress(Console& console, std::int64_t first, std::int64_t iterations);

  // Call after every iteration: redraws the bar, at most a few times per second.
  void tick(std::int64_t iteration, double loss);

  // Prints the line of a log interval: cut to the terminal's width, complete in the file.
  void report(const ProgressReport& report);

 private:
  void draw(std::int64_t iteration, double loss);

  using Clock = std::chrono::steady_clock;
  Console& console_;
  bool drawn_ = false;
  std::size_t columns_ = 0;          // at the last report
  int rank_ = lowest_progress_rank;  // of the parts shown then
  std::int64_t first_;
  std::int64_t iterations_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_ = start_;
};

}  // namespace trireme
