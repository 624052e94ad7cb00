// A configuration of a small model as Megatron-Bridge saves it, without most of its keys.
#pragma once

#include <map>
#include <string>

namespace trireme::settings {

// Dotted keys and values as JSON.
inline std::map<std::string, std::string> bridge_file() {
  return {{"_target_", "\"megatron.bridge.training.config.ConfigContainer\""},
          {"model._target_", "\"megatron.bridge.models.llama.llama_provider.LlamaModelProvider\""},
          {"model.activation_func._target_", "\"torch.nn.functional.silu\""},
          {"model.add_bias_linear", "false"},
          {"model.attention_dropout", "0.0"},
          {"model.ffn_hidden_size", "160"},
          {"model.gated_linear_unit", "true"},
          {"model.hidden_dropout", "0.0"},
          {"model.hidden_size", "64"},
          {"model.normalization", "\"RMSNorm\""},
          {"model.num_attention_heads", "4"},
          {"model.num_layers", "2"},
          {"model.position_embedding_type", "\"rope\""},
          {"model.seq_length", "64"},
          {"model.share_embeddings_and_output_weights", "false"},
          {"model.vocab_size", "1000"},
          {"dataset.split", "\"969, 30, 1\""},
          {"model.add_qkv_bias", "false"},
          {"model.init_method_std", "0.02"},
          {"model.kv_lora_rank", "512"},
          {"model.layernorm_epsilon", "1e-5"},
          {"model.moe_aux_loss_coeff", "0.0"},
          {"model.moe_layer_freq", "1"},
          {"model.moe_router_pre_softmax", "false"},
          {"model.moe_router_score_function", "\"softmax\""},
          {"model.moe_router_topk", "2"},
          {"model.num_query_groups", "4"},
          {"model.q_lora_rank", "512"},
          {"model.qk_layernorm", "false"},
          {"model.rope_scaling_factor", "8.0"},
          {"model.rotary_base", "10000"},
          {"model.rotary_percent", "1.0"},
          {"model.rotary_scaling_factor", "40"},
          {"optimizer.muon_momentum", "0.95"},
          {"mixed_precision.bf16", "true"},
          {"train.global_batch_size", "64"},
          {"train.micro_batch_size", "1"},
          {"train.train_iters", "10"},
          {"optimizer.lr", "0.001"},
          {"optimizer.optimizer", "\"adam\""},
          {"scheduler.start_weight_decay", "0.1"},
          {"scheduler.end_weight_decay", "0.1"},
          {"dataset._target_", "\"megatron.bridge.training.config.GPTDatasetConfig\""},
          {"dataset.blend", "[[\"data/text\"], null]"},
          {"tokenizer.tokenizer_type", "\"SentencePieceTokenizer\""},
          {"tokenizer.tokenizer_model", "\"tokenizer.model\""}};
}

}  // namespace trireme::settings
