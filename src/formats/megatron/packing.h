// Layout of parameters in the buffers of Megatron's distributed optimizer: in reverse
// model order, each aligned to 64 elements, with buckets that end between parameters.
// Source: megatron/core/distributed/param_and_grad_buffer.py of Megatron-Core 0.16 (layout
// only).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/megatron/names.h"

namespace trireme {

// A parameter of the model.
struct MegatronParameter {
  MegatronName how;
  std::vector<std::int64_t> shape;  // of the whole parameter
};

// Parameters of a model: those outside of layers, and those of one layer. Models with modules of
// multi-token prediction have an order that is not known.
struct MegatronParameters {
  std::vector<MegatronParameter> outside, layer;
  std::int64_t layers = 0;
  bool tied = false;  // the last of several stages has a copy of the embedding
};

// Order of parameters in a layer: Transformer Engine's, whose norms are fused into the linear
// layers that follow them, or that of Megatron's own layers.
enum class MegatronOrder : std::uint8_t { transformer_engine, local };

// A rank's shard of a parameter, and its location.
struct MegatronPlace {
  std::string name;  // "layers.3.mlp.up.weight"; "": a copy of the embedding
  std::vector<std::int64_t> shape;
  std::size_t bucket = 0;
  std::int64_t begin = 0;  // offset within the bucket, in elements
};

// Model chunks of all stages, in the model's order. The number of layers per chunk is inferred from
// the sizes of its buckets.
class MegatronPacking {
 public:
  // `tp`: tensor-parallel size. `chunks`: total over all stages.
  MegatronPacking(const MegatronParameters& parameters, MegatronOrder order, std::int64_t tp,
                  std::int64_t chunks);

  // Locations in the next chunk, whose buckets have these sizes on every rank. Returns nullopt
  // if the parameters cannot fill them exactly, and for models with an unknown parameter
  // order.
  std::optional<std::vector<MegatronPlace>> next(const std::vector<std::int64_t>& buckets);
  // Whether the chunks so far include all layers.
  bool is_complete() const { return chunk_ == chunks_ && layer_ == layers_; }

 private:
  std::vector<MegatronParameter> outside() const;
  std::optional<std::int64_t> filled_up(const std::vector<MegatronParameter>& parameters) const;
  std::vector<MegatronPlace> parts(std::int64_t layers) const;

  std::int64_t tp_, chunks_, layers_;
  std::vector<MegatronParameter> in_layer_, first_, last_;
  bool is_known_ = false;
  std::int64_t chunk_ = 0, layer_ = 0;  // start of the next chunk
};

}  // namespace trireme
