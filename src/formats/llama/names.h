// Names that Meta's Llama and torchtitan give to the tensors of a Llama, and Hugging Face's.
#pragma once

#include <string>

#include "config/config.h"
#include "formats/joined_tensors.h"

namespace trireme {

// Hugging Face's name of a tensor of Meta's or torchtitan's of any release. An unknown tensor keeps
// its name, and is then one that no model has.
std::string huggingface_name_of_llama(const std::string& name);
// The name of a tensor of Hugging Face's at Meta, and in torchtitan 0.3.
std::string meta_llama_name(const std::string& huggingface);
std::string torchtitan_name(const std::string& huggingface);

// The parameter that torchtitan trains for the queries, the keys and the values of a layer, where
// it does not train them apart: its checkpoints hold their weights apart, and the states of this
// one. `own` is torchtitan's name of one of the three; "" for another.
std::string torchtitan_fused_name(const std::string& own);
// The rows of it that are those of `own`: for each head of keys the queries that look at it, the
// keys and the values.
RowChoice torchtitan_fused_rows(const std::string& own, const ModelConfig& model);
// Whether the files of the ranks of Meta's models cut the columns of a matrix; they cut the rows of
// others. Of the embedding Llama 1 and 2 cut the columns and Llama 3 the rows: false.
bool has_cut_columns(const std::string& meta);

// Of Hugging Face's names: how the rows of queries and keys lie at Meta and torchtitan. Pairs that
// are rotated together lie side by side there, and half a head apart at Hugging Face.
RowOrder llama_row_order(const std::string& huggingface, const ModelConfig& model);

}  // namespace trireme
