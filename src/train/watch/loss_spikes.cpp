// Medians of a window, small enough to be sorted in each step.
#include "train/watch/loss_spikes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

constexpr double normal_deviations = 1.4826;  // standard deviation / MAD
constexpr double least_deviation = 1e-3;      // of the median

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

LossSpikes::LossSpikes(const TrainConfig& config)
    : policy_(config.spike_policy),
      window_(static_cast<std::size_t>(config.spike_window)),
      sigma_(config.spike_sigma),
      back_steps_(config.spike_back_steps) {}

double LossSpikes::median() const {
  return median_of({losses_.begin(), losses_.end()});
}

double LossSpikes::deviation() const {
  const double middle = median();
  std::vector<double> distances;
  for (const double loss : losses_) distances.push_back(std::abs(loss - middle));
  return std::max(normal_deviations * median_of(std::move(distances)),
                  least_deviation * std::abs(middle));
}

bool LossSpikes::is_spike(double loss) const {
  if (!active()) return false;
  if (!std::isfinite(loss)) return true;
  return losses_.size() >= window_ && loss - median() > sigma_ * deviation();
}

std::string LossSpikes::text(double loss) const {
  if (!std::isfinite(loss)) return "the loss or its gradients are not finite";
  return fmt::format(
      "the loss {:.6g} is {:.3g} standard deviations above the median of the last {} ({:.6g})",
      loss, (loss - median()) / deviation(), losses_.size(), median());
}

void LossSpikes::add(double loss) {
  if (!active()) return;
  losses_.push_back(loss);
  if (losses_.size() > window_) losses_.pop_front();
  if (policy_ == SpikePolicy::skip) spikes_ = 0;
}

void LossSpikes::add_spike(double loss) {
  if (++spikes_ < patience) return;
  fail(
      "{}, and {} before it in {}: the cause is the model, not single batches. Decrease {}, or "
      "resume from an earlier checkpoint",
      text(loss), patience - 1,
      policy_ == SpikePolicy::skip ? "the steps right before" : "steps since the last checkpoint",
      std::isfinite(loss) ? "optimizer.lr, increase train.spike_sigma"
                          : "optimizer.lr or a fixed optimizer.loss_scale");
}

void LossSpikes::saved(std::int64_t step) {
  if (!active()) return;
  spikes_ = 0;
  saves_.push_back(step);
  // Only the newest save that is old enough for any future spike matters.
  while (saves_.size() > 1 && saves_[1] + back_steps_ <= step + 1) saves_.erase(saves_.begin());
}

std::optional<std::int64_t> LossSpikes::rollback_step(std::int64_t step) const {
  if (policy_ != SpikePolicy::back) return std::nullopt;
  std::optional<std::int64_t> newest;
  for (const std::int64_t saved : saves_)
    if (saved + back_steps_ <= step) newest = saved;
  return newest;
}

void LossSpikes::rolled_back(const LossSpikes& then, std::int64_t step) {
  losses_ = then.losses_;
  // Later saves belong to an abandoned branch of the run.
  std::erase_if(saves_, [step](std::int64_t saved) { return saved > step; });
}

std::string LossSpikes::json() const {
  return nlohmann::json{{"losses", losses_}, {"saves", saves_}, {"spikes", spikes_}}.dump();
}

void LossSpikes::restore(const std::string& text) {
  if (!active()) return;
  try {
    const auto json = nlohmann::json::parse(text);
    losses_ = json.at("losses").get<std::deque<double>>();
    saves_ = json.at("saves").get<std::vector<std::int64_t>>();
    spikes_ = json.at("spikes").get<int>();
  } catch (const nlohmann::json::exception& error) {
    fail_input("the checkpoint's record of loss spikes cannot be read: {}", error.what());
  }
  while (losses_.size() > window_) losses_.pop_front();
}

}  // namespace trireme
