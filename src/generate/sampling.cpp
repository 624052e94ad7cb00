// The sampling chain.
#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr float kDropped = -std::numeric_limits<float>::infinity();

// exp(logit - largest) of every token; 0 for dropped ones. In double, since long tails add up.
std::vector<double> exponentials(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values(logits.size());
  std::transform(logits.begin(), logits.end(), values.begin(), [&](float logit) {
    return std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  });
  return values;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

void check_scores(std::span<const float> logits) {
  const auto is_nan = [](float logit) { return std::isnan(logit); };
  if (std::any_of(logits.begin(), logits.end(), is_nan) ||
      !std::isfinite(*std::max_element(logits.begin(), logits.end()))) {
    fail(
        "the logits of the next token are not finite: the weights are damaged or training "
        "diverged");
  }
}

}  // namespace

void validate(const SamplingOptions& options) {
  if (!(options.temperature > 0) || !std::isfinite(options.temperature)) {
    fail_input("--temperature {} must be above 0 (to always take the most likely token: --greedy)",
               options.temperature);
  }
  if (options.top_k < 0) fail_input("top_k = {} must be at least 0 (0: off)", options.top_k);
  if (!(options.top_p >= 0 && options.top_p <= 1)) {
    fail_input("--top-p {} must be between 0 and 1 (1: off)", options.top_p);
  }
  if (!(options.repetition_penalty > 0) || !std::isfinite(options.repetition_penalty)) {
    fail_input("repetition_penalty = {} must be above 0 (1: off)", options.repetition_penalty);
  }
}

void penalize_repetition(std::span<float> logits, std::span<const std::int32_t> history,
                         float penalty) {
  if (penalty == 1) return;
  std::vector<std::int32_t> distinct(history.begin(), history.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t token : distinct) {
    TRIREME_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size());
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = std::clamp(logit < 0 ? logit * penalty : logit / penalty,
                       std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  }
}

void apply_temperature(std::span<float> logits, float temperature) {
  // Uses differences to the maximum, since a quotient may overflow a float; only differences
  // matter. If all quotients are finite, they are used as they are.
  const float largest = *std::max_element(logits.begin(), logits.end());
  const float smallest = *std::min_element(logits.begin(), logits.end());
  const bool fits = std::isfinite(largest / temperature) && std::isfinite(smallest / temperature);
  for (float& logit : logits) logit = (fits ? logit : logit - largest) / temperature;
}

void keep_top_k(std::span<float> logits, std::int64_t k) {
  if (k <= 0 || k >= static_cast<std::int64_t>(logits.size())) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  const auto kth = sorted.begin() + (k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (float& logit : logits) {
    if (logit < *kth) logit = kDropped;
  }
}

void keep_top_p(std::span<float> logits, float p) {
  if (p >= 1) return;
  const std::vector<double> weights = exponentials(logits);
  const double enough = static_cast<double>(p) * sum(weights);
  // A max-heap of tokens: usually few are taken, so a full sort would be wasteful.
  const auto less_likely = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x < y : a < b;
  };
  std::vector<std::int32_t> tokens;
  tokens.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kDropped) tokens.push_back(static_cast<std::int32_t>(i));
  }
  std::make_heap(tokens.begin(), tokens.end(), less_likely);
  auto end = tokens.end();
  double taken = 0;
  do {
    std::pop_heap(tokens.begin(), end, less_likely);
    taken += weights[static_cast<std::size_t>(*--end)];
  } while (taken < enough && end != tokens.begin());
  for (auto at = tokens.begin(); at != end; ++at) logits[static_cast<std::size_t>(*at)] = kDropped;
}

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::int32_t draw(std::span<const float> logits, double u) {
  const std::vector<double> weights = exponentials(logits);
  const double target = u * sum(weights);
  double cumulative = 0;
  std::size_t token = 0;
  // The target is below the total, since u < 1, so the search always ends by the last
  // token.
  for (; token < weights.size(); ++token) {
    cumulative += weights[token];
    if (cumulative > target) break;
  }
  TRIREME_CHECK(token < weights.size());
  return static_cast<std::int32_t>(token);
}

std::int32_t next_token(std::span<float> logits, std::span<const std::int32_t> history,
                        const SamplingOptions& options, std::uint64_t seed, std::uint64_t sequence,
                        std::uint64_t position) {
  TRIREME_CHECK(!logits.empty());
  check_scores(logits);
  penalize_repetition(logits, history, options.repetition_penalty);
  if (!options.sample) return argmax(logits);
  apply_temperature(logits, options.temperature);
  keep_top_k(logits, options.top_k);
  keep_top_p(logits, options.top_p);
  return draw(logits, uniform(seed, sequence, position));
}

}  // namespace trireme
