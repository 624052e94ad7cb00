// Adds up the values of all ranks and compares them, part by part.
#include "compare/first_difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/counted.h"

namespace trireme {
namespace {

using Parts = std::vector<ValueSums>;

bool is_near(double value, double expected, double allowed) {
  return std::abs(value - expected) <= allowed || (std::isnan(value) && std::isnan(expected));
}

// Mean square of the elements in the part where it is largest.
double largest_square(const Parts& parts) {
  double largest = 0;
  for (const ValueSums& part : parts)
    if (part.elements > 0)
      largest = std::max(largest, part.squares / static_cast<double>(part.elements));
  return largest;
}

// Values of these kinds have similar sizes; "optimizer.second_moment" has its own.
std::string size_class(const StepPlace& place) {
  std::string name = fmt::format("{} {}", static_cast<int>(place.kind), place.is_forward);
  if (place.kind == StepPlace::Kind::state && place.parameter.starts_with("optimizer."))
    name += place.parameter.substr(0, place.parameter.find('.', 10));
  return name;
}

class StepComparer {
 public:
  StepComparer(const LayoutRun& layout, const LayoutRun& one_rank, double tolerance)
      : layout_(layout), one_rank_(one_rank), tolerance_(tolerance) {}

  ValueComparison compare() {
    for (const auto& step : one_rank_.steps)
      comparison_.values += static_cast<std::int64_t>(step[0].order().size());
    for (std::size_t step = 0; step < one_rank_.steps.size(); ++step) {
      const StepValues& expected = one_rank_.steps[step][0];
      find_sizes(expected);
      for (const std::string& key : expected.order()) {
        comparison_.first = compare_entry(layout_.steps[step], key, *expected.find(key));
        if (!comparison_.first) continue;
        comparison_.first->step = static_cast<int>(step);
        return comparison_;
      }
    }
    return comparison_;
  }

 private:
  void find_sizes(const StepValues& values) {
    sizes_.clear();
    for (const std::string& key : values.order()) {
      const StepValues::Entry& entry = *values.find(key);
      double& size = sizes_[size_class(entry.place)];
      size = std::max(size, largest_square(entry.parts));
    }
  }

  // Whether `part`, whose elements occur `copies` times, is the expected one.
  bool is_same(const ValueSums& part, std::int64_t copies, const ValueSums& expected,
               double square) const {
    if (tolerance_ == 0) return part.hash == static_cast<std::uint64_t>(copies) * expected.hash;
    const auto n = static_cast<double>(expected.elements), k = static_cast<double>(copies);
    return is_near(part.squares / k, expected.squares, 2 * tolerance_ * n * square) &&
           is_near(part.sum / k, expected.sum, tolerance_ * n * std::sqrt(square));
  }

  std::optional<FirstDifference> compare_entry(const std::vector<StepValues>& ranks,
                                               const std::string& key,
                                               const StepValues::Entry& expected) {
    std::map<int, const StepValues::Entry*> found;
    Parts sums(expected.parts.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const StepValues::Entry* const entry = ranks[rank].find(key);
      if (!entry || entry->parts.size() != sums.size() || shares_heads(*entry, expected)) continue;
      found[static_cast<int>(rank)] = entry;
      for (std::size_t p = 0; p < sums.size(); ++p) sums[p] += entry->parts[p];
    }
    const double square =
        std::max(largest_square(expected.parts), 1e-20 * sizes_.at(size_class(expected.place)));
    std::vector<std::size_t> differing;
    bool is_compared = false;
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const std::int64_t all = sums[p].elements, whole = expected.parts[p].elements;
      if (whole == 0) continue;
      const bool is_whole = all > 0 && all % whole == 0;
      if (!is_whole && !is_owned(expected.place)) continue;
      is_compared = true;
      if (!is_whole || !is_same(sums[p], all / whole, expected.parts[p], square))
        differing.push_back(p);
    }
    if (is_compared) ++comparison_.compared;
    if (differing.empty()) return std::nullopt;
    FirstDifference first;
    first.place = found.empty() ? expected.place : found.begin()->second->place;
    first.ranks = ranks_to_blame(found, expected, differing, square);
    first.group = group_of(first.ranks);
    measure(first, sums, expected.parts, differing);
    return first;
  }

  // Whether each element belongs to some rank, so that all ranks together hold all of them.
  static bool is_owned(const StepPlace& place) {
    return place.kind == StepPlace::Kind::gradient || place.kind == StepPlace::Kind::state;
  }

  // Whether tensor-parallel ranks share key and value heads in an op's output: these occur more
  // often than the queries beside them.
  bool shares_heads(const StepValues::Entry& entry, const StepValues::Entry& expected) const {
    return entry.columns != expected.columns &&
           entry.columns * layout_.mesh->degrees().tp != expected.columns;
  }

  // Ranks that have a differing part; without those that have all of it, and right.
  std::vector<int> ranks_to_blame(const std::map<int, const StepValues::Entry*>& found,
                                  const StepValues::Entry& expected,
                                  const std::vector<std::size_t>& differing, double square) const {
    std::vector<int> ranks;
    for (const auto& [rank, entry] : found) {
      const bool is_to_blame = std::ranges::any_of(differing, [&](std::size_t p) {
        const ValueSums &own = entry->parts[p], &whole = expected.parts[p];
        return own.elements > 0 && (own.elements % whole.elements != 0 ||
                                    !is_same(own, own.elements / whole.elements, whole, square));
      });
      if (is_to_blame) ranks.push_back(rank);
    }
    return ranks;
  }

  std::string group_of(const std::vector<int>& ranks) const {
    if (ranks.size() < 2) return "";
    constexpr std::array<std::pair<Axes, const char*>, 9> groups{{
        {Axes::tp, "a tensor-parallel group"},
        {Axes::cp, "a context-parallel group"},
        {Axes::dp, "a data-parallel group"},
        {Axes::pp, "a pipeline"},
        {Axes::tp | Axes::cp, "the tensor- and context-parallel ranks of the same samples"},
        {Axes::dp_cp, "the data- and context-parallel ranks of the same parameters"},
        {Axes::tp | Axes::dp, "the tensor- and data-parallel ranks of a pipeline stage"},
        {Axes::stage, "all ranks of a pipeline stage"},
        {Axes::world, "all ranks"},
    }};
    for (const auto& [axes, name] : groups)
      if (layout_.mesh->group(ranks.front(), axes) == ranks) return name;
    return "";
  }

  static void measure(FirstDifference& first, const Parts& sums, const Parts& expected,
                      const std::vector<std::size_t>& differing) {
    for (const std::size_t p : differing) {
      first.elements_on_one_rank += expected[p].elements;
      first.elements += sums[p].elements;
      first.is_whole &= sums[p].elements > 0 && sums[p].elements % expected[p].elements == 0;
    }
    if (!first.is_whole) return;
    double found = 0, wanted = 0;
    for (const std::size_t p : differing) {
      found += sums[p].squares * static_cast<double>(expected[p].elements) /
               static_cast<double>(sums[p].elements);
      wanted += expected[p].squares;
    }
    first.found = std::sqrt(found);
    first.expected = std::sqrt(wanted);
    const double factor = wanted > 0 ? std::sqrt(found / wanted) : 0;
    if (std::abs(factor - 1) < 0.01 || !std::isfinite(factor)) return;
    for (const std::size_t p : differing) {
      const double part = sums[p].squares * static_cast<double>(expected[p].elements) /
                          static_cast<double>(sums[p].elements);
      if (!is_near(part, factor * factor * expected[p].squares, 0.02 * part)) return;
    }
    if (differing.size() == sums.size()) first.factor = factor;
  }

  const LayoutRun &layout_, &one_rank_;
  const double tolerance_;
  std::map<std::string, double> sizes_;
  ValueComparison comparison_;
};

}  // namespace

std::string FirstDifference::text() const {
  if (!is_whole) {
    return fmt::format("step {}: {} differs first: all ranks together have {}, but one rank has {}",
                       step + 1, place.text(), counted(elements, "element"), elements_on_one_rank);
  }
  std::string on =
      fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
  if (!group.empty()) on += fmt::format(" ({})", group);
  std::string how = fmt::format("norm {:.6g}, on one rank {:.6g}", found, expected);
  if (found == expected)
    how = fmt::format("the norm is equal, {:.6g}, but individual elements differ", found);
  else if (is_near(found, expected, 1e-5 * expected))
    how = fmt::format("norm {}, on one rank {}", found, expected);
  if (factor > 0) how += fmt::format(", {:.4g} times as large everywhere", factor);
  return fmt::format("step {}: {} differs first, on {}: {}", step + 1, place.text(), on, how);
}

ValueComparison compare_values(const LayoutRun& layout, const LayoutRun& one_rank,
                               double tolerance) {
  return StepComparer(layout, one_rank, tolerance).compare();
}

}  // namespace trireme
