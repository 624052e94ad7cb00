// Layers that know how tensor parallelism cuts them (Shoeybi et al. 2019), with sequence
// parallelism as their gather and scatter form (Korthikanti et al. 2022). Each adds its parameters,
// this rank's pieces of them, and its ops to a graph; sizes are the whole layer's. With one rank
// they are the plain layers, op by op.
//
// Between layers activations are [rows, hidden]: the same on all ranks, or with sequence
// parallelism each rank's part of the rows, in the order of the ranks. Inside a pair of a column-
// and a row-parallel layer they are [all rows, this rank's columns].
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace trireme {

// This rank's place among those that split every layer.
struct TensorParallel {
  int size = 1;
  int rank = 0;
  bool sequence_parallel = false;  // norms, dropout and residuals on a part of the rows each
  // Equal parts of what ranks may split, on all of them together, whose sums do not depend on the
  // number of ranks (LeafCut); a power of two that `size` divides. 0: each rank's part is one.
  int leaves = 0;

  int local_leaves() const { return leaves / size; }
  bool splits_rows() const { return sequence_parallel && size > 1; }
  GraphGroup group() const { return {GroupKind::tensor, size}; }
  // This rank's part of `whole` equal things, which must divide.
  std::int64_t share(std::int64_t whole) const;
  // Rows of activations between layers, and the first of them, where the micro-batch has `rows`.
  std::int64_t local_rows(std::int64_t rows) const { return splits_rows() ? share(rows) : rows; }
  std::int64_t first_row(std::int64_t rows) const { return splits_rows() ? rank * share(rows) : 0; }
};

// The attention heads of a rank: whole groups, each some queries with the key and the value that
// they share; or, where ranks outnumber the groups, a part of one group's queries with a copy of
// its key and value, which `copies` neighbors have.
struct HeadShare {
  std::int64_t groups, queries_per_group;
  int copies = 1, copy = 0;  // and the number of this rank's copy

  // Either number of ranks or of groups must divide the other, and the ranks the heads.
  static HeadShare of(const TensorParallel& tp, std::int64_t heads, std::int64_t kv_heads);
};

// Queries, keys and values of all heads, group by group: [rows, hidden] to [all rows, this rank's
// groups x (queries_per_group + 2) x head_dim].
struct HeadProjection {
  std::string name;
  std::int64_t hidden, heads, kv_heads, head_dim;
  bool bias;
  double init_std;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// Weights of the norm of queries and keys over all heads: partitioned like the heads.
struct HeadWeights {
  std::string name;  // of the parameters, before ".query_norm.weight" and ".key_norm.weight"
  std::int64_t heads, kv_heads, head_dim;
  bool zero_centered = false;  // start at zero instead of one

  ValueId queries(Graph& g, const TensorParallel& tp) const;
  ValueId keys(Graph& g, const TensorParallel& tp) const;
};

// A small unpartitioned layer shared by all heads, applied to this rank's rows: [rows, in] to
// [rows, out]. Its gradient is that of these rows, or of all of them and then the same on all
// ranks.
struct SharedLinear {
  std::string name;
  std::int64_t in, out;
  double init_std;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// All rows of x, of which each rank then computes its own heads.
ValueId all_rows(Graph& g, const TensorParallel& tp, ValueId x);

// y = x W^T + b with the outputs cut: [rows, in] to [all rows, out / size].
struct ColumnLinear {
  std::string name;  // of the parameters, before ".weight" and ".bias"
  std::int64_t in, out;
  bool bias;
  double init_std;
  int blocks =
      1;  // the outputs are this many equal blocks (gate and up); each is partitioned by itself

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// y = x W^T + b with the inputs cut: [all rows, in / size] to [rows, out].
struct RowLinear {
  std::string name;
  std::int64_t in, out;
  bool bias;
  double init_std;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId x) const;
};

// A table of words, cut by ids: [padded / size, hidden]. Padding, after the last id, makes the cut
// even; it is never saved.
struct VocabTable {
  std::string name;  // of the parameter
  std::int64_t vocab, multiple, hidden;
  double init_std;

  // A multiple of multiple x size, or with leaves of multiple x leaves.
  std::int64_t padded(const TensorParallel& tp) const;
  // First id of this rank, and how many real ones it has (perhaps none).
  std::int64_t first_id(const TensorParallel& tp) const;
  std::int64_t local_ids(const TensorParallel& tp) const;

  ValueId parameter(Graph& g, const TensorParallel& tp) const;
  // One number per word, cut and padded like the table; starts at zero.
  ValueId bias(Graph& g, const TensorParallel& tp, std::string bias_name) const;

  // Marks a parameter whose rows are the words as this rank's part of it.
  void cut(ParameterSpec& spec, const TensorParallel& tp) const;
};

// Words, learned positions and token types (each of these or no_value twice): [rows, hidden].
// `table` is the words' parameter; tokens, positions and types are of [all rows].
struct VocabEmbedding {
  VocabTable words;

  ValueId operator()(Graph& g, const TensorParallel& tp, ValueId tokens, ValueId table,
                     ValueId positions, ValueId position_table, ValueId types = no_value,
                     ValueId type_table = no_value) const;
};

// Loss per row over a cut vocabulary, the same on all ranks. Logits are made slice by slice of
// rows, each of at most `logits_bytes` (of this rank's columns) or of one exact block, and never
// gathered.
struct VocabCrossEntropy {
  VocabTable words;
  std::int64_t logits_bytes;
  double soft_cap = 0;  // of logits; 0: none

  // x: [rows, hidden]; table: the words' parameter; targets, weights: [all rows]; bias: of this
  // rank's ids, or no_value. Declares the result token_loss, [all rows].
  void operator()(Graph& g, const TensorParallel& tp, ValueId x, ValueId table, ValueId targets,
                  ValueId weights, ValueId bias = no_value) const;
};

}  // namespace trireme
