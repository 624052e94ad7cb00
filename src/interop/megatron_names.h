// The names of tensors in Megatron's checkpoints, of its older models and of its core's, as ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

// Whether a name is not that of a weight: states of 8-bit formats, rotary frequencies.
bool is_megatron_buffer(std::string_view theirs);

}  // namespace trireme
