// Layout of a stage's parameters, gradients and optimizer states when data-parallel ranks share
// them (ZeRO): buckets in the flat layout, and the part of each that this rank owns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/shards.h"
#include "runtime/stage.h"

namespace trireme {

struct StateOptions {
  // 0: every rank has everything; 1: states are shared out; 2: gradients too; 3: parameters too.
  int zero = 0;
  int degree = 1;                     // ranks that share one copy of the states; 1 with zero 0
  int rank = 0;                       // among them
  int expert_degree = 1;              // of the experts of an expert-parallel rank: those that share
  int expert_rank = 0;                // one copy of their states
  bool exact = false;                 // gradients are summed as integers
  bool exact_blocks = false;          // and arise as integers (Graph::exact_block)
  bool narrow_gradients = false;      // gradients are summed as bf16; excludes exact
  bool split_weight_grad = false;     // as in StageOptions
  bool matrices_apart = false;        // unsharded 2-D parameters share no bucket with others
  bool parameters_elsewhere = false;  // even if no other rank shares them
  // A parameter that another stage has a copy of: it gets a bucket of its own, which then is cut in
  // the same way there.
  std::string tied;
};

// Elements [begin, end) of a parameter that this rank owns.
struct OwnedSlice {
  int parameter;
  std::int64_t begin, end;
  int bucket;
  std::int64_t offset;  // from the start of this rank's part of the bucket

  std::int64_t count() const { return end - begin; }
};

class StateLayout {
 public:
  // Which parameters share a bucket does not depend on the degree: those that the same segments use
  // and whose gradients the same pass makes.
  StateLayout(const StageDefinition& definition, const StateOptions& options);
  // Sets offsets, flat_elements and windows of that definition, or of one with other shapes of
  // activations.
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
  // Whether it holds expert parameters under expert parallelism: different ranks then share its
  // states.
  bool of_experts(int bucket) const { return of_experts_[bucket]; }
  // The ranks that share a bucket, and this rank among them.
  int degree(int bucket) const {
    return of_experts_[bucket] ? options_.expert_degree : options_.degree;
  }
  int rank(int bucket) const { return of_experts_[bucket] ? options_.expert_rank : options_.rank; }
  // Elements of a bucket that each rank owns; where they begin in the flat layout, and among
  // everything that this rank owns.
  std::int64_t part(int bucket) const { return ranges_[bucket].elements / degree(bucket); }
  std::int64_t part_begin(int bucket) const {
    return ranges_[bucket].begin + rank(bucket) * part(bucket);
  }
  std::int64_t state_begin(int bucket) const { return state_begins_[bucket]; }
  // Elements that this rank owns, with gaps.
  std::int64_t state_elements() const { return state_elements_; }

  // The gaps of a bucket, after each parameter and at the end: ranges from the bucket's start.
  const std::vector<FlatRange>& padding(int bucket) const { return padding_[bucket]; }

  // The slices that this rank owns, by bucket.
  const std::vector<OwnedSlice>& owned() const { return owned_; }
  // Buckets of a segment's parameters, in the order of its window.
  const std::vector<int>& buckets_of(int segment) const { return segment_buckets_[segment]; }
  // Buckets whose gradients a pass of a segment makes, in the order of its window.
  const std::vector<int>& made_by(Pass pass, int segment) const {
    return (pass == Pass::weight_grad ? made_late_ : made_early_)[segment];
  }
  // How many passes of segments write a bucket's gradients, per micro-batch.
  int writers(int bucket) const { return writers_[bucket]; }
  // The bucket that holds a parameter.
  int bucket_of(int parameter) const { return bucket_of_[parameter]; }
  // The slice of a parameter that a rank owns, among those that share the parameter's bucket;
  // possibly empty (count() is 0).
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
