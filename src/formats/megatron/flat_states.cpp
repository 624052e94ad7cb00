// Finds the buckets of all buffers, and reads parameters as ranges within them.
#include "formats/megatron/flat_states.h"

#include <algorithm>
#include <charconv>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view group_key = "optimizer.distributed.dp_group_idx_";
constexpr std::string_view buffer_key = ".gbuf_idx_";
constexpr std::string_view bucket_key = ".bucket_idx_";
constexpr std::array<std::string_view, 1 + adam_moments> kinds{"param", torch_moment_keys[0],
                                                               torch_moment_keys[1]};
constexpr std::int64_t most_numbered = 1'000'000'000;

// Parses `key` followed by a number and removes both from the text.
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view key) {
  if (!text.starts_with(key)) return std::nullopt;
  text.remove_prefix(key.size());
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > most_numbered) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Parsed "...dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.exp_avg".
struct BucketName {
  MegatronBufferId buffer;
  std::int64_t bucket = 0;
  std::size_t kind = 0;
};

std::optional<BucketName> bucket_name(std::string_view name) {
  const auto group = take_number(name, group_key);
  const auto chunk = group ? take_number(name, buffer_key) : std::nullopt;
  const std::size_t at = name.find(bucket_key);
  if (!chunk || at == name.npos) return std::nullopt;
  name.remove_prefix(at);
  const auto bucket = take_number(name, bucket_key);
  if (!bucket || !name.starts_with('.')) return std::nullopt;
  const auto kind = std::ranges::find(kinds, name.substr(1));
  if (kind == kinds.end()) return std::nullopt;
  return BucketName{{*group, *chunk}, *bucket, static_cast<std::size_t>(kind - kinds.begin())};
}

std::vector<std::int64_t> counts(const std::vector<MegatronBucket>& buckets) {
  std::vector<std::int64_t> out;
  for (const MegatronBucket& bucket : buckets) out.push_back(bucket.count());
  return out;
}

// A file whose tensors are ranges of buckets.
class FlatFile : public WeightFile {
 public:
  struct Range {
    const DcpTensor* tensor;
    std::int64_t begin;
  };
  FlatFile(std::shared_ptr<const DcpFolder> folder, std::vector<WeightEntry> entries,
           std::vector<Range> ranges)
      : WeightFile(folder->where(), std::move(entries)),
        folder_(std::move(folder)),
        ranges_(std::move(ranges)) {}

  void read(const WeightEntry& entry, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override {
    const Range& range = ranges_[position(entry)];
    begin += range.begin;
    end += range.begin;
    for (const DcpChunk& chunk : range.tensor->chunks) {
      const std::int64_t at = chunk.offsets[0];
      const std::int64_t first = std::max(begin, at), last = std::min(end, at + chunk.sizes[0]);
      if (first >= last) continue;
      const auto file = folder_->open(*range.tensor, chunk);
      file->read(file->pickle().tensor(file->pickle().root()), first - at, last - at,
                 dst + static_cast<std::size_t>(first - begin) * sizeof(float));
    }
  }

 private:
  std::shared_ptr<const DcpFolder> folder_;
  std::vector<Range> ranges_;  // by entry
};

}  // namespace

MegatronFlatBuffers::MegatronFlatBuffers(std::shared_ptr<const DcpFolder> folder, std::int64_t tp)
    : folder_(std::move(folder)), tp_(tp) {
  fault_ = find_buckets();
  if (fault_.empty()) fault_ = check_buckets();
}

bool MegatronFlatBuffers::is_one(std::string_view name) {
  return name.starts_with(group_key) && name.find(buffer_key) != name.npos;
}

std::string MegatronFlatBuffers::find_buckets() {
  std::map<MegatronBufferId, std::map<std::int64_t, MegatronBucket>> found;
  for (const DcpTensor& tensor : folder_->metadata().tensors) {
    if (!is_one(tensor.name)) continue;
    const auto name = bucket_name(tensor.name);
    if (!name) return fmt::format("the name '{}' is not known", tensor.name);
    found[name->buffer][name->bucket].tensors[name->kind] = &tensor;
    if (tensor.type->ours != DType::f32 || tensor.shape.size() != 1)
      return fmt::format("'{}' is {} {}, and a vector of F32 was expected", tensor.name,
                         tensor.type->name, shape_text(tensor.shape));
    if (const std::string hole = dcp_tiling_fault(tensor); !hole.empty())
      return fmt::format("'{}' is not whole: {}", tensor.name, hole);
  }
  for (const auto& [id, buckets] : found) {
    for (const auto& [number, bucket] : buckets) {
      if (number != std::ssize(buffers_[id]))
        return fmt::format("a bucket before the bucket {} of the group {} of ranks is missing",
                           number, id.group);
      buffers_[id].push_back(bucket);
    }
  }
  return "";
}

// Checks that all rank groups have the same chunks, and all buckets all their tensors.
std::string MegatronFlatBuffers::check_buckets() {
  if (buffers_.empty()) return "there are no buffers";
  const auto& last = buffers_.rbegin()->first;
  const std::int64_t groups = last.group + 1;
  chunks_ = last.chunk + 1;
  if (tp_ < 1 || groups % tp_ != 0)
    return fmt::format("there are {} of ranks, and tensor parallelism of {}",
                       counted(groups, "group"), tp_);
  stages_ = groups / tp_;
  MegatronBufferId expected;
  for (const auto& [id, buckets] : buffers_) {
    if (id != expected)
      return fmt::format("the buffer {} of the group {} of ranks is missing", expected.chunk,
                         expected.group);
    expected = id.chunk + 1 == chunks_ ? MegatronBufferId{id.group + 1, 0}
                                       : MegatronBufferId{id.group, id.chunk + 1};
    for (const MegatronBucket& bucket : buckets) {
      const auto [weights, first, second] = bucket.tensors;
      if (!weights || !first || !second || first->shape != weights->shape ||
          second->shape != weights->shape)
        return fmt::format(
            "a bucket of the group {} of ranks lacks weights, exp_avg or exp_avg_sq of one length",
            id.group);
    }
    // Tensor-parallel ranks must have buckets of equal sizes.
    const MegatronBufferId first{id.group - id.group % tp_, id.chunk};
    if (counts(buckets) != counts(buffers_.at(first)))
      return fmt::format("the buffers of the groups {} and {} of ranks differ in their buckets",
                         first.group, id.group);
  }
  return "";
}

std::vector<std::string> MegatronFlatBuffers::group_values() const {
  std::vector<std::string> names;
  for (std::int64_t group = 0; group < stages_ * tp_; ++group)
    names.push_back(fmt::format("{}{}.optimizer/shard_0_1", group_key, group));
  return names;
}

std::optional<std::vector<MegatronFlatRank>> MegatronFlatBuffers::placed(
    const MegatronParameters& parameters, MegatronOrder order) const {
  const auto tp = static_cast<std::size_t>(tp_);
  std::vector<std::vector<WeightEntry>> entries(tp);
  std::vector<std::array<std::vector<FlatFile::Range>, kinds.size()>> ranges(tp);
  MegatronPacking packing(parameters, order, tp_, chunks_ * stages_);
  // Chunks are interleaved across stages: the first chunk of each stage, then the second of each.
  for (std::int64_t chunk = 0; chunk < chunks_ * stages_; ++chunk) {
    const std::int64_t first_group = chunk % stages_ * tp_;
    const auto places = packing.next(counts(buffers_.at({first_group, chunk / stages_})));
    if (!places) return std::nullopt;
    for (std::size_t rank = 0; rank < tp; ++rank) {
      const auto group = first_group + static_cast<std::int64_t>(rank);
      const std::vector<MegatronBucket>& buckets = buffers_.at({group, chunk / stages_});
      for (const MegatronPlace& place : *places) {
        if (place.name.empty()) continue;
        entries[rank].push_back({place.name, "F32", DType::f32, place.shape});
        for (std::size_t kind = 0; kind < kinds.size(); ++kind)
          ranges[rank][kind].push_back({buckets[place.bucket].tensors[kind], place.begin});
      }
    }
  }
  if (!packing.is_complete()) return std::nullopt;
  std::vector<MegatronFlatRank> out(tp);
  for (std::size_t rank = 0; rank < tp; ++rank) {
    const auto file = [&](std::size_t kind) {
      return std::make_unique<FlatFile>(folder_, entries[rank], std::move(ranges[rank][kind]));
    };
    out[rank].weights = file(0);
    for (std::size_t which = 0; which < adam_moments; ++which)
      out[rank].moments[which] = file(1 + which);
  }
  return out;
}

}  // namespace trireme
