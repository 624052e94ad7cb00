// Parses batch-size schedules and computes the batch sizes of a run.
#include "config/batch_sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

constexpr const char* schedule_form =
    "expected THRESHOLD:SIZE pairs separated by spaces or commas, such as \"0:768 250B:1536 "
    "500B:3072\", with thresholds in tokens (or samples, written 1000s) and the suffixes K, M, B "
    "and T";

[[noreturn]] void refuse_pair(std::string_view pair, const char* why) {
  fail_input("train.batch_size_schedule: '{}' {}; {}", pair, why, schedule_form);
}

// Parses "64K", "0.128M"; computed in double and truncated, as Megatron does. -1 if malformed.
std::int64_t scaled_number(std::string_view text) {
  double factor = 1;
  if (!text.empty()) {
    const std::size_t suffix = std::string_view("KMBT").find(
        static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (suffix != std::string_view::npos) {
      factor = std::pow(1000.0, static_cast<double>(suffix + 1));
      text.remove_suffix(1);
    }
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const double value = number * factor;
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value < 1e18))
    return -1;
  return static_cast<std::int64_t>(value);
}

BatchSizeFrom read_pair(std::string_view pair, std::int64_t seq_length) {
  const std::size_t colon = pair.find(':');
  if (colon == std::string_view::npos) refuse_pair(pair, "has no colon");
  std::string_view threshold = pair.substr(0, colon);
  const bool in_samples = threshold.ends_with('s') || threshold.ends_with('S');
  if (in_samples) threshold.remove_suffix(1);
  const std::int64_t from = scaled_number(threshold), size = scaled_number(pair.substr(colon + 1));
  if (from < 0) refuse_pair(pair, "does not begin with a number of tokens or samples");
  if (size < 1) refuse_pair(pair, "does not end with a batch size of 1 or more");
  return {in_samples ? from : from / std::max<std::int64_t>(1, seq_length), size};
}

std::int64_t smallest_batch(const Config& config, std::int64_t world_size) {
  return config.train.micro_batch_size * data_parallel_size(config.parallel, world_size);
}

}  // namespace

std::vector<BatchSizeFrom> batch_size_schedule(const Config& config) {
  constexpr std::string_view blanks = " ,\t\n\r";
  const std::string_view text = config.train.batch_size_schedule;
  std::vector<BatchSizeFrom> schedule;
  for (std::size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    schedule.push_back(read_pair(text.substr(at, end - at), config.model.seq_length));
    at = text.find_first_not_of(blanks, end);
  }
  if (schedule.empty()) {
    if (!text.empty()) refuse_pair(text, "contains no pair");
    return schedule;
  }
  std::ranges::stable_sort(schedule, {}, &BatchSizeFrom::samples);
  if (schedule.front().samples != 0) {
    fail_input(
        "train.batch_size_schedule = {:?} gives no batch size for the start of the run: one "
        "threshold must be 0",
        text);
  }
  for (std::size_t i = 1; i < schedule.size(); ++i) {
    if (schedule[i].samples > schedule[i - 1].samples) continue;
    fail_input(
        "train.batch_size_schedule = {:?} gives two sizes, {} and {}, starting at sample {} "
        "(model.seq_length = {}): each threshold must be at least one sample above the previous "
        "one",
        text, schedule[i - 1].size, schedule[i].size, schedule[i].samples, config.model.seq_length);
  }
  return schedule;
}

std::vector<std::int64_t> batch_sizes(const Config& config, std::int64_t world_size) {
  const std::int64_t full = global_batch_size(config, world_size);
  std::set<std::int64_t> sizes = {full};
  for (const BatchSizeFrom& from : batch_size_schedule(config)) sizes.insert(from.size);
  if (const auto& ramp = config.train.rampup_batch_size; ramp.size() == 3 && ramp[1] > 0)
    for (std::int64_t size = ramp[0]; size < full; size += ramp[1]) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

std::int64_t global_batch_size(const Config& config, std::int64_t world_size) {
  if (const auto schedule = batch_size_schedule(config); !schedule.empty())
    return schedule.back().size;
  const std::int64_t given = config.train.global_batch_size;
  return given > 0 ? given : smallest_batch(config, world_size);
}

std::int64_t evaluation_batch_size(const Config& config, std::int64_t world_size) {
  return config.train.batch_size_schedule.empty() ? global_batch_size(config, world_size)
                                                  : smallest_batch(config, world_size);
}

}  // namespace trireme
