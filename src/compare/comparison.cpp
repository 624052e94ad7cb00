// Pairs tensors by name and compares them in pieces of equal ranges.
#include "compare/comparison.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "base/stop.h"
#include "compare/settings.h"
#include "model/transformer.h"

namespace trireme {
namespace {

constexpr std::int64_t piece = std::int64_t{1} << 22;  // elements

bool is_state(std::string_view name) {
  return name.starts_with("optimizer.");
}

// Order of tensors: weights as the forward pass reads them, then each kind of optimizer state in
// the same order, then others.
class ForwardOrder {
 public:
  explicit ForwardOrder(const ModelConfig& model) {
    BuildOptions options;
    options.purpose = Purpose::scoring;
    options.seq = 1;
    for (const Parameter& parameter : build_model(model, options).parameters)
      places_.emplace(parameter.name, places_.size());
  }

  // Sort key: the kind of state ("" for weights), then the position, then the name.
  using Key = std::tuple<std::string, std::size_t, std::string>;
  Key key(const std::string& name) const {
    std::string kind, parameter = name;
    if (is_state(name)) {
      const std::size_t end = name.find('.', name.find('.') + 1);
      kind = name.substr(0, end);
      parameter = end == std::string::npos ? "" : name.substr(end + 1);
    }
    const auto found = places_.find(parameter);
    return {kind, found == places_.end() ? std::numeric_limits<std::size_t>::max() : found->second,
            name};
  }

 private:
  std::map<std::string, std::size_t> places_;
};

struct Paired {
  std::optional<std::size_t> a, b;  // indices into both sides' lists
};

std::map<std::string, Paired> pair_by_name(const Contents& a, const Contents& b, bool with_states) {
  std::map<std::string, Paired> pairs;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) pairs[a.tensors[i].name].a = i;
  for (std::size_t i = 0; i < b.tensors.size(); ++i) pairs[b.tensors[i].name].b = i;
  if (!with_states) std::erase_if(pairs, [](const auto& pair) { return is_state(pair.first); });
  return pairs;
}

TensorDifference read_both(const Contents& a, std::size_t in_a, const Contents& b, std::size_t in_b,
                           std::vector<std::byte> (&memory)[2]) {
  const HeldTensor &of_a = a.tensors[in_a], &of_b = b.tensors[in_b];
  TensorDifference difference(of_a.dtype, of_b.dtype);
  const std::int64_t count = of_a.shape.count();
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    check_stopped();
    const std::int64_t end = std::min(count, begin + piece);
    memory[0].resize(static_cast<std::size_t>((end - begin) * size_of(of_a.dtype)));
    memory[1].resize(static_cast<std::size_t>((end - begin) * size_of(of_b.dtype)));
    a.read(in_a, begin, end, memory[0].data());
    b.read(in_b, begin, end, memory[1].data());
    difference.add(memory[0].data(), memory[1].data(), end - begin);
  }
  return difference;
}

// Orders incomparable tensors first, then by difference.
bool is_larger(const TensorPair& a, const TensorPair& b) {
  const auto key = [](const TensorPair& pair) {
    const bool read = pair.difference.has_value();
    return std::tuple(!read, read && pair.difference->not_finite() > 0,
                      read ? pair.difference->largest_absolute() : 0);
  };
  return key(a) > key(b);
}

class Comparer {
 public:
  Comparer(const Contents& a, const Contents& b, const CompareOptions& options)
      : a_(a), b_(b), options_(options) {}

  Comparison compare() {
    found_.lacks_states = !options_.weights_only && (!a_.state || !b_.state);
    const bool with_states = !options_.weights_only && !found_.lacks_states;
    const ForwardOrder order(a_.model);
    std::map<ForwardOrder::Key, TensorPair> differing;
    for (const auto& [name, pair] : pair_by_name(a_, b_, with_states))
      if (auto differs = compare_pair(name, pair)) differing.emplace(order.key(name), *differs);
    for (auto& [key, pair] : differing) found_.differing.push_back(std::move(pair));
    sort();
    if (with_states) found_.positions = differing_positions(a_, b_);
    found_.model = differing_results(a_.model, b_.model);
    found_.settings = differing_settings(a_, b_);
    return std::move(found_);
  }

 private:
  std::optional<TensorPair> compare_pair(const std::string& name, const Paired& pair) {
    TensorPair both{.name = name};
    if (pair.a) both.a = a_.tensors[*pair.a];
    if (pair.b) both.b = b_.tensors[*pair.b];
    if (!both.a || !both.b) return both;
    if (both.a->shape != both.b->shape ||
        !TensorDifference::comparable(both.a->dtype, both.b->dtype))
      return both;
    const TensorDifference& difference =
        both.difference.emplace(read_both(a_, *pair.a, b_, *pair.b, memory_));
    ++found_.tensors;
    found_.elements += difference.elements();
    const bool same = both.a->dtype == both.b->dtype && difference.differing() == 0;
    const bool rounded = !same && options_.rounded && difference.rounded();
    if (!same && !rounded) return both;
    ++found_.equal;
    found_.rounded += rounded ? 1 : 0;
    return std::nullopt;
  }

  // They are in forward order before sorting.
  void sort() {
    if (found_.differing.empty()) return;
    const std::string first = found_.differing.front().name;
    std::ranges::stable_sort(found_.differing, is_larger);
    const auto at = std::ranges::find(found_.differing, first, &TensorPair::name);
    found_.first_position = static_cast<std::size_t>(at - found_.differing.begin());
  }

  const Contents &a_, &b_;
  const CompareOptions& options_;
  Comparison found_;
  std::vector<std::byte> memory_[2];
};

}  // namespace

const TensorPair* Comparison::first() const {
  return differing.empty() ? nullptr : &differing[first_position];
}

Comparison compare(const Contents& a, const Contents& b, const CompareOptions& options) {
  return Comparer(a, b, options).compare();
}

}  // namespace trireme
