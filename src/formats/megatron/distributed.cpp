// Finds the buffers and, within them, placements that match sizes and weights. Source:
// megatron/core/optimizer/distrib_optimizer.py and distributed/param_and_grad_buffer.py of
// Megatron-Core 0.5, 0.7 and 0.16 (layout only).
#include "formats/megatron/distributed.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/counted.h"
#include "base/divide.h"
#include "formats/megatron/names.h"
#include "formats/zero_states.h"

namespace trireme {
namespace {

constexpr std::array<const char*, 1 + adam_moments> stream_kinds{"param", torch_moment_keys[0],
                                                                 torch_moment_keys[1]};

// Alignment of parameter starts.
constexpr std::int64_t begin_alignment = 64;
constexpr std::int64_t tight = 1;  // releases before 0.8
constexpr std::int64_t one_bucket = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t most_steps = 20'000'000;  // over parameters, in the search
constexpr std::size_t most_placements = 16;

struct PackedParts {
  std::vector<std::int64_t> begins;
  std::int64_t total = 0;
  std::int64_t smaller = 0;  // next smaller bucket size with another result; or 0
};

// A parameter closes its bucket once the bucket has at least `bucket` elements.
PackedParts pack_parts(const std::vector<MegatronBufferPart>& parts, std::int64_t align,
                       std::int64_t bucket, bool some_alone) {
  PackedParts out;
  std::int64_t start = 0, used = 0;  // of the bucket
  for (const MegatronBufferPart& part : parts) {
    const bool alone = part.alone && some_alone;
    std::int64_t begin = round_up(used, align);
    // Padding before an aligned parameter belongs to the bucket that it closes.
    if (alone && used > 0) {
      start += begin;
      begin = 0;
    }
    const std::int64_t end = begin + part.count;
    out.begins.push_back(start + begin);
    if (alone || end >= bucket) {
      start += end;
      used = 0;
    } else {
      out.smaller = std::max(out.smaller, end);
      used = end;
    }
  }
  out.total = start + used;
  return out;
}

}  // namespace

std::optional<MegatronPlacements> megatron_placements(const std::vector<MegatronBufferPart>& parts,
                                                      std::int64_t total) {
  MegatronPlacements out;
  const auto add = [&](PackedParts&& one) {
    if (one.total != total || std::ranges::find(out, one.begins) != out.end()) return;
    out.push_back(std::move(one.begins));
  };
  add(pack_parts(parts, tight, one_bucket, false));
  // If all sizes are aligned, the bucket size does not affect placements.
  const bool is_even = std::ranges::all_of(
      parts, [](const MegatronBufferPart& part) { return part.count % begin_alignment == 0; });
  std::size_t steps = 0;
  for (const bool some_alone : {true, false}) {
    for (std::int64_t bucket = one_bucket; bucket > 0 && !is_even;) {
      steps += parts.size();
      if (steps > most_steps || out.size() > most_placements) return std::nullopt;
      PackedParts one = pack_parts(parts, begin_alignment, bucket, some_alone);
      bucket = one.smaller;
      add(std::move(one));
    }
  }
  return out;
}

namespace {

// The weights or one moment of all parameters of a model chunk: in one tensor or, in older files,
// one per bucket.
struct BufferStream {
  std::vector<const PickleTensor*> buckets;
  std::int64_t count = 0;
};
using BufferStreams = std::array<BufferStream, stream_kinds.size()>;

struct ChunkParameter {
  const WeightFile* file;
  const WeightEntry* entry;
};

class DistributedReader {
 public:
  DistributedReader(std::shared_ptr<const TorchFile> file,
                    const std::vector<const WeightFile*>& chunks)
      : file_(std::move(file)), pickle_(file_->pickle()), chunks_(chunks) {}

  MegatronRankStates read() {
    MegatronRankStates out;
    out.left_out = find_buffers();
    for (std::size_t i = 0; out.left_out.empty() && i < chunks_.size(); ++i)
      out.left_out = place(*chunks_[i], buffers_[i], out.chunks.emplace_back());
    if (!out.left_out.empty()) out.chunks.clear();
    return out;
  }

 private:
  std::string about_file(const std::string& what) const {
    return fmt::format("'{}' {}", file_->name(), what);
  }

  // Returns why the buffers are not read, or "".
  std::string find_buffers() {
    PickleId root = pickle_.root();
    if (pickle_.kind(root) == PickleKind::list && pickle_.children(root).size() == 1)
      root = pickle_.children(root)[0];
    if (pickle_.kind(root) != PickleKind::dict)
      return about_file("holds " + pickle_.shown(root) +
                        ", and a dictionary of the buffers of one optimizer was expected");
    std::map<std::int64_t, PickleId> found;
    const auto items = pickle_.children(root);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue& key = pickle_[items[i]];
      if (key.kind == PickleKind::integer) found[key.integer] = items[i + 1];
    }
    const auto chunks = static_cast<std::int64_t>(chunks_.size());
    if (found.empty() || std::ssize(found) != chunks || found.begin()->first != 0 ||
        found.rbegin()->first + 1 != chunks)
      return about_file(fmt::format(
          "holds {}, and one was expected for each of the {} that the model has on this rank",
          counted(std::ssize(found), "buffer"), counted(chunks, "chunk of layers")));
    for (const auto& [number, buffer] : found) {
      if (const std::string fault = find_streams(buffer); !fault.empty())
        return about_file(fmt::format("is not as expected in its buffer {}: {}", number, fault));
    }
    return "";
  }

  // Reads a dictionary from parameter type to the state of those parameters.
  std::string find_streams(PickleId types) {
    const bool is_dict = pickle_.kind(types) == PickleKind::dict;
    if (!is_dict || pickle_.children(types).size() != 2)
      return "it is not of one type of parameters alone";
    BufferStreams& buffer = buffers_.emplace_back();
    for (std::size_t kind = 0; kind < stream_kinds.size(); ++kind) {
      const auto found = pickle_.find(pickle_.children(types)[1], stream_kinds[kind]);
      if (!found) return fmt::format("it has no '{}'", stream_kinds[kind]);
      const bool is_list = pickle_.kind(*found) == PickleKind::list;
      const auto tensors = is_list ? pickle_.children(*found) : std::span(&*found, 1);
      for (const PickleId id : tensors) {
        const bool is_tensor = pickle_.kind(id) == PickleKind::tensor;
        const PickleTensor* tensor = is_tensor ? &pickle_.tensor(id) : nullptr;
        const bool is_vector = tensor && tensor->shape.size() == 1 && tensor->is_contiguous();
        if (!is_vector || tensor->type->ours != DType::f32)
          return fmt::format("its '{}' has {}, and a whole vector of F32 was expected",
                             stream_kinds[kind], pickle_.shown(id));
        buffer[kind].buckets.push_back(tensor);
        buffer[kind].count += tensor->count();
      }
      if (buffer[kind].count != buffer[0].count)
        return fmt::format("it has {} as '{}' and {} as '{}'", counted(buffer[0].count, "element"),
                           stream_kinds[0], buffer[kind].count, stream_kinds[kind]);
    }
    return "";
  }

  // Parameters in buffer order.
  static std::vector<ChunkParameter> parameters(const WeightFile& chunk) {
    std::vector<ChunkParameter> out;
    for (const WeightEntry& entry : chunk.tensors())
      if (!is_megatron_buffer(entry.name)) out.push_back({&chunk, &entry});
    std::ranges::reverse(out);
    return out;
  }

  std::string place(const WeightFile& chunk, const BufferStreams& buffer,
                    MegatronChunkStates& out) const {
    const std::vector<ChunkParameter> all = parameters(chunk);
    std::vector<MegatronBufferPart> parts;
    std::int64_t elements = 0;
    for (const ChunkParameter& one : all) {
      const std::string ours = megatron_name(one.entry->name).ours;
      parts.push_back(
          {one.entry->count(), ours == "embedding.word.weight" || ours == "head.weight"});
      if (parts.back().count > buffer[0].count - elements)
        return about_file(
            fmt::format("holds {} of each kind, and the parameters of '{}', which have "
                        "more, do not fill them",
                        counted(buffer[0].count, "element"), chunk.name()));
      elements += parts.back().count;
    }
    const auto ways = megatron_placements(parts, buffer[0].count);
    if (!ways) return about_file("has too many places where the parameters of the model could lie");
    if (ways->empty())
      return about_file(
          fmt::format("holds {} of each kind, and the {} of '{}' with "
                      "their {} do not fill them",
                      counted(buffer[0].count, "element"), counted(all.size(), "parameter"),
                      chunk.name(), counted(elements, "element")));
    const std::vector<std::int64_t>* right = nullptr;
    for (const auto& begins : *ways) {
      if (!is_right(all, *pieced(all, buffer[0], begins))) continue;
      if (right)
        return about_file("has several places where the parameters of the model could lie");
      right = &begins;
    }
    if (!right)
      return about_file(
          fmt::format("has no place where the weights in fp32, rounded, are those of '{}': the two "
                      "are of different steps, or the parameters in another order",
                      chunk.name()));
    out.weights = pieced(all, buffer[0], *right);
    for (std::size_t which = 0; which < out.moments.size(); ++which)
      out.moments[which] = pieced(all, buffer[1 + which], *right);
    return "";
  }

  static bool is_right(const std::vector<ChunkParameter>& all, const WeightFile& exact) {
    return std::ranges::all_of(all, [&](const ChunkParameter& one) {
      return is_rounded_from(*one.file, *one.entry, exact, *exact.find(one.entry->name));
    });
  }

  std::unique_ptr<PiecedWeights> pieced(const std::vector<ChunkParameter>& all,
                                        const BufferStream& stream,
                                        const std::vector<std::int64_t>& begins) const {
    std::vector<PiecedWeights::Tensor> tensors;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const WeightEntry& entry = *all[i].entry;
      PiecedWeights::Tensor tensor{{entry.name, "F32", DType::f32, entry.shape}, {}};
      std::int64_t at = 0;  // offset of the bucket in the stream
      const std::int64_t begin = begins[i], end = begin + entry.count();
      for (const PickleTensor* bucket : stream.buckets) {
        const std::int64_t first = std::max(begin, at), last = std::min(end, at + bucket->count());
        if (first < last) tensor.pieces.push_back({file_, bucket, first - at, last - first});
        at += bucket->count();
      }
      tensors.push_back(std::move(tensor));
    }
    return std::make_unique<PiecedWeights>(file_->name(), std::move(tensors));
  }

  std::shared_ptr<const TorchFile> file_;
  const Pickle& pickle_;
  const std::vector<const WeightFile*>& chunks_;
  std::vector<BufferStreams> buffers_;  // by model chunk
};

}  // namespace

MegatronRankStates open_distributed_states(const std::shared_ptr<const TorchFile>& file,
                                           const std::vector<const WeightFile*>& chunks) {
  return DistributedReader(file, chunks).read();
}

}  // namespace trireme
