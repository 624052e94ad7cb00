// Strides of each reordering.
#include "graph/ops/context_orders.h"

#include <utility>

namespace trireme::ops {
namespace {

ReorderAttributes inverse(ReorderAttributes order, std::int64_t rows, std::int64_t columns) {
  order.rows = rows;
  order.columns = columns;
  for (BlockCopy& copy : order.copies) copy = copy.inverse();
  return order;
}

}  // namespace

ReorderAttributes whole_sequences(const ContextShape& s, std::int64_t columns) {
  const std::int64_t block = s.chunk * columns, last = 2 * s.ranks - 1;
  ReorderAttributes order{s.batch * s.seq(), columns, 2, {}};
  for (BlockCopy& copy :
       order.copies) {  // of [ranks, batch, 2, block] to [batch, 2 * ranks, block]
    copy.counts[0] = s.ranks;
    copy.counts[1] = s.batch;
    copy.src_strides[0] = s.batch * 2 * block;
    copy.src_strides[1] = 2 * block;
    copy.dst_strides[0] = block;
    copy.dst_strides[1] = s.seq() * columns;
    copy.width = block;
  }
  BlockCopy& second = order.copies[1];
  second.src_first = block;
  second.dst_first = last * block;
  second.dst_strides[0] = -block;
  return order;
}

ReorderAttributes parts_of_sequences(const ContextShape& s, std::int64_t columns) {
  return inverse(whole_sequences(s, columns), s.batch * s.seq(), columns);
}

ReorderAttributes whole_statistics(const ContextShape& s, std::int64_t groups, std::int64_t heads) {
  const std::int64_t pairs = s.batch * groups, half = heads * s.chunk, last = 2 * s.ranks - 1;
  ReorderAttributes order{pairs * heads, s.seq(), 2, {}};
  for (BlockCopy& copy : order.copies) {
    copy.counts[0] = s.ranks;
    copy.counts[1] = pairs;
    copy.counts[2] = heads;
    copy.src_strides[0] = pairs * 2 * half;
    copy.src_strides[1] = 2 * half;
    copy.src_strides[2] = s.chunk;
    copy.dst_strides[0] = s.chunk;
    copy.dst_strides[1] = heads * s.seq();
    copy.dst_strides[2] = s.seq();
    copy.width = s.chunk;
  }
  BlockCopy& second = order.copies[1];
  second.src_first = half;
  second.dst_first = last * s.chunk;
  second.dst_strides[0] = -s.chunk;
  return order;
}

ReorderAttributes columns_apart(std::int64_t rows, std::int64_t parts, std::int64_t columns) {
  ReorderAttributes order{parts * rows, columns, 1, {}};
  BlockCopy& copy = order.copies[0];
  copy.counts[0] = parts;
  copy.counts[1] = rows;
  copy.dst_strides[0] = rows * columns;
  copy.dst_strides[1] = columns;
  copy.src_strides[0] = columns;
  copy.src_strides[1] = parts * columns;
  copy.width = columns;
  return order;
}

ReorderAttributes columns_together(std::int64_t rows, std::int64_t parts, std::int64_t columns) {
  return inverse(columns_apart(rows, parts, columns), rows, parts * columns);
}

ReorderAttributes ends_of_groups(std::int64_t rows, std::int64_t groups, std::int64_t whole,
                                 std::int64_t kept) {
  ReorderAttributes order{rows, groups * kept, 1, {}};
  BlockCopy& copy = order.copies[0];
  copy.counts[0] = rows;
  copy.counts[1] = groups;
  copy.dst_strides[0] = groups * kept;
  copy.dst_strides[1] = kept;
  copy.src_strides[0] = groups * whole;
  copy.src_strides[1] = whole;
  copy.src_first = whole - kept;
  copy.width = kept;
  return order;
}

}  // namespace trireme::ops
