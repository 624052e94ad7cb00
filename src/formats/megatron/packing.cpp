// Orders parameters as Megatron does and computes their offsets.
#include "formats/megatron/packing.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/divide.h"
#include "formats/megatron/checkpoint.h"

namespace trireme {
namespace {

constexpr std::int64_t alignment = 64;
constexpr std::int64_t most_layers = 10'000;

// Modules of a layer, and modules outside of layers, in the models' order.
constexpr std::array<std::string_view, 8> engine_layer{
    "attention.out",      "input_norm", "attention.qkv", "attention.query_norm",
    "attention.key_norm", "mlp_norm",   "mlp.up",        "mlp.down"};
constexpr std::array<std::string_view, 8> local_layer{
    "input_norm",         "attention.out", "attention.qkv", "attention.query_norm",
    "attention.key_norm", "mlp_norm",      "mlp.up",        "mlp.down"};
constexpr std::array<std::string_view, 3> first_modules{"embedding.word", "embedding.position",
                                                        "embedding.token_type"};
constexpr std::string_view head_module = "head";
constexpr std::array<std::string_view, 7> last_modules{
    "final_norm", "masked_head.dense", "masked_head.norm", head_module, "masked_head", "order_head",
    "pooler"};

// Parameters of the given modules, in order; a module's weight precedes its bias.
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

// Whether the head would precede it.
bool is_after_head(const MegatronParameter& parameter) {
  const std::string_view ours = parameter.how.ours;
  const auto head = std::ranges::find(last_modules, head_module);
  return std::find(head, last_modules.end(), ours.substr(0, ours.rfind('.'))) != last_modules.end();
}

std::int64_t count_of(const MegatronPlace& part) {
  std::int64_t count = 1;
  for (const std::int64_t size : part.shape) count *= size;
  return count;
}

// A rank's shard; nullopt if the ranks cannot share the parameter evenly.
std::optional<MegatronPlace> local_part(const MegatronParameter& parameter,
                                        std::int64_t first_layer, std::int64_t tp) {
  MegatronPlace part{parameter.how.is_copy ? "" : full_name(parameter.how, first_layer),
                     parameter.shape};
  if (parameter.how.cut == MegatronCut::none) return part;
  if (part.shape.empty()) return std::nullopt;
  const bool by_columns = parameter.how.cut == MegatronCut::columns;
  std::int64_t& cut = by_columns ? part.shape.back() : part.shape.front();
  if (cut % tp != 0) return std::nullopt;
  cut /= tp;
  return part;
}

// Assigns offsets to the parts, which are in the model's order. False if they do not fill the
// buckets exactly.
bool pack(std::vector<MegatronPlace>& parts, const std::vector<std::int64_t>& buckets) {
  std::size_t bucket = 0;
  std::int64_t end = 0;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    std::int64_t begin = round_up(end, alignment);
    // A bucket ends after a parameter, or where the next one would have started.
    if (end == buckets[bucket] || begin == buckets[bucket]) {
      if (++bucket == buckets.size()) return false;
      begin = 0;
    }
    end = begin + count_of(*part);
    if (end > buckets[bucket]) return false;
    part->bucket = bucket;
    part->begin = begin;
  }
  return bucket + 1 == buckets.size() && end == buckets[bucket];
}

}  // namespace

MegatronPacking::MegatronPacking(const MegatronParameters& parameters, MegatronOrder order,
                                 std::int64_t tp, std::int64_t chunks)
    : tp_(tp),
      chunks_(chunks),
      layers_(parameters.layers),
      in_layer_(
          of_modules(parameters.layer, order == MegatronOrder::local ? local_layer : engine_layer)),
      first_(of_modules(parameters.outside, first_modules)),
      last_(of_modules(parameters.outside, last_modules)) {
  is_known_ = in_layer_.size() == parameters.layer.size() &&
              first_.size() + last_.size() == parameters.outside.size() && !in_layer_.empty() &&
              !first_.empty() && layers_ <= most_layers;
  if (!is_known_ || !parameters.tied || chunks == 1) return;
  MegatronParameter copy = first_[0];
  copy.how.is_copy = true;
  last_.insert(std::ranges::find_if(last_, is_after_head), std::move(copy));
}

std::optional<std::vector<MegatronPlace>> MegatronPacking::next(
    const std::vector<std::int64_t>& buckets) {
  if (!is_known_) return std::nullopt;
  const auto one_layer = filled_up(in_layer_);
  const auto fixed = filled_up(outside());
  if (!one_layer || !fixed) return std::nullopt;
  std::int64_t total = 0;
  for (const std::int64_t bucket : buckets) total += bucket;
  // Only the last parameter of a bucket may lack its padding.
  const std::int64_t most = total + alignment * std::ssize(buckets);
  for (std::int64_t layers = 0; layers <= layers_ - layer_; ++layers) {
    const std::int64_t count = *fixed + layers * *one_layer;
    if (count > most) break;
    if (count < total) continue;
    auto places = parts(layers);
    if (!pack(places, buckets)) continue;
    layer_ += layers;
    ++chunk_;
    return places;
  }
  return std::nullopt;
}

// Parameters outside of layers in the next chunk.
std::vector<MegatronParameter> MegatronPacking::outside() const {
  std::vector<MegatronParameter> out;
  if (chunk_ == 0) out = first_;
  if (chunk_ + 1 == chunks_) out.insert(out.end(), last_.begin(), last_.end());
  return out;
}

// Elements of the parameters including padding; nullopt if ranks cannot share them evenly.
std::optional<std::int64_t> MegatronPacking::filled_up(
    const std::vector<MegatronParameter>& parameters) const {
  std::int64_t count = 0;
  for (const MegatronParameter& one : parameters) {
    const auto part = local_part(one, 0, tp_);
    if (!part) return std::nullopt;
    count += round_up(count_of(*part), alignment);
  }
  return count;
}

// Parts of the next chunk if it has this many layers, without offsets.
std::vector<MegatronPlace> MegatronPacking::parts(std::int64_t layers) const {
  std::vector<MegatronPlace> out;
  const auto add = [&](const std::vector<MegatronParameter>& parameters, std::int64_t layer) {
    for (const MegatronParameter& one : parameters)
      out.push_back(*local_part(one, layer, tp_));  // filled_up() verified that it exists
  };
  if (chunk_ == 0) add(first_, 0);
  for (std::int64_t i = 0; i < layers; ++i) add(in_layer_, layer_ + i);
  if (chunk_ + 1 == chunks_) add(last_, 0);
  return out;
}

}  // namespace trireme
