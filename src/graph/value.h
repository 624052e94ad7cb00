// Values of a graph: role, type and shape of a tensor, and the value whose memory it aliases.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"

namespace trireme {

using ValueId = std::int32_t;
inline constexpr ValueId no_value = -1;

// Origin of a value, which determines its memory region. The planner places internal values: in the
// saved region if a later phase reads them, otherwise in scratch.
enum class Role : std::uint8_t {
  internal,
  parameter,    // index: parameter of the segment; stored in the compute type
  gradient,     // index: parameter of the segment; accumulated over micro-batches
  constant,     // index: ConstantInput
  batch,        // index: BatchInput; one set per micro-batch in flight
  input,        // activation that enters the segment
  output,       // activation that leaves it
  output_grad,  // gradient that enters the backward pass
  input_grad,   // gradient that leaves it
  result,       // index: ResultOutput; read by the trainer
  cache,        // index: CacheBuffer; what generation keeps of earlier positions
};

// Inputs that the data loader provides for each micro-batch.
enum class BatchInput : std::int32_t {
  tokens,           // i32 [rows]
  targets,          // i32 [rows]
  loss_weights,     // f32 [rows]
  positions,        // i32 [rows]
  sample_ids,       // i64 [batch]
  first_visible,    // i32 [rows]: packed documents
  first_in_window,  // i32 [rows]: the same within the window of attention
  lengths,         // i32 [batch]: cached positions before this call (generation), or positions that
                   // are not padding (bert)
  segments,        // i32 [rows]: token types (bert)
  first_rows,      // i32 [batch]: the row at which each sequence begins (bert)
  predicted_rows,  // i32 [batch * predictions]: rows that targets and loss weights are for (bert)
  order_labels,    // i32 [batch]: 1 where the segments are swapped (bert)
  new_tokens,      // i32 [batch]: positions of this call that are not padding (generation)
  count,
};

// Tables indexed by position, in the accumulation type: [positions, rotary dimensions / 2]; for
// queries [positions].
enum class ConstantInput : std::int32_t {
  rope_cos,
  rope_sin,
  rope_cos_local,  // of sliding-window layers, if their rotary frequencies differ
  rope_sin_local,
  query_factor,
  no_rope_query_factor,
  zeros,  // in the compute type: weights of norms that have none
  count,
};
enum class ResultOutput : std::int32_t { token_loss, logits, order_loss, order_logits, count };
// state, inputs: of linear attention and of the short convolution before it.
enum class CacheBuffer : std::int32_t { key, value, state, inputs, count };

struct Value {
  DType dtype;
  Role role;
  std::int32_t index = 0;  // meaning depends on the role
  Shape shape;
  ValueId storage = no_value;    // the value that owns the memory; itself unless a view
  std::int64_t byte_offset = 0;  // within the owner's memory

  std::int64_t bytes() const { return shape.count() * size_of(dtype); }
};

}  // namespace trireme
