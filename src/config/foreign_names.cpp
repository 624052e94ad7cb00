// Tables of names used by other systems.
#include "config/foreign_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <span>

#include "config/fields.h"

namespace trireme {
namespace {

constexpr const char* kBatch =
    "train.global_batch_size counts the samples of a step; the micro-batches of a rank follow as "
    "global_batch_size / (micro_batch_size x data-parallel ranks)";
constexpr const char* kAccumulation =
    "use train.global_batch_size = micro_batch_size x data-parallel ranks x accumulation steps";
constexpr const char* kEpochs =
    "use train.samples = epochs x samples of the data set (trireme data show counts them), or "
    "train.iters";
constexpr const char* kSteps = "use train.iters, or train.samples";
constexpr const char* kTokens =
    "use train.tokens, which ends the run, and train.iters or train.samples at least as long";
constexpr const char* kDataParallel =
    "data parallelism is what tp, pp and cp leave of the ranks: start more processes, or lower "
    "those";
constexpr const char* kExperts = "use moe.num_experts (docs/training.md)";
constexpr const char* kShard =
    "use parallel.zero: 1 shards the optimizer states, 2 gradients too, 3 parameters too (as FSDP "
    "does)";
constexpr const char* kOffload =
    "use offload.optimizer for the states of the optimizer, offload.parameters for the parts of "
    "parameters with parallel.zero = 3, and offload.activations for what layers save";

struct ForeignKey {
  std::string_view name;
  const char* hint;
};

// Names whose hint says more than the equivalent key; plain aliases are listed in the rows of the
// keys.
constexpr ForeignKey kKeys[] = {
    // length of the run
    {"epochs", kEpochs},
    {"num_epochs", kEpochs},
    {"num_train_epochs", kEpochs},
    {"max_epochs", kEpochs},
    {"max_steps", kSteps},
    {"steps", kSteps},
    {"total_steps", kSteps},
    {"num_steps", kSteps},
    {"train_iters", kSteps},
    {"train_steps", kSteps},
    {"max_iters", kSteps},
    {"training_steps", kSteps},
    {"max_tokens", kTokens},
    {"total_tokens", kTokens},
    {"train_tokens", kTokens},
    // batches
    {"batch_size", kBatch},
    {"train_batch_size", kBatch},
    {"total_batch_size", kBatch},
    {"gradient_accumulation_steps", kAccumulation},
    {"gradient_accumulation", kAccumulation},
    {"grad_accum", kAccumulation},
    {"num_micro_batches", kAccumulation},
    {"num_microbatches", kAccumulation},
    {"micro_batches", kAccumulation},
    {"accumulate_grad_batches", kAccumulation},
    // optimizer
    {"betas", "use optimizer.beta1 and optimizer.beta2"},
    {"adjust_lr_fn",
     "use optimizer.muon_scale: \"original\", or \"match_rms\" for match_rms_adamw"},
    // model
    {"dropout", "use model.hidden_dropout and model.attention_dropout"},
    {"flavor", "use model.preset, for example \"llama3-8b\""},
    {"model_name", "use model.preset, for example \"gpt3-13b\""},
    {"num_experts", kExperts},
    {"n_experts", kExperts},
    {"num_local_experts", kExperts},
    {"moe", kExperts},
    // parallelism
    {"dp", kDataParallel},
    {"data_parallel", kDataParallel},
    {"data_parallel_size", kDataParallel},
    {"dp_degree", kDataParallel},
    {"data_parallel_shard_degree", kShard},
    {"dp_shard", kShard},
    {"fsdp", kShard},
    {"zero_stage", kShard},
    {"zero_optimization", kShard},
    {"use_distributed_optimizer", "use parallel.zero = 1"},
    {"ulysses_sequence_parallel_size", "use parallel.cp with parallel.cp_attention = \"ulysses\""},
    {"cpu_offload", kOffload},
    {"offload", kOffload},
    {"world_size", "the launcher says how many processes there are: --nproc, mpirun -n, srun -n"},
    {"num_gpus", "the launcher says how many processes there are: --nproc, mpirun -n, srun -n"},
    {"num_processes",
     "the launcher says how many processes there are: --nproc, mpirun -n, srun -n"},
    // the run
    {"fp8_format", "use fp8.format: e4m3 or hybrid, with fp8.recipe"},
    {"resume", "a run resumes from the newest checkpoint in run.dir by itself"},
    {"resume_from_checkpoint", "a run resumes from the newest checkpoint in run.dir by itself"},
    {"compile", "nothing is compiled at run time"},
    {"wandb", "write the run with `trireme export-wandb` afterwards, or use log.tensorboard"},
};

// "use run.precision: bf16, fp16, fp32 or fp64"
std::string hint_of(const Field& field) {
  constexpr std::size_t most_listed = 6;
  std::string hint = "use " + field.key();
  const std::vector<std::string>& allowed = field.limits.allowed;
  if (allowed.empty() || allowed.size() > most_listed) return hint;
  const std::span<const std::string> first(allowed.begin(), allowed.end() - 1);
  return fmt::format("{}: {} or {}", hint, fmt::join(first, ", "), allowed.back());
}

std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool holds_all(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) == std::string_view::npos) return false;
  }
  return true;
}

std::string_view without_leading_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first == std::string_view::npos ? "" : text.substr(first);
}

std::string json_hint(std::string_view text) {
  if (holds_all(text, {"\"model_type\""}) || holds_all(text, {"\"architectures\""})) {
    return "this is a config.json of Hugging Face: trireme convert --from hf FOLDER RUN imports "
           "its folder as a run";
  }
  if (holds_all(text, {"\"zero_optimization\""}) || holds_all(text, {"\"train_batch_size\""}) ||
      holds_all(text, {"\"train_micro_batch_size_per_gpu\""})) {
    return "this is a configuration of DeepSpeed: trireme pretrain-gpt --deepspeed_config FILE and "
           "trireme import-args FILE read it";
  }
  return "this is JSON: Trireme's configurations are TOML (docs/configuration.md)";
}

}  // namespace

std::string foreign_key_hint(std::string_view section, std::string_view name) {
  if (find_field(std::string(section), std::string(name))) return "";
  const std::string wanted = folded(name);
  for (const ForeignKey& key : kKeys) {
    if (wanted == key.name) return key.hint;
  }
  for (const Field& field : all_fields())
    if (std::ranges::find(field.aliases, wanted) != field.aliases.end()) return hint_of(field);
  if (section == "model" && wanted == "size") return "use model.preset, for example \"gpt3-13b\"";
  return "";
}

std::string foreign_file_hint(std::string_view text) {
  text = without_leading_blanks(text);
  if (text.starts_with('{')) return json_hint(text);
  if (text.starts_with("#!") || holds_all(text, {"\n#SBATCH"})) {
    return "this is a script: trireme import-args FILE turns a launch script of Megatron into a "
           "configuration";
  }
  if (holds_all(text, {"compute_environment:"}) || holds_all(text, {"distributed_type:"})) {
    return "this is a configuration of Accelerate: trireme import-args FILE reads it, and trireme "
           "config --from FILE asks for the missing settings (the model, the data and the batch "
           "size, which are in the training script)";
  }
  if (holds_all(text, {"[activation_checkpoint]"}) || holds_all(text, {"[training]"}) ||
      holds_all(text, {"torchtitan"})) {
    return "this is a configuration of torchtitan: trireme import-args FILE reads it, and trireme "
           "config --from FILE asks for missing settings";
  }
  return "";
}

}  // namespace trireme
