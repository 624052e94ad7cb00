// The names of tensors in Megatron's checkpoints, of its older models and of its core's, as ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// How the ranks of tensor parallelism share a tensor.
enum class MegatronCut : std::uint8_t {
  none,     // each has all of it
  rows,     // each has some rows
  columns,  // each has some columns
  words,    // rows of the vocabulary, padded
  heads,    // rows of queries, keys and values, in the order of the checkpoint's version
  gated,    // rows of the gate, then rows of what it gates, where the model has a gate
};

struct MegatronName {
  std::string ours;         // without a number of a layer: "attention.qkv.weight"; "": unknown
  std::int64_t layer = -1;  // in the file; -1: outside of the layers
  MegatronCut cut = MegatronCut::none;
  bool is_copy = false;  // of `ours`, on the last stage of a pipeline
};

MegatronName megatron_name(std::string_view theirs);

// The kinds of models that Megatron-LM has had, each with names of its own.
enum class MegatronKind : std::uint8_t {
  transformer_engine,  // Megatron-Core's with the layers of Transformer Engine, its default
  local,               // Megatron-Core's with its own layers (--transformer-impl local)
  legacy,              // the older ones (--use-legacy-models)
};

// The way back: what a kind of model calls a tensor of ours, which is named as in MegatronName; ""
// where it has none. `layer` is the number in the file, -1 outside of the layers.
std::string megatron_name_of(std::string_view ours, std::int64_t layer, MegatronKind kind,
                             bool bert);
// The embedding of words once more, on the last of several stages.
std::string megatron_copy_name(MegatronKind kind);
// The modules of a layer (layer >= 0), or those outside, that keep a state of 8-bit formats next to
// their weights, which is None without such formats.
std::vector<std::string> megatron_states(std::int64_t layer, MegatronKind kind, bool bert);

// Whether only the models of Megatron's core have a tensor of that name.
bool is_of_megatron_core(std::string_view theirs);

// Whether a name is not that of a weight: states of 8-bit formats, rotary frequencies.
bool is_megatron_buffer(std::string_view theirs);

}  // namespace trireme
