// Megatron packs the parameters of a chunk of layers in the reverse of the model's order, each at a
// multiple of 64 elements, and cuts that into buckets, between parameters.
#include "interop/megatron_flat_states.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/divide.h"
#include "base/error.h"
#include "interop/megatron_checkpoint.h"

namespace trireme {
namespace {

constexpr std::string_view group_key = "optimizer.distributed.dp_group_idx_";
constexpr std::string_view buffer_key = ".gbuf_idx_";
constexpr std::string_view bucket_key = ".bucket_idx_";
constexpr std::array<std::string_view, 1 + adam_moments> kinds{"param", "exp_avg", "exp_avg_sq"};
constexpr std::int64_t alignment = 64;
constexpr std::int64_t most_layers = 10'000, most_numbered = 1'000'000'000;

// Reads `key` and a number from the front.
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view key) {
  if (!text.starts_with(key)) return std::nullopt;
  text.remove_prefix(key.size());
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > most_numbered) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "...dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.exp_avg".
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

// A rank's part of a parameter.
struct Local {
  std::string name;  // "": a copy, which is not looked at
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
};

struct Place {
  const Local* parameter;
  std::size_t bucket;
  std::int64_t begin;  // in the bucket
};

// Nothing where the ranks cannot share it evenly.
std::optional<Local> local_part(const MegatronParameter& parameter, std::int64_t first_layer,
                                std::int64_t tp) {
  Local out{full_name(parameter.how, first_layer), parameter.shape, 1};
  if (parameter.how.is_copy) out.name.clear();
  if (parameter.how.cut != MegatronCut::none) {
    if (out.shape.empty()) return std::nullopt;
    std::int64_t& cut =
        parameter.how.cut == MegatronCut::columns ? out.shape.back() : out.shape.front();
    if (cut % tp != 0) return std::nullopt;
    cut /= tp;
  }
  for (const std::int64_t size : out.shape) out.count *= size;
  return out;
}

// In the order of the model. Nothing where they do not fill the buckets exactly.
std::optional<std::vector<Place>> packed(const std::vector<Local>& parameters,
                                         const std::vector<MegatronBucket>& buckets) {
  std::vector<Place> places;
  std::size_t bucket = 0;
  std::int64_t end = 0;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    // A bucket ends after a parameter, or where the next one would have begun.
    std::int64_t begin = round_up(end, alignment);
    if (end == buckets[bucket].count() || begin == buckets[bucket].count()) {
      if (++bucket == buckets.size()) return std::nullopt;
      begin = 0;
    }
    end = begin + parameter->count;
    if (end > buckets[bucket].count()) return std::nullopt;
    places.push_back({&*parameter, bucket, begin});
  }
  if (bucket + 1 != buckets.size() || end != buckets[bucket].count()) return std::nullopt;
  return places;
}

// Parameters that are ranges of buckets.
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

// The modules of a layer, and those outside, in the order in which models have them.
constexpr std::array<std::string_view, 8> engine_layer{
    "attention.out",      "input_norm", "attention.qkv", "attention.query_norm",
    "attention.key_norm", "mlp_norm",   "mlp.up",        "mlp.down"};
constexpr std::array<std::string_view, 8> local_layer{
    "input_norm",         "attention.out", "attention.qkv", "attention.query_norm",
    "attention.key_norm", "mlp_norm",      "mlp.up",        "mlp.down"};
constexpr std::array<std::string_view, 3> first_modules{"embedding.word", "embedding.position",
                                                        "embedding.token_type"};
constexpr std::array<std::string_view, 2> last_modules{"final_norm", "head"};

// Those of the modules, in their order; a module's weight comes before its bias.
std::vector<MegatronParameter> of_modules(const std::vector<MegatronParameter>& parameters,
                                          std::span<const std::string_view> modules) {
  std::vector<MegatronParameter> out;
  for (const std::string_view module : modules) {
    for (const std::string_view ending : {".weight", ".bias"}) {
      for (const MegatronParameter& one : parameters)
        if (one.how.ours == std::string(module) + std::string(ending)) out.push_back(one);
    }
  }
  return out;
}

// The chunks of all stages, each with its parameters, one after the other in the model.
class Chunks {
 public:
  Chunks(const MegatronParameters& parameters, MegatronOrder order, std::int64_t tp,
         std::int64_t count)
      : tp_(tp),
        count_(count),
        layers_(parameters.layers),
        layer_(of_modules(parameters.layer,
                          order == MegatronOrder::local ? local_layer : engine_layer)),
        first_(of_modules(parameters.outside, first_modules)),
        last_(of_modules(parameters.outside, last_modules)) {
    is_known_ = layer_.size() == parameters.layer.size() &&
                first_.size() + last_.size() == parameters.outside.size() && !layer_.empty() &&
                !first_.empty() && layers_ <= most_layers;
    if (!is_known_ || !parameters.tied || count == 1) return;
    last_.push_back(first_[0]);
    last_.back().how.is_copy = true;
  }

  bool is_known() const { return is_known_; }

  // What the next chunk has if it fills these buckets; nothing where it cannot.
  std::optional<std::vector<Local>> next(const std::vector<MegatronBucket>& buckets) {
    std::int64_t total = 0;
    for (const MegatronBucket& bucket : buckets) total += bucket.count();
    // Only the last parameter of a bucket may be without the elements that fill it up.
    const std::int64_t most = total + alignment * std::ssize(buckets);
    const auto one_layer = layers_ > 0 ? filled_up(layer_) : std::nullopt;
    const auto outside = filled_up(outside_of(at_));
    if (!one_layer || !outside) return std::nullopt;
    for (std::int64_t layers = 0; layers <= layers_ - layer_at_; ++layers) {
      const std::int64_t count = *outside + layers * *one_layer;
      if (count > most) break;
      if (count < total) continue;
      auto parameters = chunk(layers);
      if (!packed(parameters, buckets)) continue;
      layer_at_ += layers;
      ++at_;
      return parameters;
    }
    return std::nullopt;
  }

  bool all_layers_found() const { return layer_at_ == layers_; }

 private:
  std::vector<MegatronParameter> outside_of(std::int64_t chunk) const {
    std::vector<MegatronParameter> out;
    if (chunk == 0) out = first_;
    if (chunk + 1 == count_) out.insert(out.end(), last_.begin(), last_.end());
    return out;
  }

  // Elements of the parts, each with what fills it up. Nothing where ranks cannot share them.
  std::optional<std::int64_t> filled_up(const std::vector<MegatronParameter>& parameters) const {
    std::int64_t count = 0;
    for (const MegatronParameter& one : parameters) {
      const auto part = local_part(one, 0, tp_);
      if (!part) return std::nullopt;
      count += round_up(part->count, alignment);
    }
    return count;
  }

  std::vector<Local> chunk(std::int64_t layers) const {
    std::vector<Local> out;
    const auto add = [&](const std::vector<MegatronParameter>& parameters, std::int64_t layer) {
      for (const MegatronParameter& one : parameters)
        out.push_back(*local_part(one, layer, tp_));  // filled_up() saw that there is one
    };
    if (at_ == 0) add(first_, 0);
    for (std::int64_t i = 0; i < layers; ++i) add(layer_, layer_at_ + i);
    if (at_ + 1 == count_) add(last_, 0);
    return out;
  }

  std::int64_t tp_, count_, layers_;
  std::vector<MegatronParameter> layer_, first_, last_;
  bool is_known_ = false;
  std::int64_t at_ = 0, layer_at_ = 0;  // of the next chunk
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

// That each group of ranks has the same chunks, and each bucket all its tensors.
std::string MegatronFlatBuffers::check_buckets() {
  if (buffers_.empty()) return "there are no buffers";
  const auto& last = buffers_.rbegin()->first;
  const std::int64_t groups = last.group + 1;
  chunks_ = last.chunk + 1;
  if (tp_ < 1 || groups % tp_ != 0)
    return fmt::format("there are {} groups of ranks, and tensor parallelism of {}", groups, tp_);
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
  Chunks chunks(parameters, order, tp_, chunks_ * stages_);
  if (!chunks.is_known()) return std::nullopt;
  // Stages take their turns: the first chunk of each, then the second of each.
  for (std::int64_t chunk = 0; chunk < chunks_ * stages_; ++chunk) {
    const auto buckets = [&](std::size_t rank) -> const std::vector<MegatronBucket>& {
      const std::int64_t stage = chunk % stages_;
      return buffers_.at({stage * tp_ + static_cast<std::int64_t>(rank), chunk / stages_});
    };
    const auto found = chunks.next(buckets(0));
    for (std::size_t rank = 0; rank < tp; ++rank) {
      const auto places = found ? packed(*found, buckets(rank)) : std::nullopt;
      if (!places) return std::nullopt;
      for (const auto& [parameter, bucket, begin] : *places) {
        if (parameter->name.empty()) continue;
        entries[rank].push_back({parameter->name, "F32", DType::f32, parameter->shape});
        for (std::size_t kind = 0; kind < kinds.size(); ++kind)
          ranges[rank][kind].push_back({buckets(rank)[bucket].tensors[kind], begin});
      }
    }
  }
  if (!chunks.all_layers_found()) return std::nullopt;
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
