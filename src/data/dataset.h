// A dataset: a fixed, ordered list of training samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"

namespace trireme {

// A run of tokens of one sequence of an indexed dataset, or of one document of a source.
struct SamplePart {
  const std::string* prefix;  // of the indexed dataset, or a file; lives as long as the dataset
  std::int64_t sequence;      // in that dataset; for GPT data one sequence is one document
  std::int64_t first, last;   // tokens [first, last] of the sequence
  std::int64_t group = -1;    // of a source: the row group or block in which `sequence` is a row
};

// Immutable after construction: all methods are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual std::int64_t seq_length() const = 0;

  // Writes sample `index` of [0, size()) to a row of a batch. Throws bad_input where the data is
  // not what its index promises or holds ids outside the vocabulary.
  virtual void fill(std::int64_t index, const BatchRow& row) const = 0;

  // Sources of a sample's tokens, in order.
  virtual std::vector<SamplePart> parts(std::int64_t index) const = 0;

  // Equal for two datasets only if they give the same places of the corpus in the same order. A run
  // that resumes compares it with the one it stored: the order depends on the number of samples
  // asked for, so that more iterations can reorder everything.
  virtual std::uint64_t order_key() const = 0;
};

}  // namespace trireme
