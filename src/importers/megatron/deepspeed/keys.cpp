// Lists DeepSpeed configuration keys without an equivalent Trireme setting.
#include "importers/megatron/passed.h"

namespace trireme {
namespace {

constexpr const char* narrow_weights = "Trireme keeps weights and gradients in fp32";
constexpr const char* narrow_sums = "Trireme reduces gradients in fp32";
constexpr const char* rounded = "quantized communication is not supported";

constexpr Passed top[] = {
    {"allgather_size"},
    {"communication_data_type", "fp32", narrow_sums},
    {"dataloader_drop_last"},
    {"datastates_ckpt"},
    {"disable_allgather"},
    {"dump_state"},
    {"gradient_allreduce_op", "mean", "Trireme averages gradients over the ranks"},
    {"gradient_predivide_factor"},
    {"graph_harvesting"},
    {"log_level"},
    {"managed_gradient_accumulation", "true", "your program decides when a step is taken"},
    {"memory_breakdown"},
    {"prescale_gradients"},
    {"seq_parallel_communication_data_type", "fp32", narrow_sums},
    {"sparse_gradients"},
    {"use_data_before_expert_parallelism"},
    {"vocabulary_size"},
    {"wall_clock_breakdown"},
    {"zero_allow_untested_optimizer"},
    {"zero_force_ds_cpu_optimizer"},
    {"optimizer.legacy_fusion"},
    {"data_types.grad_accum_dtype", "fp32|float32|float", "Trireme accumulates gradients in fp32"},
    {"data_types.param_dtype", "", "in Trireme parameters use run.precision"},
    {"data_types.buffer_dtype", "", "in Trireme buffers use run.precision"},
    {"fp16.auto_cast"},
    {"fp16.fp16_master_weights_and_grads", "false", narrow_weights},
    {"pipeline.stages", "auto", "give parallel.pp"},
    {"pipeline.partition"},
    {"pipeline.seed_layers"},
    {"pipeline.activation_checkpoint_interval"},
    {"pipeline.pipe_partitioned"},
    {"pipeline.grad_partitioned"},
    {"timers.throughput.enabled"},
    {"timers.throughput.synchronized"}};

constexpr Passed of_bf16[] = {{"bf16_master_weights_and_grads", "false", narrow_weights},
                              {"bf16_optimizer_states", "false",
                               "optimizer states are kept in fp32 unless optimizer.moment_dtype is "
                               "set"},
                              {"check_grad_overflow"},
                              {"immediate_grad_update"}};

constexpr Passed zero[] = {{"allgather_bucket_size"},
                           {"allgather_partitions"},
                           {"contiguous_gradients"},
                           {"cpu_offload_use_pin_memory"},
                           {"elastic_checkpoint"},
                           {"enable_sanity_checks"},
                           {"gather_16bit_weights_on_model_save"},
                           {"ignore_unused_parameters"},
                           {"leaf_module.classes"},
                           {"leaf_module.name_suffixes"},
                           {"leaf_module.names"},
                           {"legacy_stage1"},
                           {"load_from_fp32_weights"},
                           {"log_trace_cache_warnings"},
                           {"max_live_parameters"},
                           {"max_reuse_distance"},
                           {"memory_efficient_linear"},
                           {"mics_hierarchical_params_gather"},
                           {"model_persistence_threshold"},
                           {"module_granularity_threshold"},
                           {"overlap_comm"},
                           {"override_module_apply"},
                           {"param_persistence_threshold"},
                           {"pipeline_loading_checkpoint"},
                           {"prefetch_bucket_size"},
                           {"reduce_bucket_size"},
                           {"reduce_scatter"},
                           {"round_robin_gradients"},
                           {"save_muon_momentum_buffer_in_memory"},
                           {"stage3_allgather_sequential"},
                           {"allgather_sequential"},
                           {"stage3_gather_16bit_weights_on_model_save"},
                           {"stage3_gather_fp16_weights_on_model_save"},
                           {"stage3_max_live_parameters"},
                           {"stage3_max_reuse_distance"},
                           {"stage3_model_persistence_threshold"},
                           {"stage3_module_granularity_threshold"},
                           {"stage3_param_persistence_threshold"},
                           {"stage3_prefetch_bucket_size"},
                           {"stage3_use_all_reduce_for_fetch_params"},
                           {"sub_group_size"},
                           {"use_all_reduce_for_fetch_params"},
                           {"use_multi_rank_bucket_allreduce"},
                           {"zero_hpz_partition_size"},
                           {"zero_quantized_gradients", "false", rounded},
                           {"zero_quantized_nontrainable_weights", "false", rounded},
                           {"zero_quantized_weights", "false", rounded},
                           {"zeropp_loco_param", "{}", rounded},
                           {"zenflow", "{}", "optimizer updates would be delayed"}};

constexpr Passed offload[] = {
    {"buffer_count"}, {"buffer_size"},   {"cpuadam_cores_perc"}, {"fast_init"}, {"max_in_cpu"},
    {"pin_memory"},   {"pipeline_read"}, {"pipeline_write"},     {"ratio"},     {"super_offload"}};

constexpr Passed activation_checkpointing[] = {{"contiguous_memory_optimization"},
                                               {"number_checkpoints"},
                                               {"profile"},
                                               {"synchronize_checkpoint_boundary"}};

constexpr Passed checkpoint[] = {
    {"checkpoint_serialization"}, {"load_universal"},          {"parallel_write.pipeline_stage"},
    {"tag_validation"},           {"use_node_local_storage"},  {"writer.data_parallel"},
    {"writer.decoupled"},         {"writer.io_buffer_double"}, {"writer.io_buffer_size"},
    {"writer.io_multiplier"},     {"writer.show_statistics"},  {"writer.type"}};

constexpr Passed aio[] = {{"block_size"},  {"intra_op_parallelism"}, {"overlap_events"},
                          {"queue_depth"}, {"single_submit"},        {"thread_count"},
                          {"use_gds"}};

constexpr Passed reports[] = {{"comet.api_key"},
                              {"comet.enabled"},
                              {"comet.experiment_key"},
                              {"comet.experiment_name"},
                              {"comet.mode"},
                              {"comet.online"},
                              {"comet.project"},
                              {"comet.samples_log_interval"},
                              {"comet.workspace"},
                              {"comms_logger.debug"},
                              {"comms_logger.enabled"},
                              {"comms_logger.prof_all"},
                              {"comms_logger.prof_ops"},
                              {"comms_logger.verbose"},
                              {"csv_monitor.enabled"},
                              {"csv_monitor.job_name"},
                              {"csv_monitor.output_path"},
                              {"flops_profiler.detailed"},
                              {"flops_profiler.enabled"},
                              {"flops_profiler.module_depth"},
                              {"flops_profiler.output_file"},
                              {"flops_profiler.profile_step"},
                              {"flops_profiler.recompute_fwd_factor"},
                              {"flops_profiler.top_modules"},
                              {"tensorboard.enabled"},
                              {"tensorboard.job_name"},
                              {"tensorboard.output_path"},
                              {"wandb.enabled"},
                              {"wandb.group"},
                              {"wandb.project"},
                              {"wandb.team"}};

constexpr Passed nebula[] = {{"enable_nebula_load"},
                             {"enabled"},
                             {"load_path"},
                             {"nebula_load_path"},
                             {"num_of_version_in_retention"},
                             {"persistent_storage_path"},
                             {"persistent_time_interval"}};

// Execution details of compiled steps.
constexpr Passed compiled[] = {{"debug_log"},
                               {"deepcompile"},
                               {"double_buffer"},
                               {"free_activation"},
                               {"free_activation_threshold"},
                               {"keep_all_input_tensors"},
                               {"keep_int_input_tensors"},
                               {"offload_activation"},
                               {"offload_activation_pin_memory"},
                               {"offload_opt_states"},
                               {"offload_parameters"},
                               {"passes"},
                               {"symmetric_memory"},
                               {"sync_after_allgather"},
                               {"sync_after_reduce"},
                               {"sync_before_allgather"},
                               {"sync_before_reduce"}};

constexpr Passed tensor_parallel[] = {{"dtype"},
                                      {"keep_module_on_host"},
                                      {"preset_model"},
                                      {"tp_overlap_comm"},
                                      {"kernel_inject", "false", "inference kernels"},
                                      {"replace_with_kernel_inject", "false", "inference kernels"},
                                      {"injection_policy_tuple", "", "a custom split"},
                                      {"partition_config", "{}", "a custom split"}};

constexpr SwitchedSection switched[] = {
    {"amp", "Apex automatic mixed precision is not supported: use bf16 or fp16"},
    {"autotuning",
     "DeepSpeed's autotuner chooses the batch size and the ZeRO stage: set the values that it "
     "found"},
    {"compression_training", "compression during training is not supported"},
    {"curriculum_learning",
     "give data.curriculum_schedule and its keys, which are those of DeepSpeed's curriculum"},
    {"data_efficiency", "its data sampling and routing are not supported"},
    {"eigenvalue", "eigenvalue-based quantization is not supported"},
    {"elasticity", "the batch size then depends on the number of ranks: set it explicitly"},
    {"expert_parallel", "give parallel.ep"},
    {"hybrid_engine", "hybrid engine for text generation during training"},
    {"progressive_layer_drop", "progressive layer dropping is not supported"},
    {"quantize_training", "quantization of weights during training is not supported"},
    {"torch_autocast",
     "PyTorch's autocast chooses the data type of each operation: set run.precision"},
    {"weight_quantization", "quantization of weights is not supported"}};

constexpr PassedSection sections[] = {{"", top},
                                      {"bf16.", of_bf16},
                                      {"bfloat16.", of_bf16},
                                      {"zero_optimization.", zero},
                                      {"zero_optimization.offload_optimizer.", offload},
                                      {"zero_optimization.offload_param.", offload},
                                      {"activation_checkpointing.", activation_checkpointing},
                                      {"checkpoint.", checkpoint},
                                      {"aio.", aio},
                                      {"", reports},
                                      {"nebula.", nebula},
                                      {"compile.", compiled},
                                      {"tensor_parallel.", tensor_parallel}};

}  // namespace

std::span<const PassedSection> passed_deepspeed_keys() {
  return sections;
}

std::span<const SwitchedSection> switched_deepspeed_sections() {
  return switched;
}

}  // namespace trireme
