// The tensors of Hugging Face's models and how ours are made of them: tables, no computation.
#pragma once

#include <string>
#include <string_view>

#include "interop/huggingface_config.h"
#include "interop/tensor_mapping.h"

namespace trireme {

// Ours: linear weights are [out, in]; `attention.qkv` has for each key/value head its queries, its
// key and its value; swiglu's `mlp.up` has the gate's rows, then the up rows. Theirs: GPT-2 stores
// linear weights as [in, out] and queries, keys and values as blocks; the others as [out, in] and
// apart. Tied heads are not among the tensors.
TensorMapping huggingface_mapping(const HuggingFaceModel& model);

// The name under which our tables know a tensor of a file: without a prefix that a folder may have
// or lack, and with today's names for LayerNorm's parameters.
std::string canonical_huggingface_name(HuggingFaceKind kind, const std::string& name);

// Whether a tensor of that (canonical) name is no weight of the model: buffers, and heads that are
// tied. Such tensors are left out.
bool is_huggingface_buffer(const HuggingFaceModel& model, std::string_view name);

}  // namespace trireme
