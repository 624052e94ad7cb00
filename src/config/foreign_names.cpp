// The tables behind the hints.
#include "config/foreign_names.h"

#include <fmt/format.h>

#include <cctype>
#include <initializer_list>

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
constexpr const char* kPrecision = "use run.precision: bf16, fp16, fp32 or fp64";
constexpr const char* kShard =
    "use parallel.zero: 1 shards the optimizer states, 2 gradients too, 3 parameters too (as FSDP "
    "does)";
constexpr const char* kRecompute = "use parallel.recompute: none, selective or full";
constexpr const char* kOffload =
    "use offload.optimizer for the states of the optimizer, offload.parameters for the parts of "
    "parameters with parallel.zero = 3, and offload.activations for what layers save";

struct ForeignKey {
  std::string_view name;
  const char* hint;
};

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
    {"train_samples", "use train.samples"},
    {"max_tokens", kTokens},
    {"total_tokens", kTokens},
    {"train_tokens", kTokens},
    // batches
    {"batch_size", kBatch},
    {"train_batch_size", kBatch},
    {"total_batch_size", kBatch},
    {"per_device_train_batch_size", "use train.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "use train.micro_batch_size"},
    {"local_batch_size", "use train.micro_batch_size"},
    {"gradient_accumulation_steps", kAccumulation},
    {"gradient_accumulation", kAccumulation},
    {"grad_accum", kAccumulation},
    {"num_micro_batches", kAccumulation},
    {"num_microbatches", kAccumulation},
    {"micro_batches", kAccumulation},
    {"accumulate_grad_batches", kAccumulation},
    // optimizer
    {"learning_rate", "use optimizer.lr"},
    {"max_lr", "use optimizer.lr"},
    {"max_learning_rate", "use optimizer.lr"},
    {"peak_lr", "use optimizer.lr"},
    {"lr_scheduler_type", "use optimizer.decay_style"},
    {"lr_scheduler", "use optimizer.decay_style"},
    {"lr_decay_style", "use optimizer.decay_style"},
    {"lr_decay_iters", "use optimizer.decay_iters"},
    {"lr_decay_steps", "use optimizer.decay_iters"},
    {"warmup_steps", "use optimizer.warmup_iters"},
    {"lr_warmup_iters", "use optimizer.warmup_iters"},
    {"lr_warmup_steps", "use optimizer.warmup_iters"},
    {"warmup_ratio", "use optimizer.warmup_fraction"},
    {"max_grad_norm", "use optimizer.clip_grad"},
    {"max_norm", "use optimizer.clip_grad"},
    {"gradient_clipping", "use optimizer.clip_grad"},
    {"grad_clip", "use optimizer.clip_grad"},
    {"gradient_clip_val", "use optimizer.clip_grad"},
    {"adam_beta1", "use optimizer.beta1"},
    {"adam_beta2", "use optimizer.beta2"},
    {"betas", "use optimizer.beta1 and optimizer.beta2"},
    {"adam_eps", "use optimizer.eps"},
    {"adam_epsilon", "use optimizer.eps"},
    {"optim", "use optimizer.name: adamw, adam, sgd, lion or muon"},
    {"optimizer_type", "use optimizer.name: adamw, adam, sgd, lion or muon"},
    {"adjust_lr_fn",
     "use optimizer.muon_scale: \"original\", or \"match_rms\" for match_rms_adamw"},
    {"ns_steps", "use optimizer.muon_steps"},
    {"newton_schulz_steps", "use optimizer.muon_steps"},
    {"ns_coefficients", "use optimizer.muon_coefficients"},
    {"nesterov", "use optimizer.muon_nesterov"},
    {"wd", "use optimizer.weight_decay"},
    // model
    {"n_layer", "use model.num_layers"},
    {"n_layers", "use model.num_layers"},
    {"num_hidden_layers", "use model.num_layers"},
    {"layers", "use model.num_layers"},
    {"depth", "use model.num_layers"},
    {"n_head", "use model.num_heads"},
    {"n_heads", "use model.num_heads"},
    {"num_attention_heads", "use model.num_heads"},
    {"n_kv_heads", "use model.num_kv_heads"},
    {"num_key_value_heads", "use model.num_kv_heads"},
    {"num_query_groups", "use model.num_kv_heads"},
    {"n_embd", "use model.hidden_size"},
    {"dim", "use model.hidden_size"},
    {"d_model", "use model.hidden_size"},
    {"embed_dim", "use model.hidden_size"},
    {"intermediate_size", "use model.ffn_hidden_size"},
    {"ffn_dim", "use model.ffn_hidden_size"},
    {"d_ff", "use model.ffn_hidden_size"},
    {"seq_len", "use model.seq_length"},
    {"block_size", "use model.seq_length"},
    {"context_length", "use model.seq_length"},
    {"max_seq_len", "use model.seq_length"},
    {"n_positions", "use model.max_positions"},
    {"max_position_embeddings", "use model.max_positions"},
    {"rope_theta", "use model.rope_base"},
    {"sliding_window", "use model.attention_window"},
    {"window_size", "use model.attention_window"},
    {"rms_norm_eps", "use model.norm_eps"},
    {"layer_norm_epsilon", "use model.norm_eps"},
    {"dropout", "use model.hidden_dropout and model.attention_dropout"},
    {"tie_word_embeddings", "use model.tie_embeddings"},
    {"hidden_act", "use model.activation"},
    {"model_type", "use model.family: gpt, llama or bert"},
    {"arch", "use model.family: gpt, llama or bert"},
    {"flavor", "use model.preset, for example \"llama3-8b\""},
    {"model_name", "use model.preset, for example \"gpt3-13b\""},
    {"num_experts", kExperts},
    {"n_experts", kExperts},
    {"num_local_experts", kExperts},
    {"num_experts_per_tok", "use moe.top_k"},
    {"moe_intermediate_size", "use moe.ffn_hidden_size"},
    {"moe", kExperts},
    {"top_k", "use moe.top_k"},
    // parallelism
    {"dp", kDataParallel},
    {"data_parallel", kDataParallel},
    {"data_parallel_size", kDataParallel},
    {"dp_degree", kDataParallel},
    {"data_parallel_replicate_degree", "use parallel.dp_replicate"},
    {"data_parallel_shard_degree", kShard},
    {"dp_shard", kShard},
    {"fsdp", kShard},
    {"zero_stage", kShard},
    {"zero_optimization", kShard},
    {"use_distributed_optimizer", "use parallel.zero = 1"},
    {"tp_degree", "use parallel.tp"},
    {"tensor_parallel", "use parallel.tp"},
    {"tensor_parallel_size", "use parallel.tp"},
    {"tensor_parallel_degree", "use parallel.tp"},
    {"tensor_model_parallel_size", "use parallel.tp"},
    {"pp_degree", "use parallel.pp"},
    {"pipeline_parallel", "use parallel.pp"},
    {"pipeline_parallel_size", "use parallel.pp"},
    {"pipeline_parallel_degree", "use parallel.pp"},
    {"pipeline_model_parallel_size", "use parallel.pp"},
    {"context_parallel_size", "use parallel.cp"},
    {"context_parallel_degree", "use parallel.cp"},
    {"context_parallel_rotate_method", "use parallel.cp_attention"},
    {"cp_comm_type", "use parallel.cp_attention"},
    {"ulysses_sequence_parallel_size", "use parallel.cp with parallel.cp_attention = \"ulysses\""},
    {"expert_parallel_size", "use parallel.ep"},
    {"expert_parallel_degree", "use parallel.ep"},
    {"expert_model_parallel_size", "use parallel.ep"},
    {"moe_expert_parallel_size", "use parallel.ep"},
    {"ep_size", "use parallel.ep"},
    {"etp", "use parallel.expert_tp"},
    {"expert_tensor_parallel_size", "use parallel.expert_tp"},
    {"expert_tensor_parallel_degree", "use parallel.expert_tp"},
    {"autoep_size", "use parallel.ep"},
    {"pipeline_parallel_schedule", "use parallel.schedule"},
    {"gradient_checkpointing", kRecompute},
    {"activation_checkpointing", kRecompute},
    {"recompute_activations", kRecompute},
    {"recompute_granularity", kRecompute},
    {"cpu_offload", kOffload},
    {"offload", kOffload},
    {"world_size", "the launcher says how many processes there are: --nproc, mpirun -n, srun -n"},
    {"num_gpus", "the launcher says how many processes there are: --nproc, mpirun -n, srun -n"},
    {"num_processes",
     "the launcher says how many processes there are: --nproc, mpirun -n, srun -n"},
    // the run
    {"bf16", kPrecision},
    {"fp8_format", "use fp8.format: e4m3 or hybrid, with fp8.recipe"},
    {"fp8_recipe", "use fp8.recipe: tensorwise or blockwise"},
    {"fp8", "use fp8.recipe: tensorwise or blockwise"},
    {"fp16", kPrecision},
    {"mixed_precision", kPrecision},
    {"dtype", kPrecision},
    {"output_dir", "use run.dir"},
    {"out_dir", "use run.dir"},
    {"save_dir", "use run.dir"},
    {"save_interval", "use checkpoint.interval"},
    {"save_steps", "use checkpoint.interval"},
    {"save_total_limit", "use checkpoint.keep"},
    {"logging_steps", "use train.log_interval"},
    {"log_every", "use train.log_interval"},
    {"log_freq", "use train.log_interval"},
    {"eval_steps", "use train.eval_interval"},
    {"resume", "a run resumes from the newest checkpoint in run.dir by itself"},
    {"resume_from_checkpoint", "a run resumes from the newest checkpoint in run.dir by itself"},
    {"compile", "nothing is compiled at run time"},
    {"wandb", "write the run with `trireme export-wandb` afterwards, or use log.tensorboard"},
    {"data_path", "use data.path"},
    {"dataset", "use data.path"},
    {"dataset_path", "use data.path"},
};

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
    return "this is a config.json of Hugging Face: trireme convert --from hf FOLDER RUN turns its "
           "folder into a run";
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
           "config --from FILE asks for what it does not say (the model, the data and the batch, "
           "which the training script has)";
  }
  if (holds_all(text, {"[activation_checkpoint]"}) || holds_all(text, {"[training]"}) ||
      holds_all(text, {"torchtitan"})) {
    return "this is a configuration of torchtitan: trireme import-args FILE reads it, and trireme "
           "config --from FILE asks for what it does not say";
  }
  return "";
}

}  // namespace trireme
