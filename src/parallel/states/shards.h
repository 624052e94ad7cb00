// Ownership of elements when gradients, optimizer states or parameters are sharded (ZeRO 1, 2, 3
// and hybrid sharding): plain data, identical on every rank.
//
// Parameters are packed into flat buckets; each bucket is cut into `degree` equal parts, and rank k
// of the sharding group owns part k. A reduce_scatter of a bucket thus gives each rank the
// gradients that it owns, and an all_gather of the parts restores the parameters.
//
// The assignment of parameters to buckets and their offsets do not depend on the degree: only the
// cuts do. All cuts, and the starts of parameters, are multiples of `grain`, so every block of
// `grain` elements of a parameter has a single owner for any degree: sums over such blocks
// (gradient norms) can be the same for all degrees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct ShardParameter {
  std::int64_t elements = 0;
  // Parameters used together, e.g. those of one layer, have the same unit; ascending.
  int unit = 0;
};

struct ShardOptions {
  int degree = 1;
  // Buckets are closed before they exceed this size; a larger parameter gets its own bucket.
  std::int64_t bucket_elements = std::int64_t{1} << 24;
  // Buckets end at unit boundaries, so that one layer can be gathered separately (ZeRO 3).
  bool keep_units = false;
  std::int64_t grain = 256;
};

// Elements [begin, end) of a flattened parameter, located at `offset` of a bucket or part.
struct ShardSlice {
  int parameter = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t offset = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const ShardSlice&) const = default;
};

struct ShardBucket {
  int unit = 0;                        // of its first parameter
  std::vector<ShardSlice> parameters;  // whole ones; offset in the bucket
  std::int64_t part = 0;               // elements that each rank owns, padding included
  std::int64_t elements = 0;           // part x degree: the size of buffers and collectives
};

class ShardPlan {
 public:
  ShardPlan(std::span<const ShardParameter> parameters, const ShardOptions& options);

  const ShardOptions& options() const { return options_; }
  const std::vector<ShardBucket>& buckets() const { return buckets_; }
  // Returns the bucket that contains a parameter.
  int bucket_of(int parameter) const { return bucket_of_[parameter]; }
  std::int64_t offset_of(int parameter) const;

  // Slices of a bucket owned by a rank; offsets are relative to its part. Gaps are padding.
  std::vector<ShardSlice> owned(int bucket, int rank) const;

  // Elements of all buckets with padding: in total, and per rank.
  std::int64_t total_elements() const { return total_; }
  std::int64_t elements_per_rank() const { return total_ / options_.degree; }

 private:
  ShardOptions options_;
  std::vector<ShardBucket> buckets_;
  std::vector<int> bucket_of_;
  std::vector<int> first_parameter_;  // by bucket
  std::int64_t total_ = 0;
};

}  // namespace trireme
