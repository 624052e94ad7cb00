// Tensor-parallel layers (Shoeybi et al. 2019), with sequence parallelism as their gather and
// scatter form (Korthikanti et al. 2022). Each layer adds its parameters (this rank's parts) and
// its ops to a graph; sizes are those of the full layer. With a single rank they reduce to the
// plain layers, op by op.
//
// Activations between layers are [rows, hidden]: replicated on all ranks, or with sequence
// parallelism sharded by rows in the order of the ranks. Inside a pair of a column- and a
// row-parallel layer they are [all rows, this rank's columns].
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace trireme {

// This rank's position in the tensor-parallel group.
struct TensorParallel {
  int size = 1;
  int rank = 0;
  bool sequence_parallel = false;  // norms, dropout and residuals each on a shard of the rows
  // Number of equal leaves over all ranks of what ranks may shard, which makes sums independent of
  // the number of ranks (LeafCut): a power of two, divisible by `size`. 0: each part is one leaf.
  int leaves = 0;

  int local_leaves() const { return leaves / size; }
  bool splits_rows() const { return sequence_parallel && size > 1; }
  GraphGroup group() const { return {GroupKind::tensor, size}; }
  // Returns this rank's share of `whole` equal items; fails if `size` does not divide them.
  std::int64_t share(std::int64_t whole) const;
  // Local rows of activations between layers, and the first of them, for a micro-batch of `rows`.
  std::int64_t local_rows(std::int64_t rows) const { return splits_rows() ? share(rows) : rows; }
  std::int64_t first_row(std::int64_t rows) const { return splits_rows() ? rank * share(rows) : 0; }
};

// The attention heads of a rank: whole groups, each with some query heads and their shared key and
// value head; or, with more ranks than groups, a part of one group's queries with a copy of its key
// and value heads, which `copies` neighbors replicate.
struct HeadShare {
  std::int64_t groups, queries_per_group;
  int copies = 1, copy = 0;  // `copy` is this rank's index among them

  // One of the numbers of ranks and groups must divide the other; the ranks must divide the heads.
  static HeadShare of(const TensorParallel& tp, std::int64_t heads, std::int64_t kv_heads);
  // The same as attention computes them: with more leaves than groups, each leaf is a group with
  // its own copy of the key and value head.
  static HeadShare computed(const TensorParallel& tp, std::int64_t heads, std::int64_t kv_heads);
};

// QKV projection of all heads, group by group: [rows, hidden] to [all rows, this rank's groups x
// (queries_per_group + 2) x head_dim], with the groups of HeadShare::computed.
struct HeadProjection {
  std::string name;
  std::int64_t hidden, heads, kv_heads, head_dim;
  bool bias;
  double init_std;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// Weights of a query and key norm that spans all heads: sharded like the heads.
struct HeadWeights {
  std::string name;  // of the parameters, up to ".query_norm.weight" and ".key_norm.weight"
  std::int64_t heads, kv_heads, head_dim;
  bool zero_centered = false;  // initialized to zero instead of one

  ValueId queries(Graph& g, const TensorParallel& tp) const;
  ValueId keys(Graph& g, const TensorParallel& tp) const;
};

// A small replicated layer shared by all heads, applied to this rank's rows: [rows, in] to [rows,
// out]. The weight gradient covers these rows only, or all rows, in which case it is the same on
// all ranks.
struct SharedLinear {
  std::string name;
  std::int64_t in, out;
  double init_std;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// All rows of x, from which each rank computes its own heads.
ValueId all_rows(Graph& g, const TensorParallel& tp, ValueId x);

// Column-parallel linear layer, y = x W^T + b: [rows, in] to [all rows, out / size].
struct ColumnLinear {
  std::string name;  // of the parameters, up to ".weight" and ".bias"
  std::int64_t in, out;
  bool bias;
  double init_std;
  int blocks =
      1;  // the outputs are this many equal blocks (gate and up); each is partitioned by itself
  std::vector<ParameterSpec::ClipRows> clip_rows = {};  // of the weight

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// Row-parallel linear layer, y = x W^T + b: [all rows, in / size] to [rows, out].
struct RowLinear {
  std::string name;
  std::int64_t in, out;
  bool bias;
  double init_std;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// A word embedding table sharded by id: [padded / size, hidden]. Padding after the last id makes
// the shards equal; it is never saved.
struct VocabTable {
  std::string name;  // of the parameter
  std::int64_t vocab, multiple, hidden;
  double init_std;

  // Padded vocabulary: a multiple of multiple x size, or with leaves of multiple x leaves.
  std::int64_t padded(const TensorParallel& tp) const;
  // First id of this rank, and its number of real ids (possibly 0).
  std::int64_t first_id(const TensorParallel& tp) const;
  std::int64_t local_ids(const TensorParallel& tp) const;

  ValueId parameter(Graph& g, const TensorParallel& tp) const;
  // One value per word, sharded and padded like the table; initialized to zero.
  ValueId bias(Graph& g, const TensorParallel& tp, std::string bias_name) const;

  // Marks a parameter whose rows are words as this rank's shard of the vocabulary.
  void cut(ParameterSpec& spec, const TensorParallel& tp) const;
};

// Sum of word, learned position and token type embeddings (no_value twice to omit one of the last
// two): [rows, hidden]. `table` is the word table; tokens, positions and types are [all rows].
struct VocabEmbedding {
  VocabTable words;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId tokens, ValueId table,
                     ValueId positions, ValueId position_table, ValueId types = no_value,
                     ValueId type_table = no_value) const;
};

// Cross-entropy per row over a sharded vocabulary, the same on all ranks. Logits are computed in
// slices of rows, each of at most `logits_bytes` (of this rank's columns) or one exact block, and
// never gathered.
struct VocabCrossEntropy {
  VocabTable words;
  std::int64_t logits_bytes;
  double soft_cap = 0;  // of logits; 0: none

  // x: [rows, hidden]; table: the word table; targets, weights: [all rows]; bias: over this rank's
  // ids, or no_value. Declares the result token_loss, [all rows].
  void operator()(Graph& g, const TensorParallel& tp, ValueId x, ValueId table, ValueId targets,
                  ValueId weights, ValueId bias = no_value) const;
  // The same as elements [first_loss, + all rows) of `losses`.
  void write(Graph& g, const TensorParallel& tp, ValueId x, ValueId table, ValueId targets,
             ValueId weights, ValueId bias, ValueId losses, std::int64_t first_loss) const;
};

}  // namespace trireme
