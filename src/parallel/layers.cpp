// Sharding of each layer's parameters, and its collectives.
#include "parallel/layers.h"

#include <algorithm>
#include <numeric>

#include "base/divide.h"
#include "base/error.h"
#include "graph/ops/ops.h"

namespace trireme {
namespace {

using Init = ParameterSpec::Init;
using Clip = ParameterSpec::Clip;

// Enters a region where every rank has all rows: the backward pass sums the ranks' gradients. With
// leaves, the following layer makes that sum.
ValueId enter(Graph& g, const TensorParallel& tp, ValueId x) {
  if (tp.leaves > 0) return tp.splits_rows() ? ops::gather_rows(g, x, tp.group(), tp.rank) : x;
  return tp.splits_rows() ? ops::all_gather(g, x, tp.group())
                          : ops::grad_all_reduce(g, x, tp.group());
}

// Leaves the region, summing over ranks. In place only if x may still become an internal view.
ValueId leave(Graph& g, const TensorParallel& tp, ValueId x, bool in_place) {
  return tp.splits_rows() ? ops::reduce_scatter(g, x, tp.group())
                          : ops::all_reduce(g, x, tp.group(), in_place);
}

LeafCut leaf_cut(const TensorParallel& tp, bool of_inputs, int blocks = 1) {
  return {tp.leaves > 0 ? tp.local_leaves() : 0, blocks, of_inputs, tp.group()};
}

// Declares that leaves are cut at multiples of `adjacent` elements of a parameter.
void cut_squares(ParameterSpec& spec, const TensorParallel& tp, std::int64_t adjacent) {
  if (tp.leaves > 0) spec.squares_at_once = std::gcd(spec.squares_at_once, adjacent);
}

// The same if leaves cut `rows` rows, or elements of a vector.
void cut_row_squares(ParameterSpec& spec, const TensorParallel& tp, std::int64_t rows) {
  if (tp.leaves > 0) cut_squares(spec, tp, rows / tp.leaves * (spec.shape.count() / spec.shape[0]));
}

// Splits dimension 0 of a full parameter into `blocks` equal blocks, each sharded over ranks.
std::vector<RowPiece> pieces_of_blocks(const TensorParallel& tp, std::int64_t rows, int blocks) {
  const std::int64_t block = rows / blocks, part = tp.share(block);
  std::vector<RowPiece> pieces;
  pieces.reserve(static_cast<std::size_t>(blocks));
  for (int b = 0; b < blocks; ++b) {
    pieces.push_back({b * part, b * block + tp.rank * part, part});
  }
  return pieces;
}

}  // namespace

std::int64_t TensorParallel::share(std::int64_t whole) const {
  TRIREME_CHECK(whole % size == 0);
  return whole / size;
}

HeadShare HeadShare::of(const TensorParallel& tp, std::int64_t heads, std::int64_t kv_heads) {
  if (kv_heads % tp.size == 0) return {tp.share(kv_heads), heads / kv_heads};
  TRIREME_CHECK(tp.size % kv_heads == 0);
  const int copies = tp.size / static_cast<int>(kv_heads);
  return {1, tp.share(heads), copies, tp.rank % copies};
}

HeadShare HeadShare::computed(const TensorParallel& tp, std::int64_t heads, std::int64_t kv_heads) {
  const HeadShare own = of(tp, heads, kv_heads);
  if (tp.leaves <= kv_heads) return own;
  return {tp.local_leaves(), heads / tp.leaves, own.copies, own.copy};
}

ValueId HeadProjection::operator()(Graph& g, const TensorParallel& tp, ValueId x) const {
  const HeadShare own = HeadShare::of(tp, heads, kv_heads);
  const std::int64_t queries = heads / kv_heads * head_dim,
                     out = kv_heads * (queries + 2 * head_dim);
  const std::int64_t local = own.groups * (own.queries_per_group + 2) * head_dim;
  ParameterSpec weight{name + ".weight", {local, hidden}, {out, hidden},
                       Init::normal,     init_std,        true};
  ParameterSpec shift{name + ".bias", {local}, {out}, Init::zeros, 0, false};
  weight.matrix_rows = {queries, head_dim, head_dim};
  weight.clip_rows = {{Clip::query, queries}, {Clip::key, head_dim}, {Clip::nothing, head_dim}};
  LeafCut leaves = leaf_cut(tp, false);
  if (tp.leaves > kv_heads) {
    leaves.groups = own.groups;
    leaves.shared = 2 * head_dim;
  }
  for (ParameterSpec* spec : {&weight, &shift}) {
    spec->split = tp.size > 1;
    // With shared heads, leaves cut a group's queries.
    cut_row_squares(*spec, tp, leaves.shared > 0 ? heads * head_dim : out);
    if (leaves.shared > 0) cut_squares(*spec, tp, spec->shape.count() / local * leaves.shared);
    if (own.copies > 1) {
      const std::int64_t group = tp.rank / own.copies * (queries + 2 * head_dim);
      const std::int64_t part = own.queries_per_group * head_dim;
      spec->pieces = {{0, group + own.copy * part, part}, {part, group + queries, 2 * head_dim}};
      spec->copies = own.copies;
      spec->copy = own.copy;
      spec->copied_rows = 2 * head_dim;
    } else if (tp.size > 1) {
      spec->pieces = pieces_of_blocks(tp, out, 1);
    }
  }
  const ValueId w = g.parameter(std::move(weight));
  const ValueId b = bias ? g.parameter(std::move(shift)) : no_value;
  return ops::linear(g, enter(g, tp, x), w, b, {.leaves = leaves});
}

ValueId HeadWeights::queries(Graph& g, const TensorParallel& tp) const {
  const std::int64_t width = heads * head_dim;
  const Init init = zero_centered ? Init::zeros : Init::ones;
  ParameterSpec spec{name + ".query_norm.weight", {tp.share(width)}, {width}, init, 0, false};
  spec.is_qk_norm = true;
  spec.split = tp.size > 1;
  if (spec.split) spec.pieces = pieces_of_blocks(tp, width, 1);
  cut_row_squares(spec, tp, width);
  return g.parameter(std::move(spec));
}

ValueId HeadWeights::keys(Graph& g, const TensorParallel& tp) const {
  const HeadShare own = HeadShare::of(tp, heads, kv_heads);
  const std::int64_t width = kv_heads * head_dim, local = own.groups * head_dim;
  const Init init = zero_centered ? Init::zeros : Init::ones;
  ParameterSpec spec{name + ".key_norm.weight", {local}, {width}, init, 0, false};
  spec.is_qk_norm = true;
  spec.split = tp.size > 1;
  if (spec.split) spec.pieces = {{0, tp.rank / own.copies * local, local}};
  cut_row_squares(spec, tp, width);
  if (own.copies > 1) {
    spec.copies = own.copies;
    spec.copy = own.copy;
    spec.copied_rows = local;
  }
  return g.parameter(std::move(spec));
}

ValueId SharedLinear::operator()(Graph& g, const TensorParallel& tp, ValueId x) const {
  ParameterSpec weight{name + ".weight", {out, in}, {out, in}, Init::normal, init_std, true};
  weight.matrix_rows = {out};
  weight.partial_gradient = tp.splits_rows();
  return ops::linear(g, x, g.parameter(std::move(weight)), no_value);
}

ValueId all_rows(Graph& g, const TensorParallel& tp, ValueId x) {
  return enter(g, tp, x);
}

ValueId ColumnLinear::operator()(Graph& g, const TensorParallel& tp, ValueId x) const {
  const std::int64_t local = tp.share(out);
  ParameterSpec weight{name + ".weight", {local, in}, {out, in}, Init::normal, init_std, true};
  ParameterSpec shift{name + ".bias", {local}, {out}, Init::zeros, 0, false};
  weight.matrix_rows = std::vector<std::int64_t>(blocks, out / blocks);
  weight.clip_rows = clip_rows;
  if (tp.size > 1) {
    weight.split = shift.split = true;
    weight.pieces = shift.pieces = pieces_of_blocks(tp, out, blocks);
  }
  for (ParameterSpec* spec : {&weight, &shift}) cut_row_squares(*spec, tp, out / blocks);
  const ValueId w = g.parameter(std::move(weight));
  const ValueId b = bias ? g.parameter(std::move(shift)) : no_value;
  return ops::linear(g, enter(g, tp, x), w, b, {.leaves = leaf_cut(tp, false, blocks)});
}

ValueId RowLinear::operator()(Graph& g, const TensorParallel& tp, ValueId x) const {
  const std::int64_t local = tp.share(in);
  ParameterSpec weight{name + ".weight", {out, local}, {out, in}, Init::normal, init_std, true};
  weight.matrix_rows = {out};
  weight.split = tp.size > 1;
  weight.first_column = tp.rank * local;
  if (tp.leaves > 0) cut_squares(weight, tp, in / tp.leaves);
  const ValueId w = g.parameter(std::move(weight));
  const ValueId b =
      bias ? g.parameter({name + ".bias", {out}, {out}, Init::zeros, 0, false}) : no_value;
  if (tp.leaves > 0) {
    const ValueId y = ops::linear(g, x, w, b, {.leaves = leaf_cut(tp, true)});
    return tp.splits_rows() ? ops::local_rows(g, y, tp.group(), tp.rank) : y;
  }
  // One rank adds the bias, so that the sum has it once; its gradient is complete on all ranks.
  return leave(g, tp, ops::linear(g, x, w, b, {.adds_bias = tp.rank == 0}), true);
}

std::int64_t VocabTable::padded(const TensorParallel& tp) const {
  const std::int64_t unit = std::max<std::int64_t>(1, multiple) * std::max(tp.size, tp.leaves);
  return (vocab + unit - 1) / unit * unit;
}

std::int64_t VocabTable::first_id(const TensorParallel& tp) const {
  return std::min(vocab, tp.rank * tp.share(padded(tp)));
}

std::int64_t VocabTable::local_ids(const TensorParallel& tp) const {
  return std::min(tp.share(padded(tp)), vocab - first_id(tp));
}

ValueId VocabTable::parameter(Graph& g, const TensorParallel& tp) const {
  ParameterSpec spec{name, {tp.share(padded(tp)), hidden}, {vocab, hidden}, Init::normal, init_std,
                     true};
  spec.is_table = true;
  cut(spec, tp);
  return g.parameter(std::move(spec));
}

ValueId VocabTable::bias(Graph& g, const TensorParallel& tp, std::string bias_name) const {
  ParameterSpec spec{std::move(bias_name), {tp.share(padded(tp))}, {vocab}, Init::zeros, 0, false};
  cut(spec, tp);
  return g.parameter(std::move(spec));
}

void VocabTable::cut(ParameterSpec& spec, const TensorParallel& tp) const {
  cut_row_squares(spec, tp, padded(tp));
  if (tp.size == 1) return;
  spec.split = true;
  // One piece with 0 rows if this rank has only padding: an empty list would mean all rows.
  spec.pieces = {{0, first_id(tp), local_ids(tp)}};
}

ValueId VocabEmbedding::operator()(Graph& g, const TensorParallel& tp, ValueId tokens,
                                   ValueId table, ValueId positions, ValueId position_table,
                                   ValueId types, ValueId type_table) const {
  // The rank that owns a word also adds position and type: the sum over ranks is exact.
  const ValueId x = ops::embedding(g, tokens, table, positions, position_table, words.first_id(tp),
                                   types, type_table);
  if (tp.leaves > 0) return ops::select_rows(g, x, tp.group(), tp.splits_rows());
  return leave(g, tp, x, false);
}

// Limit on the number of logits slices: each adds a few nodes to the graph, whose plan must not
// grow with the sequence length.
constexpr std::int64_t most_slices = 1024;

void VocabCrossEntropy::operator()(Graph& g, const TensorParallel& tp, ValueId x, ValueId table,
                                   ValueId targets, ValueId weights, ValueId bias) const {
  const ValueId losses = g.new_value(g.accumulate(), {g.value(targets).shape.count()});
  g.set_result(losses, ResultOutput::token_loss);
  write(g, tp, x, table, targets, weights, bias, losses, 0);
}

void VocabCrossEntropy::write(Graph& g, const TensorParallel& tp, ValueId x, ValueId table,
                              ValueId targets, ValueId weights, ValueId bias, ValueId losses,
                              std::int64_t first_loss) const {
  const std::int64_t rows = g.value(targets).shape.count();
  const ValueId all_x = enter(g, tp, x);
  // With leaves, the slices must not depend on the number of ranks.
  const std::int64_t columns = tp.leaves > 0 ? words.padded(tp) : g.value(table).shape[0];
  const std::int64_t row_bytes = columns * size_of(g.compute());
  const std::int64_t slices = std::clamp<std::int64_t>(
      (rows * row_bytes + logits_bytes - 1) / logits_bytes, 1, std::min(rows, most_slices));
  const std::int64_t rows_per_slice =
      round_up((rows + slices - 1) / slices, std::max<std::int64_t>(1, g.exact_block()));
  for (std::int64_t first = 0; first < rows; first += rows_per_slice) {
    const std::int64_t count = std::min(rows_per_slice, rows - first);
    ValueId logits = ops::linear(g, ops::slice(g, all_x, first, count), table, bias,
                                 {.leaves = leaf_cut(tp, false)});
    if (soft_cap > 0) logits = ops::soft_cap(g, logits, soft_cap);
    const ValueId token_loss = ops::cross_entropy(
        g, logits, ops::slice(g, targets, first, count), ops::slice(g, weights, first, count),
        words.local_ids(tp), words.first_id(tp), tp.group(), leaf_cut(tp, false).count);
    g.place_in(token_loss, losses, (first_loss + first) * size_of(g.accumulate()));
  }
}

}  // namespace trireme
