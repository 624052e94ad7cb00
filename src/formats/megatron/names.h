// Maps tensor names of Megatron checkpoints, legacy and Megatron-Core, to ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Tensor-parallel sharding of a tensor.
enum class MegatronCut : std::uint8_t {
  none,     // replicated
  rows,     // split by rows
  columns,  // split by columns
  words,    // vocabulary rows, padded
  heads,    // QKV rows, in the order of the checkpoint's version
  gated,    // gate rows, then up rows, if the model is gated
};

struct MegatronName {
  std::string ours;         // without the layer number: "attention.qkv.weight"; "": unknown
  std::int64_t layer = -1;  // within the file; -1: outside of layers
  // Whether `layer` is the number of a module of multi-token prediction instead.
  bool is_module = false;
  MegatronCut cut = MegatronCut::none;
  bool is_copy = false;  // copy of `ours` on the last pipeline stage
};

MegatronName megatron_name(std::string_view theirs);

// Generations of Megatron-LM models, each with its own names.
enum class MegatronKind : std::uint8_t {
  transformer_engine,  // Megatron-Core with Transformer Engine layers, the default
  local,               // Megatron-Core with its own layers (--transformer-impl local)
  legacy,              // legacy models (--use-legacy-models)
  distributed,         // Megatron-Core's distributed format, whose names suit either of its layers
};

// Splits "layers.3.mlp.up.weight" or "mtp.0.mlp.up.weight", names of ours; cut is not set.
MegatronName split_name(std::string_view ours);

// Inverse mapping: a model kind's name of a tensor of ours; "" if it has none.
std::string megatron_name_of(const MegatronName& name, MegatronKind kind, bool bert);
// Name of the copy of the word embedding on the last of several stages.
std::string megatron_copy_name(MegatronKind kind);
// Modules of a layer (layer >= 0), or outside of layers, that store an fp8 extra state next to
// their weights, which is None without fp8.
std::vector<std::string> megatron_states(std::int64_t layer, MegatronKind kind, bool bert);
// Same for a module of multi-token prediction of Megatron-Core.
std::vector<std::string> megatron_module_states(std::int64_t module);

// Whether only Megatron-Core models have a tensor of that name.
bool is_of_megatron_core(std::string_view theirs);

// Whether a name is not a weight's: fp8 extra states, RoPE frequencies.
bool is_megatron_buffer(std::string_view theirs);

}  // namespace trireme
