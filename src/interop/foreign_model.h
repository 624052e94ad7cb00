// Models of other programs, opened and ready to be converted to ours.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "interop/huggingface_config.h"
#include "interop/huggingface_tokenizer.h"
#include "interop/tensor_mapping.h"

namespace trireme {

struct ForeignModel {
  std::string kind;          // for the report: "LlamaForCausalLM"
  ModelConfig model;         // resolved
  HuggingFaceTokens tokens;  // as far as the files give them
  TensorMapping mapping;     // between ours and those of `weights`
  std::unique_ptr<TensorSource> weights;
  // Copies the tokenizer's files to a folder, which is made if there are any.
  std::function<TokenizerFiles(const fs::path& to)> tokenizer;
  std::string note;  // what the user should know, or ""
};

// Settings such as "model.max_positions=4096", in order, for what the files of other programs do
// not say or say differently: the note says what they changed. Refused (exit code 2): keys of other
// sections.
using ModelSettings = std::vector<std::string>;
ModelConfig with_settings(const ModelConfig& model, const ModelSettings& settings,
                          std::string& note);
// Appends, with "; " between.
void add_note(std::string& note, const std::string& more);

// A folder of Hugging Face's: config.json and weights of safetensors or torch.save.
ForeignModel open_huggingface_folder(const fs::path& folder, const ModelSettings& settings = {});

// A folder as Meta publishes Llama: params.json and consolidated.NN.pth, one for each rank of
// tensor parallelism. What params.json does not say is assumed, and the note says what.
bool is_llama_folder(const fs::path& folder);
ForeignModel open_llama_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme
