// The tensors of Hugging Face's models and how ours are made of them: tables, no computation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/huggingface/config.h"
#include "tensors/mapping.h"

namespace trireme {

// The ending of the name of fused experts.
inline constexpr std::string_view fused_experts_ending = ".mlp.experts.gate_up_proj";

// Ours: linear weights are [out, in]; `attention.qkv` has for each key/value head its queries, its
// key and its value; swiglu's `mlp.up` has the gate's rows, then the up rows. Theirs: GPT-2 stores
// linear weights as [in, out] and queries, keys and values as blocks; the others as [out, in] and
// apart. Copies of tied weights are not among the tensors.
TensorMapping huggingface_mapping(const HuggingFaceModel& model,
                                  ExpertStorage experts = ExpertStorage::apart);

// The name under which our tables know a tensor of a file: without a prefix that a folder may have
// or lack, and with today's names for LayerNorm's parameters.
std::string canonical_huggingface_name(const HuggingFaceKind& kind, const std::string& name);

// Whether a tensor of that (canonical) name is not read: buffers that older versions stored (causal
// masks, rotary frequencies, position ids), and the pooler of a BERT without the sentence-order
// head, which alone reads it. All others are.
bool is_left_out_of_huggingface(const HuggingFaceModel& model, std::string_view name);

// Takes the sentence-order head from a BERT whose tensors, of these (canonical) names, are not
// those of one. Returns a note, or "". A config.json does not say it.
std::string fit_to_names(HuggingFaceModel& model, const std::vector<std::string>& names);

// The (canonical) name of the weight that a tensor of that (canonical) name must be a copy of, such
// as a tied head of the embedding; "" for any other tensor.
std::string tied_huggingface_tensor(const HuggingFaceModel& model, std::string_view name);

}  // namespace trireme
