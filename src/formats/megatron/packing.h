// How Megatron's distributed optimizer lays out the parameters of a rank in its buffers: in the
// reverse of the model's order, each at a multiple of 64 elements, with buckets that end between
// parameters. Source: megatron/core/distributed/param_and_grad_buffer.py of Megatron-Core 0.16
// (layout only).
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
  std::vector<std::int64_t> shape;  // of the whole
};

// The parameters of a model: those outside of the layers, and those of one of its layers.
struct MegatronParameters {
  std::vector<MegatronParameter> outside, layer;
  std::int64_t layers = 0;
  bool tied = false;  // the last of several stages has a copy of the embedding
};

// In which order a layer has its parameters: that of Transformer Engine, whose norms are parts of
// the products after them, or that of Megatron's own layers.
enum class MegatronOrder : std::uint8_t { transformer_engine, local };

// A rank's part of a parameter, and where it lies.
struct MegatronPlace {
  std::string name;  // "layers.3.mlp.up.weight"; "": a copy of the embedding
  std::vector<std::int64_t> shape;
  std::size_t bucket = 0;
  std::int64_t begin = 0;  // element of the bucket
};

// The chunks of layers of all stages, in the order of the model. How many layers each has shows in
// the sizes of its buckets.
class MegatronPacking {
 public:
  // `tp`: ranks of tensor parallelism. `chunks`: of all stages.
  MegatronPacking(const MegatronParameters& parameters, MegatronOrder order, std::int64_t tp,
                  std::int64_t chunks);

  // The places in the next chunk, whose buckets have this many elements on every rank. Nothing
  // where the parameters cannot fill them exactly, and for models whose order of parameters is not
  // known.
  std::optional<std::vector<MegatronPlace>> next(const std::vector<std::int64_t>& buckets);
  // Whether the chunks so far have all layers.
  bool is_complete() const { return chunk_ == chunks_ && layer_ == layers_; }

 private:
  std::vector<MegatronParameter> outside() const;
  std::optional<std::int64_t> filled_up(const std::vector<MegatronParameter>& parameters) const;
  std::vector<MegatronPlace> parts(std::int64_t layers) const;

  std::int64_t tp_, chunks_, layers_;
  std::vector<MegatronParameter> in_layer_, first_, last_;
  bool is_known_ = false;
  std::int64_t chunk_ = 0, layer_ = 0;  // where the next chunk begins
};

}  // namespace trireme
