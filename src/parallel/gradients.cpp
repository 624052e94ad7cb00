// Three paths of gradients from the kernels to the optimizer:
// - in place: kernels add to full accumulators, in floating point or (exact blocks) as integers;
//   after the last micro-batch buckets are reduced;
// - exact or narrow: each segment's gradients are added to integer or bf16 accumulators, which are
//   reduced at the end;
// - sharded (ZeRO 2, 3): each segment's gradients are reduced immediately, and the shards are
//   accumulated.
#include "parallel/gradients.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

Gradients::Gradients(Stage& stage, const StateLayout& layout)
    : stage_(stage),
      layout_(layout),
      made_(stage.definition().gradients()),
      kept_(layout.options().exact              ? DType::i64
            : layout.options().narrow_gradients ? DType::bf16
                                                : made_),
      reduced_(layout.options().exact ? DType::i64 : made_),
      parts_only_(layout.options().zero >= 2) {
  TRIREME_CHECK(kept_ == made_ || made_ == DType::f32);
  const bool windows = layout.gradients_in_windows();
  const std::int64_t kept =
      parts_only_ ? layout.state_elements() : stage.definition().flat_elements;
  memory_.add("gradient sums", windows ? kept * size_of(kept_) : 0);
  // Exact: the whole window as integers; otherwise one rank's part of a reduced window.
  memory_.add("gradients on their way",
              parts_only_ ? 2 * most_staged_elements() * size_of(reduced_) : 0);
  memory_.add("partial gradients on their way", most_partial_elements() * size_of(kept_));
  additions_.resize(layout.buckets());
  written_.resize(layout.buckets());
  reductions_.resize(layout.buckets());
}

std::int64_t Gradients::staged_elements(int bucket) const {
  return made_in(bucket) != reduced_ ? layout_.range(bucket).elements : layout_.part(bucket);
}

std::int64_t Gradients::most_staged_elements() const {
  std::int64_t most = 0;
  for (int segment = 0; segment < stage_.segments(); ++segment) {
    std::int64_t sum = 0;
    for (const int bucket : layout_.buckets_of(segment)) sum += staged_elements(bucket);
    most = std::max(most, sum);
  }
  return most;
}

void Gradients::allocate(const Groups& groups) {
  groups_ = &groups;
  Device& device = stage_.device();
  const auto allocate = [&](int region, std::int64_t parts) {
    const MemoryRegion& r = memory_.regions[static_cast<std::size_t>(region)];
    return MemoryBlock(device, r.bytes / parts, r.name);
  };
  accumulators_ = allocate(0, 1);
  for (MemoryBlock& block : staging_) block = allocate(1, 2);
  joined_ = allocate(2, 1);
}

void Gradients::begin_step(const StepBlock* block, std::int64_t global_summands,
                           std::int64_t* overflows) {
  block_ = block;
  overflows_ = overflows;
  // A tied parameter gets each summand twice, a partial gradient one per tensor-parallel
  // rank.
  limit_ = fixed_point_limit(2 * global_summands * groups_->tensor->size());
  if (made_ == DType::i64 && !layout_.gradients_in_windows()) clear_gaps();
  std::fill(additions_.begin(), additions_.end(), 0);
  std::fill(written_.begin(), written_.end(), 0);
}

// Clears the gaps, into which the previous step's floating-point results reach (half as wide).
void Gradients::clear_gaps() {
  for (int bucket = 0; bucket < layout_.buckets(); ++bucket)
    clear_padding(bucket, stage_.flat_gradients() + layout_.range(bucket).begin * size_of(made_));
}

std::byte* Gradients::sums(int bucket) const {
  if (parts_only_) return accumulators_.data() + layout_.state_begin(bucket) * size_of(kept_);
  std::byte* all = layout_.gradients_in_windows() ? accumulators_.data() : stage_.flat_gradients();
  return all + layout_.part_begin(bucket) * size_of(kept_);
}

std::byte* Gradients::part(int bucket) const {
  return sums(bucket);
}

void Gradients::before(Pass pass, int segment) {
  if (parts_only_ && (pass == Pass::backward || pass == Pass::weight_grad)) settle(segment % 2);
}

void Gradients::after(Pass pass, int segment) {
  if (pass != Pass::backward && pass != Pass::weight_grad) return;
  if (layout_.gradients_in_windows()) {
    std::byte* gradients = stage_.gradient_window(segment);
    const std::vector<int>& made = layout_.made_by(pass, segment);
    auto next = made.begin();
    for (const int bucket : layout_.buckets_of(segment)) {
      if (next != made.end() && *next == bucket) {
        add_window(bucket, segment % 2, gradients);
        ++next;
      }
      gradients += layout_.range(bucket).gradient_bytes(made_);
    }
  }
  if (!last_ || parts_only_) return;
  for (const int bucket : layout_.made_by(pass, segment)) {
    if (++written_[bucket] == layout_.writers(bucket)) start_reduction(bucket);
  }
}

// No pass writes the gaps between parameters: they contain data of the segment that used the window
// before, possibly infinities of a step that overflowed.
void Gradients::clear_padding(int bucket, std::byte* gradients) const {
  for (const FlatRange& gap : layout_.padding(bucket)) {
    stage_.device().queue().fill(gradients + gap.begin * size_of(made_in(bucket)), 0,
                                 gap.elements * size_of(made_in(bucket)));
  }
}

void Gradients::add(DType dtype, std::byte* sums, const std::byte* summand, std::int64_t count,
                    bool overwrite) {
  Device& device = stage_.device();
  if (overwrite) return device.queue().copy(sums, summand, count * size_of(dtype));
  device.state_kernels().add(device.queue(), dtype, sums, summand, count);
}

void Gradients::add_fixed_point(std::byte* sums, const std::byte* made, std::int64_t count,
                                bool overwrite) {
  Device& device = stage_.device();
  device.state_kernels().add_fixed_point(device.queue(), reinterpret_cast<std::int64_t*>(sums),
                                         reinterpret_cast<const float*>(made), count, block_,
                                         limit_, overwrite, overflows_);
}

void Gradients::add_made(int bucket, std::byte* sums, const std::byte* made, std::int64_t count) {
  const int number = additions_[bucket]++;
  const bool overwrite = number == 0;
  if (kept_ == DType::i64 && made_in(bucket) != DType::i64) {
    add_fixed_point(sums, made, count, overwrite);
  } else if (kept_ == DType::bf16) {
    Rounding rounding{.block = block_};
    rounding.seed_offset = static_cast<std::uint64_t>(groups_->world->rank()) * 0x9e3779b97f4a7c15;
    rounding.stream = static_cast<std::uint32_t>(bucket);
    rounding.use = static_cast<std::uint32_t>(number);
    Device& device = stage_.device();
    device.state_kernels().add_narrow(device.queue(), reinterpret_cast<bf16*>(sums),
                                      reinterpret_cast<const float*>(made), count, rounding,
                                      overwrite);
  } else {
    add(kept_, sums, made, count, overwrite);
  }
}

void Gradients::add_window(int bucket, int window, std::byte* gradients) {
  clear_padding(bucket, gradients);
  const std::int64_t elements = layout_.range(bucket).elements;
  if (!parts_only_) {
    std::byte* whole = accumulators_.data() + layout_.range(bucket).begin * size_of(kept_);
    return add_made(bucket, whole, gradients, elements);
  }
  const bool converts = made_in(bucket) != reduced_;  // to integers
  std::byte* at = staging_[window].data();
  for (const Pending& other : pending_[window])
    at += staged_elements(other.bucket) * size_of(reduced_);
  const std::byte* src = gradients;
  std::byte* dst = at;
  if (converts) {
    add_fixed_point(at, gradients, elements, true);
    src = at;
    dst = at + layout_.rank(bucket) * layout_.part(bucket) * size_of(reduced_);
  }
  Communicator& shard = groups_->shard_of(layout_.of_experts(bucket));
  pending_[window].push_back({bucket, dst,
                              shard.reduce_scatter(src, dst, layout_.part(bucket), reduced_,
                                                   Reduction::sum, {"reduce gradients", bucket})});
}

void Gradients::settle(int window) {
  for (Pending& pending : pending_[window]) {
    pending.work.wait();
    std::byte* to = sums(pending.bucket);
    const std::int64_t count = layout_.part(pending.bucket);
    if (reduced_ == kept_) {
      add(kept_, to, pending.sum, count, additions_[pending.bucket]++ == 0);
    } else {
      add_made(pending.bucket, to, pending.sum, count);
    }
  }
  pending_[window].clear();
}

// Starts the reduction of full accumulators: each rank gets the sum of its part.
void Gradients::start_reduction(int bucket) {
  const bool experts = layout_.of_experts(bucket);
  const std::int64_t part = layout_.part(bucket);
  std::byte* own = sums(bucket);
  if (layout_.degree(bucket) > 1) {
    const std::byte* whole = own - layout_.rank(bucket) * part * size_of(kept_);
    reductions_[bucket] = groups_->shard_of(experts).reduce_scatter(
        whole, own, part, kept_, Reduction::sum, {"reduce gradients", bucket});
  } else if (groups_->replicate_of(experts).size() > 1) {
    reductions_[bucket] = groups_->replicate_of(experts).all_reduce(
        own, part, kept_, Reduction::sum, {"reduce gradients", bucket});
  }
}

// Starts the sums over copies of the states. Buckets that one rank owns in full are already
// reduced, unless their sums were made window by window.
void Gradients::reduce() {
  std::vector<int> copied;
  for (int bucket = 0; bucket < layout_.buckets(); ++bucket) {
    const bool waits = parts_only_ || layout_.degree(bucket) > 1;
    if (waits && groups_->replicate_of(layout_.of_experts(bucket)).size() > 1)
      copied.push_back(bucket);
  }
  if (copied.empty()) return;
  finish();
  for (const int bucket : copied) {
    reductions_[bucket] = groups_->replicate_of(layout_.of_experts(bucket))
                              .all_reduce(sums(bucket), layout_.part(bucket), kept_, Reduction::sum,
                                          {"reduce gradients of copies", bucket});
  }
}

void Gradients::finish() {
  settle(0);
  settle(1);
  for (Work& work : reductions_) work.wait();
}

void Gradients::tie_with(Gradients& other, int own_parameter, int other_parameter) {
  const int bucket = layout_.bucket_of(own_parameter);
  const int theirs = other.layout_.bucket_of(other_parameter);
  TRIREME_CHECK(layout_.part(bucket) == other.layout_.part(theirs));
  const std::int64_t count = layout_.part(bucket);
  add(kept_, sums(bucket), other.sums(theirs), count, false);
  add(kept_, other.sums(theirs), sums(bucket), count, true);
}

void Gradients::tie_across(Communicator& embedding, int parameter) {
  const int bucket = layout_.bucket_of(parameter);
  embedding
      .all_reduce(sums(bucket), layout_.part(bucket), kept_, Reduction::sum,
                  "add gradients of tied embeddings")
      .wait();
}

bool Gradients::is_partial(const OwnedSlice& slice) const {
  return stage_.definition().parameters[slice.parameter].spec.partial_gradient;
}

// The maximum over the ranks that share the states, since a plan must be the same on all of them.
std::int64_t Gradients::most_partial_elements() const {
  std::vector<std::int64_t> by_bucket(static_cast<std::size_t>(layout_.buckets()));
  const auto& parameters = stage_.definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    if (parameters[p].spec.partial_gradient)
      by_bucket[layout_.bucket_of(p)] += parameters[p].spec.shape.count();
  }
  std::int64_t sum = 0;
  for (int bucket = 0; bucket < layout_.buckets(); ++bucket)
    sum += std::min(by_bucket[bucket], layout_.part(bucket));
  return sum;
}

// Combines many small vectors into one message.
void Gradients::sum_partial_gradients() {
  std::int64_t bytes = 0;
  for (const OwnedSlice& slice : layout_.owned()) {
    if (is_partial(slice)) bytes += slice.count() * size_of(kept_);
  }
  if (groups_->tensor->size() == 1 || bytes == 0) return;
  TRIREME_CHECK(bytes <= joined_.bytes());
  Queue& queue = stage_.device().queue();
  const auto for_each = [&](auto&& body) {
    std::byte* at = joined_.data();
    for (const OwnedSlice& slice : layout_.owned()) {
      if (!is_partial(slice)) continue;
      const std::int64_t size = slice.count() * size_of(kept_);
      body(at, sums(slice.bucket) + slice.offset * size_of(kept_), size);
      at += size;
    }
  };
  for_each([&](std::byte* at, std::byte* own, std::int64_t size) { queue.copy(at, own, size); });
  groups_->tensor
      ->all_reduce(joined_.data(), bytes / size_of(kept_), kept_, Reduction::sum,
                   "add gradients of sequence-parallel ranks")
      .wait();
  for_each([&](std::byte* at, std::byte* own, std::int64_t size) { queue.copy(own, at, size); });
}

// Possibly only the first rows of a slice exist on this rank.
void Gradients::sum_copied_rows() {
  if (!groups_->kv) return;
  std::vector<Work> sums_of_rows;
  for (const OwnedSlice& slice : layout_.owned()) {
    const ParameterSpec& spec = stage_.definition().parameters[slice.parameter].spec;
    const std::int64_t begin = std::max(slice.begin, spec.first_copied());
    if (begin >= slice.end) continue;
    std::byte* const rows =
        sums(slice.bucket) + (slice.offset + begin - slice.begin) * size_of(kept_);
    sums_of_rows.push_back(
        groups_->kv->all_reduce(rows, slice.end - begin, kept_, Reduction::sum,
                                {"add gradients of shared heads", slice.bucket}));
  }
  for (Work& work : sums_of_rows) work.wait();
}

void Gradients::complete() {
  sum_partial_gradients();
  sum_copied_rows();
  if (!layout_.options().exact) return;
  for (int bucket = 0; bucket < layout_.buckets(); ++bucket) {
    stage_.device().state_kernels().fixed_point_to_float(
        stage_.device().queue(), reinterpret_cast<std::int64_t*>(sums(bucket)),
        layout_.part(bucket), block_);
  }
}

}  // namespace trireme
