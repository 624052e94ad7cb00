// Training: counts of pairs are kept up to date under each merge, a heap finds the most frequent.
#include "tokenizer/bpe/bpe_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "tokenizer/bpe/byte_alphabet.h"

namespace trireme {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

constexpr std::string_view kEndOfText = "<|endoftext|>";

struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t count;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(pair.first)} << 32 |
                              static_cast<std::uint32_t>(pair.second);
    return (key * 0x9E3779B97F4A7C15) >> 20;
  }
};

struct PairInfo {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // where it occurs or has occurred
};

// Ordered so that the top of a heap is the most frequent pair, and of those the smallest.
struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  explicit Trainer(const PieceCounts& counts) {
    for (int byte = 0; byte < 256; ++byte) {
      trained_.tokens.push_back(std::string(1, static_cast<char>(byte)));
    }
    // GPT-2 numbers the bytes in the order of their spellings.
    std::sort(trained_.tokens.begin(), trained_.tokens.end(),
              [](const auto& a, const auto& b) { return spell_bytes(a) < spell_bytes(b); });
    std::vector<std::int32_t> id_of_byte(256);
    for (std::size_t id = 0; id < 256; ++id) {
      const auto byte = static_cast<unsigned char>(trained_.tokens[id][0]);
      id_of_byte[byte] = static_cast<std::int32_t>(id);
    }
    for (const auto& [piece, count] : counts.sorted()) {
      Word word{{}, static_cast<std::int64_t>(count)};
      for (const char byte : piece) {
        word.tokens.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
      }
      if (word.tokens.size() > 1) add(std::move(word));
    }
    for (const auto& [pair, info] : pairs_) heap_.push({info.count, pair});
  }

  TrainedBpe run(std::size_t tokens) {
    while (trained_.tokens.size() < tokens) {
      const auto best = most_frequent();
      if (!best) break;
      merge(*best);
    }
    return std::move(trained_);
  }

 private:
  void add(Word word) {
    const auto index = static_cast<std::uint32_t>(words_.size());
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      change({word.tokens[i], word.tokens[i + 1]}, word.count, index);
    }
    words_.push_back(std::move(word));
  }

  void change(const Pair& pair, std::int64_t by, std::uint32_t word) {
    PairInfo& info = pairs_[pair];
    info.count += by;
    if (by > 0 && (info.words.empty() || info.words.back() != word)) info.words.push_back(word);
  }

  // Counts only fall after a candidate was pushed, so a stale one is pushed again with its count.
  std::optional<Pair> most_frequent() {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      const auto found = pairs_.find(top.pair);
      const std::int64_t count = found == pairs_.end() ? 0 : found->second.count;
      if (count < 2) continue;
      if (count == top.count) return top.pair;
      heap_.push({count, top.pair});
    }
    return std::nullopt;
  }

  void merge(const Pair& pair) {
    const std::int32_t id = token_of(trained_.tokens[static_cast<std::size_t>(pair.first)] +
                                     trained_.tokens[static_cast<std::size_t>(pair.second)]);
    trained_.merges.push_back(pair);
    std::vector<std::uint32_t> words = std::move(pairs_[pair].words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    grown_.clear();
    for (const std::uint32_t word : words) merge_in(word, pair, id);
    pairs_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Pair& grown : grown_) {
      const auto found = pairs_.find(grown);
      if (found != pairs_.end()) heap_.push({found->second.count, grown});
    }
  }

  // Two merges may make the same string ("ab"+"c" and "a"+"bc"), which is one token.
  std::int32_t token_of(const std::string& bytes) {
    const auto next = static_cast<std::int32_t>(trained_.tokens.size());
    const auto [found, added] = id_of_token_.try_emplace(bytes, next);
    if (added) trained_.tokens.push_back(bytes);
    return found->second;
  }

  // Replaces `pair` by `id` in one word, from left to right.
  void merge_in(std::uint32_t index, const Pair& pair, std::int32_t id) {
    std::vector<std::int32_t>& tokens = words_[index].tokens;
    const std::int64_t count = words_[index].count;
    const auto replace = [&](const Pair& old, const Pair& now) {
      change(old, -count, index);
      change(now, count, index);
      grown_.push_back(now);
    };
    std::size_t out = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second) {
        if (out > 0) replace({tokens[out - 1], pair.first}, {tokens[out - 1], id});
        if (i + 2 < tokens.size()) replace({pair.second, tokens[i + 2]}, {id, tokens[i + 2]});
        ++i;
        tokens[out++] = id;
      } else {
        tokens[out++] = tokens[i];
      }
    }
    tokens.resize(out);
  }

  TrainedBpe trained_;
  std::unordered_map<std::string, std::int32_t> id_of_token_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairInfo, PairHash> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<Pair> grown_;  // pairs that became more frequent under the current merge
};

}  // namespace

TrainedBpe train_bpe(const PieceCounts& counts, std::int64_t vocab_size) {
  if (vocab_size < 257 || vocab_size > 1 << 24) {
    fail_input(
        "a byte-level vocabulary must have from 257 (the bytes and {}) to 2^24 tokens, not {}",
        kEndOfText, vocab_size);
  }
  return Trainer(counts).run(static_cast<std::size_t>(vocab_size) - 1);
}

void write_gpt2_files(const TrainedBpe& trained, const fs::path& folder) {
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : trained.merges) {
    merges += spell_bytes(trained.tokens[static_cast<std::size_t>(left)]) + ' ' +
              spell_bytes(trained.tokens[static_cast<std::size_t>(right)]) + '\n';
  }
  std::string vocab = "{";
  for (std::size_t id = 0; id < trained.tokens.size(); ++id) {
    const std::string spelling = nlohmann::json(spell_bytes(trained.tokens[id])).dump();
    vocab += fmt::format("{}: {}, ", spelling, id);
  }
  vocab += fmt::format("\"{}\": {}}}\n", kEndOfText, trained.tokens.size());
  make_folders(folder);
  write_files_durably({{folder / "vocab.json", vocab}, {folder / "merges.txt", merges}});
}

}  // namespace trireme
