// Names that Meta's Llama and torchtitan give to the tensors of a Llama, and Hugging Face's.
#pragma once

#include <string>

#include "config/config.h"
#include "interop/joined_tensors.h"

namespace trireme {

// Hugging Face's name of a tensor of Meta's or torchtitan's of any release. An unknown tensor keeps
// its name, and is then one that no model has.
std::string huggingface_name_of_llama(const std::string& name);
// The name of a tensor of Hugging Face's in torchtitan 0.3.
std::string torchtitan_name(const std::string& huggingface);

// Of Hugging Face's names: how the rows of queries and keys lie at Meta and torchtitan. Pairs that
// are rotated together lie side by side there, and half a head apart at Hugging Face.
RowOrder llama_row_order(const std::string& huggingface, const ModelConfig& model);

}  // namespace trireme
