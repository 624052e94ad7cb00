// Keys of Megatron-Bridge 0.3 that are named otherwise than Megatron-LM's flags, and those that no
// flag has.
#include "importers/settings/bridge.h"

namespace trireme::settings {
namespace {

using enum BridgeFlag::When;

constexpr BridgeFlag flags[] = {
    {"model.add_bias_linear", "--disable-bias-linear", off},
    {"model.layernorm_epsilon", "--norm-epsilon"},
    {"model.layernorm_zero_centered_gamma", "--apply-layernorm-1p", on},
    {"model.num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
    {"model.num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
    {"model.num_moe_experts", "--num-experts"},
    {"model.rope_scaling", "--use-rope-scaling", on},
    {"model.seq_len_interpolation_factor", "--rotary-seq-len-interpolation-factor"},
    {"model.share_embeddings_and_output_weights", "--untie-embeddings-and-output-weights", off},
    {"model.virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
    {"model.yarn_correction_range_round_to_int", "--no-yarn-correction-range-round-to-int", off},
    {"model.yarn_mscale", "--mscale"},
    {"model.yarn_mscale_all_dim", "--mscale-all-dim"},
    {"model.yarn_rotary_scaling_factor", "--rotary-scaling-factor"},
    {"checkpoint.load_optim", "--no-load-optim", off},
    {"dataset.object_storage_cache_path", "--s3-cache-path"},
    {"dataset.path_to_cache", "--data-cache-path"},
    {"mixed_precision.fp8", "--fp8-format"},
    {"model.fp8", "--fp8-format"},
    {"optimizer.decoupled_weight_decay", "--no-decoupled-weight-decay", off},
    {"optimizer.muon_split_qkv", "--muon-no-split-qkv", off},
    {"rerun_state_machine.check_for_nan_in_loss", "--no-check-for-nan-in-loss-and-grad", off},
};

constexpr BridgeDependent dependents[] = {
    {"checkpoint.non_persistent_", "checkpoint.non_persistent_save_interval"},
    {"ddp.data_parallel_sharding_strategy", "ddp.use_megatron_fsdp"},
    {"mixed_precision.first_last_layers_bf16", "mixed_precision.fp8"},
    {"mixed_precision.fp8_", "mixed_precision.fp8"},
    {"mixed_precision.hysteresis", "mixed_precision.fp16"},
    {"mixed_precision.initial_loss_scale", "mixed_precision.fp16"},
    {"mixed_precision.loss_scale", "mixed_precision.fp16"},
    {"mixed_precision.min_loss_scale", "mixed_precision.fp16"},
    {"mixed_precision.num_layers_at_", "mixed_precision.fp8"},
    {"model.cpu_offloading_weights", "model.cpu_offloading"},
    {"model.dsa_", "model.experimental_attention_variant"},
    {"model.expert_tensor_parallel_size", "model.num_moe_experts"},
    {"model.first_last_layers_bf16", "model.fp8"},
    {"model.fp4_", "model.fp4"},
    {"model.fp8_", "model.fp8"},
    {"model.glu_linear_offset", "model.gated_linear_unit"},
    {"model.kv_lora_rank", "model.multi_latent_attention"},
    {"model.linear_", "model.experimental_attention_variant"},
    {"model.mamba_", "model.is_hybrid_model"},
    {"model.moe_", "model.num_moe_experts"},
    {"model.moe_token_drop_policy", "model.moe_expert_capacity_factor"},
    {"model.mtp_", "model.mtp_num_layers"},
    {"model.num_layers_at_", "model.fp8"},
    {"model.offload_modules", "model.fine_grained_activation_offloading"},
    {"model.qk_clip_", "model.qk_clip"},
    {"model.q_lora_rank", "model.multi_latent_attention"},
    {"model.qk_head_dim", "model.multi_latent_attention"},
    {"model.qk_pos_emb_head_dim", "model.multi_latent_attention"},
    {"model.rope_scaling_factor", "model.rope_scaling"},
    {"model.rope_type", "model.multi_latent_attention"},
    {"model.v_head_dim", "model.multi_latent_attention"},
    {"optimizer.hysteresis", "optimizer.fp16"},
    {"optimizer.initial_loss_scale", "optimizer.fp16"},
    {"optimizer.loss_scale", "optimizer.fp16"},
    {"optimizer.min_loss_scale", "optimizer.fp16"},
    {"optimizer.muon_", "optimizer.optimizer", "muon"},
    {"optimizer.optimizer_offload_fraction", "optimizer.optimizer_cpu_offload"},
    {"tokenizer.tiktoken_", "tokenizer.tokenizer_type", "TikTok"},
};

// Keys whose default depends on the class, or differs from that of the flag.
constexpr BridgeDependent needed[] = {
    {"dataset.split", "dataset.blend"},
    {"model.add_bias_linear"},
    {"model.add_qkv_bias"},
    {"model.attention_dropout"},
    {"model.ffn_hidden_size"},
    {"model.hidden_dropout"},
    {"model.init_method_std"},
    {"model.kv_lora_rank", "model.multi_latent_attention"},
    {"model.layernorm_epsilon"},
    {"model.moe_aux_loss_coeff", "model.num_moe_experts"},
    {"model.moe_layer_freq", "model.num_moe_experts"},
    {"model.moe_router_pre_softmax", "model.num_moe_experts"},
    {"model.moe_router_score_function", "model.num_moe_experts"},
    {"model.moe_router_topk", "model.num_moe_experts"},
    {"model.normalization"},
    {"model.num_query_groups"},
    {"model.position_embedding_type"},
    {"model.q_lora_rank", "model.multi_latent_attention"},
    {"model.qk_layernorm"},
    {"model.rope_scaling_factor", "model.rope_scaling"},
    {"model.rotary_base"},
    {"model.rotary_percent"},
    {"model.rotary_scaling_factor", "model.multi_latent_attention"},
    {"model.seq_length"},
    {"model.share_embeddings_and_output_weights"},
    {"optimizer.muon_momentum", "optimizer.optimizer", "muon"}};

constexpr const char* own_kernels = "other kernels may compute something else";
constexpr const char* other_model = "a model of another kind";

// clang-format off
constexpr Passed model[] = {
    
    {"activation_func_fp8_input_store"}, {"apply_query_key_layer_scaling"}, {"apply_rope_fusion"},
    {"async_tensor_model_parallel_allreduce"}, {"attention_backend"},
    {"attention_softmax_in_fp32"}, {"autocast_dtype"}, {"barrier_with_L1_time"},
    {"batch_invariant_mode"}, {"batch_p2p_comm"}, {"batch_p2p_sync"},
    {"bias_dropout_add_fusion"}, {"bias_dropout_fusion"}, {"cache_mla_latents"},
    {"clone_scatter_output_in_embedding"}, {"config_logger_dir"}, {"cpu_offloading_activations"},
    {"cpu_offloading_double_buffering"}, 
    {"cross_entropy_fusion_impl"}, {"cross_entropy_loss_fusion"},
    {"cuda_graph_impl"}, {"cuda_graph_retain_backward_graph"}, {"cuda_graph_scope"},
    {"cuda_graph_use_single_mempool"}, {"cuda_graph_warmup_steps"},
    {"deallocate_pipeline_outputs"}, {"defer_embedding_wgrad_compute"}, {"delay_wgrad_compute"},
    {"deterministic_mode"}, {"disable_bf16_reduced_precision_matmul"},
    {"disable_parameter_transpose_cache"}, {"enable_autocast", "false", own_kernels},
    {"enable_cuda_graph"}, {"ep_overlap_early_attn_memory_release"}, {"external_cuda_graph"},
    {"finalize_model_grads_func", "", own_kernels},
    {"flash_decode"}, {"fp4_quantizer_factory"},
    {"fused_single_qkv_rope"}, {"grad_scale_func", "", own_kernels},
    {"grad_sync_func"}, {"gradient_accumulation_fusion"}, {"hetereogenous_dist_checkpoint"},
    {"heterogeneous_block_specs", "false", "layers differ from each other"}, {"hf_model_id"},
    
    {"inference_fuse_tp_communication"}, {"inference_rng_tracker"}, {"inference_sampling_seed"},
    {"init_model_with_meta_device"}, {"is_hybrid_model", "false", other_model},
    {"kitchen_attention_backend"}, {"log_max_attention_logit"}, {"make_vocab_size_divisible_by"},
    {"masked_softmax_fusion"}, {"max_position_embeddings"}, {"max_seqlen_per_dp_cp_rank"},
    {"memory_efficient_layer_norm"}, {"microbatch_group_size_per_vp_stage"},
    {"min_offloaded_tensor_size"}, {"mlp_chunks_for_prefill"}, {"moe_router_fusion"},
    {"mtp_enabled"}, {"no_sync_func"}, {"num_microbatches_with_partial_activation_checkpoints"},
    {"overlap_moe_expert_parallel_comm"}, {"overlap_p2p_comm"},
    {"overlap_p2p_comm_warmup_flush"}, {"parallel_output"}, {"param_sync_func"}, {"params_dtype"},
    {"perform_initialization", "true", "weights would not be initialized"},
    {"persist_layer_norm"}, {"pipeline_dtype"}, {"pipeline_model_parallel_comm_backend"},
    {"quant_recipe", "", "layers compute in other data types"},
    {"restore_modelopt_state", "false", "the model is quantized or pruned"},
    {"scatter_embedding_sequence_parallel"}, {"should_pad_vocab"}, {"symmetric_ar_type"},
    {"test_mode"}, {"timers"}, {"tp_comm_atomic_ag"}, {"tp_comm_atomic_rs"},
    {"tp_comm_bootstrap_backend"}, {"tp_comm_bulk_dgrad"}, {"tp_comm_bulk_wgrad"},
    {"tp_comm_overlap"}, {"tp_comm_overlap_ag"}, {"tp_comm_overlap_cfg"},
    {"tp_comm_overlap_disable_fc1"}, {"tp_comm_overlap_disable_qkv"}, {"tp_comm_overlap_rs"},
    {"tp_comm_overlap_rs_dgrad"}, {"tp_comm_split_ag"}, {"tp_comm_split_rs"},
    {"tp_only_amax_red"}, {"transformer_impl"}, {"use_arbitrary_attention_mask"},
    {"use_cpu_initialization"}, {"use_fused_weighted_squared_relu"},
    {"use_inference_optimized_layers"}, {"use_kitchen", "false", own_kernels},
    {"use_kitchen_attention", "false", own_kernels}, {"use_mamba_mem_eff_path"},
    {"use_ring_exchange_p2p"}, {"use_te_activation_func"}, {"use_te_rng_tracker"},
    {"use_transformer_engine_op_fuser"},
    {"variable_seq_lengths"}, {"wgrad_deferral_limit"},
};

constexpr Passed experts[] = {
    {"moe_deepep_num_sms"}, {"moe_enable_deepep"}, {"moe_flex_dispatcher_backend"},
    {"moe_grouped_gemm"}, {"moe_hybridep_num_sms"}, {"moe_per_layer_logging"},
    {"moe_permute_fusion"},
    {"moe_router_force_load_balancing", "false", "tokens are assigned at random, as in benchmarks"},
    {"moe_router_padding_for_fp8"}, {"moe_router_padding_for_quantization"},
    {"moe_shared_expert_overlap"}, {"moe_token_dispatcher_type"}, {"moe_use_legacy_grouped_gemm"},
    {"moe_extended_tp", "false", "experts are split otherwise"},
};

constexpr Passed optimizer[] = {
    {"barrier_with_L1_time"}, {"bf16"}, {"config_logger_dir"}, {"fp16"}, {"fp8_recipe"},
    {"log_num_zeros_in_grad"}, {"overlap_cpu_optimizer_d2h_h2d"}, {"overlap_param_gather"},
    {"overlap_param_gather_with_optimizer_step"}, {"params_dtype"}, {"pin_cpu_grads"},
    {"pin_cpu_params"}, {"reuse_grad_buf_for_mxfp8_param_ag"}, {"store_param_remainders"},
    {"timers"}, {"use_torch_optimizer_for_cpu_offload"},
};

constexpr Passed ddp[] = {
    {"align_param_gather"}, {"average_in_collective"}, {"bucket_size"}, {"check_for_large_grads"},
    {"check_for_nan_in_grad"}, {"delay_wgrad_compute"}, {"disable_symmetric_registration"},
    {"fp8_param_gather"}, {"fsdp_double_buffer"}, {"fsdp_manual_registration"},
    {"gradient_reduce_div_fusion"}, {"keep_fp8_transpose_cache"}, {"nccl_ub"},
    {"outer_dp_sharding_strategy", "no_shard", "shards of replicas are split again"},
    {"overlap_grad_reduce"}, {"overlap_param_gather"}, {"pad_buckets_for_high_nccl_busbw"},
    {"preserve_fp32_weights", "true", "the optimizer would have no fp32 weights"},
    {"reduce_scatter_with_fp32_accumulation"}, {"reuse_grad_buf_for_mxfp8_param_ag"},
    {"suggested_communication_unit_size"},
};

constexpr Passed scheduler[] = {
    {"lr_decay_steps"}, {"lr_warmup_steps"}, 
    {"wd_incr_steps"}, {"wsd_decay_steps"},
};

constexpr Passed train[] = {
    {"check_weight_hash_across_dp_replicas_interval"}, {"empty_unused_memory_level"},
    {"exit_signal"}, {"exit_signal_handler_for_dataloader"}, {"manual_gc"}, {"manual_gc_eval"},
    {"manual_gc_interval"},
};

constexpr Passed dataset[] = {
    {"add_extra_token_to_sequence", "true", "samples would lack their last target"},
    {"context_parallel_size"},
    {"data_parallel_size"}, {"data_sharding"}, {"defer_npy_index_mmap"},
    {"drop_last_partial_validation_sequence"}, {"fast_cache_load"}, 
    {"mmap_bin_files"},
    {"num_dataset_builder_threads"}, {"num_workers"},
    {"persistent_workers"}, {"pin_memory"},
    {"sequence_parallel_size"}, {"sequences_per_dataset"},
    {"split_matrix"}, {"token_dtype_code"},
    {"tokenizer"}, {"trust_remote_code"},
};

constexpr Passed checkpoint[] = {
    {"ckpt_assume_constant_structure"}, 
    {"ckpt_format"}, {"dist_ckpt_optim_fully_reshardable"},
    {"dist_ckpt_strictness"}, {"distrib_optim_fully_reshardable_mem_efficient"},
    {"exit_on_missing_checkpoint"}, {"fully_parallel_load"}, {"fully_parallel_save"},
    {"load_main_params_from_ckpt"}, {"load_rng"}, {"replication"},
    {"replication_factor"}, {"replication_jump"}, {"save_optim"}, {"save_rng"},
    {"save_tokenizer_assets"}, {"strict_fsdp_dtensor_load"}, 
    {"use_persistent_ckpt_worker"},
};

constexpr Passed tokenizer[] = {
    {"chat_template"}, {"hf_tokenizer_kwargs"}, {"image_tag_type"}, {"legacy_tokenizer"},
    {"metadata_path"}, {"sp_tokenizer_kwargs"}, {"special_tokens"}, {"tokenizer_prompt_format"},
    {"vocab_extra_ids", "0", "the vocabulary is larger than the tokenizer's"},
};

constexpr Passed mixed_precision[] = {
    {"autocast_dtype"}, {"autocast_enabled", "false", own_kernels},
    {"fp4_recipe"}, {"fp8_param"},
};

// With fp8, in either of its two places.
constexpr Passed narrow[] = {
    {"fp8_dot_product_attention", "false", "attention would compute in fp8"},
    {"fp8_multi_head_attention", "false", "attention would compute in fp8"},
};
// clang-format on

constexpr PassedSection passed[] = {
    {"model.", model},           {"optimizer.", optimizer}, {"ddp.", ddp},
    {"scheduler.", scheduler},   {"train.", train},         {"dataset.", dataset},
    {"checkpoint.", checkpoint}, {"tokenizer.", tokenizer}, {"mixed_precision.", mixed_precision}};

}  // namespace

std::span<const BridgeFlag> bridge_flags() {
  return flags;
}

std::span<const BridgeDependent> bridge_dependents() {
  return dependents;
}

std::span<const BridgeDependent> needed_bridge_keys() {
  return needed;
}

std::span<const PassedSection> passed_bridge_keys() {
  return passed;
}

void pass_bridge_keys(Reader& reader) {
  for (const auto& [prefix, rows] : passed) reader.pass(prefix, rows);
  if (reader.has("model.num_moe_experts")) reader.pass("model.", experts);
  for (const std::string section : {"model.", "mixed_precision."})
    if (reader.has(section + "fp8") && !reader.is_read(section + "fp8"))
      reader.pass(section, narrow);
}

}  // namespace trireme::settings
