// Settings files of any text: the first byte says which kind.
#include "fuzz/fuzz.h"
#include "importers/settings/settings_file.h"

FUZZ_SEEDS(
    {"ydistributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_sharding_strategy: 1}\n",
     "ydistributed_type: MEGATRON_LM\nmegatron_lm_config:\n  megatron_lm_tp_degree: 2\n",
     "y_target_: megatron.bridge.training.config.ConfigContainer\nmodel: {seq_length: 8, "
     "ffn_hidden_size: 4, num_layers: 1, add_bias_linear: false, add_qkv_bias: false, "
     "attention_dropout: 0, hidden_dropout: 0,\n init_method_std: 0.02, layernorm_epsilon: 1e-5, "
     "normalization: RMSNorm, num_query_groups: 1, position_embedding_type: rope, qk_layernorm: "
     "false,\n rotary_base: 10000, rotary_percent: 1, share_embeddings_and_output_weights: true, "
     "num_attention_heads: 1}\ndataset: {_target_: GPTDatasetConfig, blend: [[a], null], split: "
     "'1,0,0'}\n",
     "yx: &a [1, 2]\ny: [*a, *a]\ndistributed_type: NO\n",
     "j{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 2}, \"fp16\": "
     "{\"enabled\": true}}",
     "j{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.9, 0.95]}}, "
     "\"train_batch_size\": 8}",
     "j{\"model_spec\": {\"name\": \"llama3\", \"model\": {\"dim\": 8, \"layers\": "
     "[{\"attention\": {\"n_heads\": 2}}]}}, \"training\": {\"steps\": 10}}",
     "j# hjson\n{train_batch_size: 8\n 'fp16': {enabled: true,}, a: '''\n x'''}",
     "t[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nsteps = "
     "10\n[lr_scheduler]\ndecay_ratio = 0.1\n"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char* const name = data[0] == 'y' ? "a.yaml" : data[0] == 'j' ? "a.json" : "a.toml";
  return trireme::fuzz_reader([&] { trireme::settings::read_settings(text, name, 8); });
}
