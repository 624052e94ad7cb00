// Ownership of elements when gradients, optimizer states or parameters are sharded (ZeRO 1, 2, 3
// and hybrid sharding): pure data, the same on every rank.
//
// Parameters are laid one after another into flat buckets; a bucket is cut into `degree` equal
// parts, and rank k of the sharding group owns part k. So a reduce_scatter of a bucket gives each
// rank the gradients that it owns, and an all_gather of the parts gives back the parameters.
//
// Which parameters share a bucket, and where each lies in it, does not depend on the degree: only
// the cuts do. All cuts, and the beginnings of parameters, fall on multiples of `grain`, so every
// block of `grain` elements of a parameter has one owner, whatever the degree: sums over such
// blocks (gradient norms) can be the same for all degrees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct ShardParameter {
  std::int64_t elements = 0;
  // Parameters that are needed together, e.g. those of one layer: numbers that never decrease.
  int unit = 0;
};

struct ShardOptions {
  int degree = 1;
  // A bucket is closed before it passes this size; a larger parameter has a bucket of its own.
  std::int64_t bucket_elements = std::int64_t{1} << 24;
  // Buckets end where a unit ends, so that one layer can be gathered without others (ZeRO 3).
  bool keep_units = false;
  std::int64_t grain = 256;
};

// Elements [begin, end) of a parameter, flat, at `offset` of something.
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
  std::int64_t elements = 0;           // part x degree: what buffers and collectives count
};

class ShardPlan {
 public:
  ShardPlan(std::span<const ShardParameter> parameters, const ShardOptions& options);

  const ShardOptions& options() const { return options_; }
  const std::vector<ShardBucket>& buckets() const { return buckets_; }
  // The bucket of a parameter.
  int bucket_of(int parameter) const { return bucket_of_[parameter]; }
  std::int64_t offset_of(int parameter) const;

  // The slices of a bucket that a rank owns; offset in its part. Gaps are padding.
  std::vector<ShardSlice> owned(int bucket, int rank) const;

  // Elements of all buckets, padding included: in full, and per rank.
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
