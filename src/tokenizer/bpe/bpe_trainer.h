// Trains a byte-level BPE vocabulary (Sennrich et al. 2016) on pieces split by GPT-2's pattern.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tokenizer/vocabulary.h"

namespace trireme {

// Number of occurrences of each distinct piece in the training text.
class PieceCounts {
 public:
  // Counts the pieces of `text` as one document.
  void add(std::string_view text);
  void add(const PieceCounts& other);

  // Distinct pieces with their counts, sorted by their bytes: the same whatever the order of
  // adding.
  std::vector<std::pair<std::string_view, std::uint64_t>> sorted() const;
  std::uint64_t total() const { return total_; }

 private:
  void count(std::string_view piece, std::uint64_t times);

  Vocabulary pieces_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

// Counts the pieces of whole files on all threads of the global pool.
PieceCounts count_text_file(const fs::path& file);
// Counts each line's string at `key` as a document of its own. Errors: a line that is not such an
// object is bad input, named by its number.
PieceCounts count_jsonl_file(const fs::path& file, const std::string& key);

struct TrainedBpe {
  std::vector<std::string> tokens;  // by id: the 256 bytes in GPT-2's order, then one per merge
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // in order of rank
};

// Merges the most frequent pair of neighbors until there are `vocab_size` tokens, <|endoftext|>
// included, or no pair occurs twice. Ties are broken by the smaller ids, so the result depends on
// nothing but the counts. Errors: vocab_size outside 257 .. 2^24.
TrainedBpe train_bpe(const PieceCounts& counts, std::int64_t vocab_size);

// Writes vocab.json and merges.txt; <|endoftext|> has the last id.
void write_gpt2_files(const TrainedBpe& trained, const fs::path& folder);

}  // namespace trireme
