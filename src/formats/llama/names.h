// Tensor names of Llama at Meta, in torchtitan and at Hugging Face, and of torchtitan's Qwen3.
#pragma once

#include <string>

#include "config/config.h"
#include "formats/joined_tensors.h"

namespace trireme {

struct HuggingFaceKind;

// Hugging Face name of a tensor named by Meta or any torchtitan release. Unknown names are returned
// unchanged; no model has such a tensor.
std::string huggingface_name_of_llama(const std::string& name);
// Meta's and torchtitan 0.3's names of a Hugging Face tensor.
std::string meta_llama_name(const std::string& huggingface);
std::string torchtitan_name(const std::string& huggingface);

// The fused QKV parameter that torchtitan trains for a layer, if it fuses them: its checkpoints
// store the weights separately but the optimizer states of the fused parameter. `own` is
// torchtitan's name of one of the three; "" for other tensors.
std::string torchtitan_fused_name(const std::string& own);
// Rows of the fused parameter that belong to `own`: for each key head, its queries, the keys and
// the values.
RowChoice torchtitan_fused_rows(const std::string& own, const ModelConfig& model);
// Whether Meta's ranks split a matrix by columns; other matrices are split by rows. False for the
// embedding, which Llama 1 and 2 split by columns and Llama 3 by rows.
bool has_cut_columns(const std::string& meta);

// Name of the model in torchtitan that has these names; nullptr for kinds that it has not.
const char* torchtitan_model(const HuggingFaceKind* kind, const ModelConfig& model);

// Row order of queries and keys at Meta, by Hugging Face name. RoPE pairs are adjacent there, and
// half a head apart at Hugging Face.
RowOrder llama_row_order(const std::string& huggingface, const ModelConfig& model);
// The same in torchtitan, whose Llama is Meta's and whose Qwen3 has Hugging Face's order.
RowOrder torchtitan_row_order(const std::string& huggingface, const ModelConfig& model);

}  // namespace trireme
