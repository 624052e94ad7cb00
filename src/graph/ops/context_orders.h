// Reorderings of values between the layouts of context-parallel ranks.
#pragma once

#include "graph/graph.h"

namespace trireme::ops {

// Share of a context-parallel rank: sequences have 2 * ranks chunks; rank r holds chunks r and 2 *
// ranks - 1 - r, in this order.
struct ContextShape {
  std::int64_t ranks, batch, chunk;

  std::int64_t seq() const { return 2 * ranks * chunk; }
  std::int64_t local_rows() const { return batch * 2 * chunk; }
};

// [ranks * own rows, columns], as gathered, to [batch * seq, columns].
ReorderAttributes whole_sequences(const ContextShape& s, std::int64_t columns);
// Inverse of whole_sequences().
ReorderAttributes parts_of_sequences(const ContextShape& s, std::int64_t columns);
// Statistics [ranks * batch * groups * 2 * heads, chunk], as gathered, to
// [batch * groups * heads, seq].
ReorderAttributes whole_statistics(const ContextShape& s, std::int64_t groups, std::int64_t heads);
// [rows, parts * columns] to [parts * rows, columns]: makes each part of the columns contiguous.
ReorderAttributes columns_apart(std::int64_t rows, std::int64_t parts, std::int64_t columns);
// Inverse of columns_apart().
ReorderAttributes columns_together(std::int64_t rows, std::int64_t parts, std::int64_t columns);
// Takes the last `kept` columns of each of `groups` groups of `whole` ones: [rows, groups * kept].
ReorderAttributes ends_of_groups(std::int64_t rows, std::int64_t groups, std::int64_t whole,
                                 std::int64_t kept);

}  // namespace trireme::ops
