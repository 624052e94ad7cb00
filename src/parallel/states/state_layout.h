// Layout of a stage's parameters, gradients and optimizer states when sharded over data-parallel
// ranks (ZeRO): buckets of the flat buffer, and the part of each that this rank owns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/states/shards.h"
#include "runtime/stage.h"

namespace trireme {

struct StateOptions {
  // 0: all is replicated; 1: states are sharded; 2: gradients too; 3: parameters too.
  int zero = 0;
  int degree = 1;                     // ranks that share one copy of the states; 1 with zero 0
  int rank = 0;                       // index among them
  int expert_degree = 1;              // of the experts of an expert-parallel rank: those that share
  int expert_rank = 0;                // one copy of their states
  bool exact = false;                 // gradients are summed as integers
  bool exact_blocks = false;          // and produced as integers (Graph::exact_block)
  bool narrow_gradients = false;      // gradients are summed as bf16; excludes exact
  bool split_weight_grad = false;     // see StageOptions
  bool matrices_apart = false;        // unsharded 2-D parameters do not share buckets with others
  bool parameters_elsewhere = false;  // offloaded, even if not shared with other ranks
  std::int64_t grain = ShardOptions{}.grain;  // the same for all stages
  // Name of a parameter with a copy on another stage: it gets its own bucket, so that both stages
  // cut it identically.
  std::string tied;
};

// Elements [begin, end) of a parameter, owned by this rank.
struct OwnedSlice {
  int parameter;
  std::int64_t begin, end;
  int bucket;
  std::int64_t offset;  // from the start of this rank's part of the bucket

  std::int64_t count() const { return end - begin; }
};

class StateLayout {
 public:
  // The assignment of parameters to buckets is independent of the degree: parameters in a bucket
  // are used by the same segments and get their gradients from the same pass.
  StateLayout(const StageDefinition& definition, const StateOptions& options);
  // Sets offsets, flat_elements and windows of the given definition: the original one, or one that
  // differs only in activation shapes.
  void lay_out(StageDefinition& definition) const;

  const StateOptions& options() const { return options_; }
  bool gradients_in_windows() const {
    return (options_.exact && !options_.exact_blocks) || options_.narrow_gradients ||
           options_.zero >= 2;
  }
  bool parameters_in_windows() const { return options_.zero >= 3 || options_.parameters_elsewhere; }

  int buckets() const { return static_cast<int>(ranges_.size()); }
  // A bucket in the flat layout.
  FlatRange range(int bucket) const { return ranges_[bucket]; }
  // Whether a bucket holds expert parameters under expert parallelism: its states are then shared
  // by different ranks.
  bool of_experts(int bucket) const { return of_experts_[bucket]; }
  // Number of ranks that share a bucket, and index of this rank among them.
  int degree(int bucket) const {
    return of_experts_[bucket] ? options_.expert_degree : options_.degree;
  }
  int rank(int bucket) const { return of_experts_[bucket] ? options_.expert_rank : options_.rank; }
  // Elements of a bucket owned by each rank; their start in the flat layout, and in this rank's
  // concatenated parts.
  std::int64_t part(int bucket) const { return ranges_[bucket].elements / degree(bucket); }
  std::int64_t part_begin(int bucket) const {
    return ranges_[bucket].begin + rank(bucket) * part(bucket);
  }
  std::int64_t state_begin(int bucket) const { return state_begins_[bucket]; }
  // Number of elements that this rank owns, including gaps.
  std::int64_t state_elements() const { return state_elements_; }

  // Gaps of a bucket, after each parameter and at the end, relative to the bucket's start.
  const std::vector<FlatRange>& padding(int bucket) const { return padding_[bucket]; }

  // Slices owned by this rank, by bucket.
  const std::vector<OwnedSlice>& owned() const { return owned_; }
  // Buckets of a segment's parameters, in the order of its window.
  const std::vector<int>& buckets_of(int segment) const { return segment_buckets_[segment]; }
  // Buckets whose gradients a pass of a segment makes, in the order of its window.
  const std::vector<int>& made_by(Pass pass, int segment) const {
    return (pass == Pass::weight_grad ? made_late_ : made_early_)[segment];
  }
  // Number of segment passes that write a bucket's gradients, per micro-batch.
  int writers(int bucket) const { return writers_[bucket]; }
  // Returns the bucket that contains a parameter.
  int bucket_of(int parameter) const { return bucket_of_[parameter]; }
  // Returns the slice of a parameter owned by `rank`, an index among the ranks that share its
  // bucket; may be empty (count() is 0).
  OwnedSlice slice_of(int parameter, int rank) const;

 private:
  StateOptions options_;
  std::vector<FlatRange> ranges_;
  std::vector<bool> of_experts_;                 // by bucket
  std::vector<std::int64_t> state_begins_;       // by bucket
  std::vector<std::vector<FlatRange>> padding_;  // by bucket
  std::vector<int> bucket_of_;
  std::vector<std::int64_t> offsets_, counts_;  // by parameter
  std::vector<OwnedSlice> owned_;
  std::vector<std::vector<int>> segment_buckets_, made_early_, made_late_;
  std::vector<int> writers_;
  std::int64_t state_elements_ = 0, flat_elements_ = 0;
};

}  // namespace trireme
