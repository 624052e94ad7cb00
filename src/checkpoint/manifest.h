// Manifest of a checkpoint: its contents, where they are stored, and their checksums.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/region.h"

namespace trireme {

// State that a run needs to resume, except its tensors.
struct CheckpointState {
  std::int64_t step = 0;  // completed training steps
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::map<std::string, std::int64_t> counters;  // random state, batch ramp-up, ...
  std::map<std::string, double> numbers;         // loss scale, ...; stored exactly
  std::map<std::string, std::string> texts;
  std::string config_toml;  // the run's complete configuration

  bool operator==(const CheckpointState&) const = default;
};

// A stored piece of a tensor: one entry of a shard's safetensors file.
struct StoredSlice {
  std::size_t shard = 0;  // index into Manifest::shards
  std::string key;        // name of the entry in the shard
  Region region;
  std::vector<std::uint64_t> checksums;  // XXH3 of each block of the entry's bytes
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<StoredSlice> slices;

  std::int64_t bytes() const { return shape.count() * size_of(dtype); }
};

struct StoredShard {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t header_checksum = 0;  // XXH3 of everything before the first tensor
};

// Entries are hashed in blocks of this size, so that parts of a large tensor can be read and
// verified separately.
inline constexpr std::int64_t default_block_bytes = std::int64_t{4} << 20;

struct Manifest {
  std::string program;  // writer, e.g. "trireme 0.1.0"
  std::int64_t block_bytes = default_block_bytes;
  CheckpointState state;
  std::vector<StoredShard> shards;
  std::vector<StoredTensor> tensors;  // sorted by name

  const StoredTensor* find(std::string_view name) const;
};

inline constexpr std::uint64_t max_manifest_bytes = std::uint64_t{256} << 20;

// Serializes the manifest as JSON; its last member is the XXH3 of the text before it.
std::string to_text(const Manifest& manifest);

// Parses a manifest or a part (written by a single rank). `name` appears in messages. Refused (exit
// code 2): damage, another format version, overflowing sizes, file names outside of the folder,
// slices outside their tensor, a wrong number of checksums.
Manifest parse_manifest(std::string_view text, const std::string& name);

// Merges the ranks' shards and tensors into one manifest. Refuses tensors whose properties differ
// between ranks.
Manifest merge(const std::vector<Manifest>& parts);

// Refuses a manifest whose slices do not cover every element of every tensor exactly once.
void check_complete(const Manifest& manifest, const std::string& name);

}  // namespace trireme
