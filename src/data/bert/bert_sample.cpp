// Segments, truncation and masking.
#include "data/bert/bert_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kMaxRun = 3;

using Ids = std::vector<std::int32_t>;

Ids joined(std::span<const Ids> sentences) {
  Ids all;
  for (const Ids& sentence : sentences) all.insert(all.end(), sentence.begin(), sentence.end());
  return all;
}

// Takes tokens off either end of the longer segment until both have `target` together.
void truncate(std::span<const std::int32_t>& a, std::span<const std::int32_t>& b,
              std::int32_t target, NumpyRandom& random) {
  while (a.size() + b.size() > static_cast<std::size_t>(target)) {
    std::span<const std::int32_t>& longer = a.size() > b.size() ? a : b;
    longer = random.random() < 0.5 ? longer.subspan(1) : longer.first(longer.size() - 1);
  }
}

// The words of a sequence: runs of positions; [CLS] and [SEP] belong to none.
std::vector<std::vector<std::int32_t>> words_of(const Ids& tokens,
                                                const BertVocabulary& vocabulary) {
  std::vector<std::vector<std::int32_t>> words;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == vocabulary.cls || tokens[i] == vocabulary.sep) continue;
    if (!vocabulary.continues[tokens[i]] || words.empty()) words.emplace_back();
    words.back().push_back(static_cast<std::int32_t>(i));
  }
  return words;
}

// P(n) proportional to 1/n; divided by the sum twice, as upstream does.
std::array<double, kMaxRun> run_probabilities() {
  std::array<double, kMaxRun> p;
  for (int n = 1; n <= kMaxRun; ++n) p[n - 1] = 1.0 / n;
  for (int times = 0; times < 2; ++times) {
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= sum;
  }
  return p;
}

class Masker {
 public:
  Masker(const BertVocabulary& vocabulary, NumpyRandom& random, BertSampleResult& sample)
      : vocabulary_(vocabulary),
        random_(random),
        sample_(sample),
        words_(words_of(sample.tokens, vocabulary)),
        masked_(sample.tokens.size(), false) {}

  // Masks up to `wanted` tokens, which need not be a whole number.
  void run(double wanted) {
    static const std::array<double, kMaxRun> probabilities = run_probabilities();
    std::vector<std::int32_t> order(words_.size());
    std::iota(order.begin(), order.end(), 0);
    random_.shuffle(std::span(order));
    for (const std::int32_t word : order) {
      if (count() >= wanted) break;
      const auto n = static_cast<int>(random_.choice(probabilities)) + 1;
      const Ids positions = fitting_run(word, n, wanted);
      const auto taken = [&](std::int32_t p) { return static_cast<bool>(masked_[p]); };
      if (std::ranges::any_of(positions, taken)) continue;
      for (const std::int32_t position : positions) mask(position);
    }
    collect();
  }

 private:
  double count() const { return static_cast<double>(masked_count_); }

  // The longest run of at most n words from `word` on that does not exceed what is wanted; empty if
  // even the word itself does.
  Ids fitting_run(std::int32_t word, int n, double wanted) const {
    for (; n > 0; --n) {
      const std::size_t end = std::min(words_.size(), static_cast<std::size_t>(word + n));
      Ids positions = joined(std::span(words_).subspan(word, end - word));
      if (wanted >= count() + static_cast<double>(positions.size())) return positions;
    }
    return {};
  }

  void mask(std::int32_t position) {
    masked_[position] = true;
    ++masked_count_;
    original_.push_back({position, sample_.tokens[position]});
    if (random_.random() < 0.8) {
      sample_.tokens[position] = vocabulary_.mask;
    } else if (random_.random() >= 0.5) {
      sample_.tokens[position] = static_cast<std::int32_t>(random_.randint(0, vocabulary_.size()));
    }
  }

  void collect() {
    std::ranges::sort(original_);
    for (const auto& [position, label] : original_) {
      sample_.positions.push_back(position);
      sample_.labels.push_back(label);
    }
  }

  const BertVocabulary& vocabulary_;
  NumpyRandom& random_;
  BertSampleResult& sample_;
  const std::vector<Ids> words_;
  std::vector<bool> masked_;
  std::int64_t masked_count_ = 0;
  std::vector<std::pair<std::int32_t, std::int32_t>> original_;  // position, token
};

}  // namespace

BertVocabulary bert_vocabulary(const Tokenizer& tokenizer) {
  const SpecialIds& special = tokenizer.special();
  if (special.cls < 0 || special.sep < 0 || special.mask < 0) {
    fail_input(
        "BERT requires a vocabulary with [CLS], [SEP] and [MASK]; this tokenizer lacks one of "
        "them");
  }
  BertVocabulary vocabulary{special.cls, special.sep, special.mask, std::max(special.pad, 0), {}};
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocabulary.continues.push_back(tokenizer.token_bytes(id).starts_with("##"));
  }
  return vocabulary;
}

BertSampleResult make_bert_sample(const std::vector<Ids>& sentences, std::int32_t target,
                                  const BertVocabulary& vocabulary,
                                  const BertSampleOptions& options, NumpyRandom& random) {
  BertSampleResult sample;
  std::size_t pivot = sentences.size();
  if (options.order_head) {
    TRIREME_CHECK(sentences.size() >= 2);
    pivot = 1;
    if (sentences.size() >= 3) {
      pivot =
          static_cast<std::size_t>(random.randint(1, static_cast<std::int64_t>(sentences.size())));
    }
    sample.swapped = random.random() < 0.5;
  }
  const Ids before = joined(std::span(sentences).first(pivot));
  const Ids after = joined(std::span(sentences).subspan(pivot));
  std::span<const std::int32_t> a = before, b = after;
  if (sample.swapped) std::swap(a, b);
  truncate(a, b, target, random);

  sample.tokens.push_back(vocabulary.cls);
  sample.tokens.insert(sample.tokens.end(), a.begin(), a.end());
  sample.tokens.push_back(vocabulary.sep);
  sample.segments.assign(sample.tokens.size(), 0);
  if (!b.empty()) {
    sample.tokens.insert(sample.tokens.end(), b.begin(), b.end());
    sample.tokens.push_back(vocabulary.sep);
    sample.segments.resize(sample.tokens.size(), 1);
  }
  const double share =
      std::nearbyint(static_cast<double>(sample.tokens.size()) * options.mask_prob);
  Masker(vocabulary, random, sample)
      .run(std::min(options.mask_prob * target, std::max(1.0, share)));
  return sample;
}

}  // namespace trireme
