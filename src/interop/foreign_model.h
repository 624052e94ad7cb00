// Models of other programs, opened and ready to be converted to ours.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interop/huggingface_config.h"
#include "interop/huggingface_tokenizer.h"
#include "interop/tensor_mapping.h"

namespace trireme {

// Where a run was whose optimizer's states came along.
struct ForeignTraining {
  std::int64_t step = 0;             // of the run
  std::int64_t optimizer_steps = 0;  // on which Adam's corrections depend
  std::int64_t samples = 0, tokens = 0;
  OptimizerConfig optimizer;
};

struct ForeignModel {
  std::string kind;          // for the report: "LlamaForCausalLM"
  ModelConfig model;         // resolved
  HuggingFaceTokens tokens;  // as far as the files give them
  TensorMapping mapping;     // between ours and those of `weights`; with `training` moments too
  std::unique_ptr<TensorSource> weights;
  // Copies the tokenizer's files to a folder, which is made if there are any.
  std::function<TokenizerFiles(const fs::path& to)> tokenizer;
  std::string note;  // what the user should know, or ""
  std::optional<ForeignTraining> training;
  std::optional<Config> config;  // of the run; `model` counts for its model
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

// A folder as accelerate leaves it (FSDP with SHARDED_STATE_DICT): the model and the optimizer in
// folders of torch.distributed.checkpoint of their own. Empty paths where they are not there.
// Refused (exit code 2): several models.
struct SplitDcpFolder {
  fs::path model, optimizer;
};
SplitDcpFolder find_split_dcp_folder(const fs::path& folder);

// Such a folder, or one of torch.distributed.checkpoint with torchtitan's names of a Llama or with
// Hugging Face's, and the states of AdamW where they are there. `config` says what model it is: a
// TOML file of Trireme or a config.json of Hugging Face; "": the config.json in the folder, or the
// settings. Experts lie apart or, as transformers has them in memory, in one tensor.
ForeignModel open_dcp_folder(const fs::path& folder, const ModelSettings& settings = {},
                             const fs::path& config = {});

}  // namespace trireme
