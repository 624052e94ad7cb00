// Tables that map tensors of Hugging Face models to ours.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/huggingface/config.h"
#include "tensors/mapping.h"

namespace trireme {

// Name ending of fused experts.
inline constexpr std::string_view fused_experts_ending = ".mlp.experts.gate_up_proj";

// Ours: linear weights are [out, in]; `attention.qkv` has for each key/value head its queries, key
// and value; swiglu's `mlp.up` has the gate rows, then the up rows. Theirs: GPT-2 stores linear
// weights as [in, out] and queries, keys and values as blocks; others use [out, in] and separate
// tensors. Copies of tied weights are not included.
TensorMapping huggingface_mapping(const HuggingFaceModel& model,
                                  ExpertStorage experts = ExpertStorage::apart);

// The same for files that are written, with the copies of the word tables in modules of multi-token
// prediction. Those tables are whole tensors on both sides.
TensorMapping huggingface_export_mapping(const HuggingFaceModel& model);

// Copies of word tables in modules of multi-token prediction, each with its original.
std::vector<std::pair<std::string, std::string>> module_copies(const HuggingFaceModel& model);

// Canonical name of a file's tensor, as used in our tables: without an optional prefix, and with
// current names for LayerNorm parameters.
std::string canonical_huggingface_name(const HuggingFaceKind& kind, const std::string& name);

// Whether a tensor of that (canonical) name is ignored: buffers stored by older versions (causal
// masks, RoPE frequencies, position ids), and the pooler of a BERT without the sentence-order head,
// which is its only user. All other tensors are read.
bool is_left_out_of_huggingface(const HuggingFaceModel& model, std::string_view name);

// Removes the sentence-order head from a BERT whose tensors (by canonical name) do not include it,
// since config.json does not record the head; and modules of multi-token prediction that
// config.json counts, but no tensor is of, since transformers does not save them; or adds a module
// that only tensors tell of (Qwen3-Next). Returns a note, or "".
std::string fit_to_names(HuggingFaceModel& model, const std::vector<std::string>& names);

// The (canonical) name of the weight that a tensor must be a copy of, for example the embedding for
// a tied head; "" for any other tensor.
std::string tied_huggingface_tensor(const HuggingFaceModel& model, std::string_view name);

}  // namespace trireme
