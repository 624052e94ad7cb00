// Lists keys of torchtitan's job files and printed configurations without an equivalent Trireme
// setting.
#include "importers/settings/torchtitan.h"

#include <fmt/format.h>

namespace trireme::settings {
namespace {

constexpr const char* own_code = "a custom module, which may change the training in any way";
constexpr const char* own_fp8 =
    "unsupported fp8 recipe: rowwise is not supported, and tensorwise has one scale per batch and "
    "includes the output head; see fp8.recipe for the supported recipes";
constexpr const char* no_training = "nothing would be trained";
constexpr const char* other_start = "the training would not start from the beginning";

constexpr Passed job[] = {{"config_file"},
                          {"description"},
                          {"print_args"},
                          {"print_config"},
                          {"save_config_file"},
                          {"save_config_folder"},
                          {"use_for_integration_test"},
                          {"custom_config_module", "", own_code}};

constexpr Passed profiler[] = {{"enable_memory_snapshot"},
                               {"enable_profiling"},
                               {"memory_snapshot_freq"},
                               {"memory_snapshot_max_entries"},
                               {"profile_freq"},
                               {"profiler_active"},
                               {"profiler_repeat"},
                               {"profiler_skip_first"},
                               {"profiler_skip_first_wait"},
                               {"profiler_warmup"},
                               {"save_memory_snapshot_folder"},
                               {"save_traces_folder"},
                               {"trace_post_processor"}};

constexpr Passed profiling[] = {{"enable_memory_snapshot"}, {"enable_profiling"},
                                {"profile_every_x_iter"},   {"profile_freq"},
                                {"profiler_active"},        {"profiler_warmup"},
                                {"run_profiler"},           {"save_memory_snapshot_folder"},
                                {"save_traces_folder"}};

constexpr Passed metrics[] = {{"disable_color_printing"},
                              {"disable_logging_from_checkpoint"},
                              {"enable_color_printing"},
                              {"enable_wandb"},
                              {"rank_0_only"},
                              {"save_for_all_ranks"},
                              {"save_tb_folder"}};

constexpr Passed model[] = {{"attn_mask_type", "causal",
                             "attention does not cross documents: set data.reset_attention_mask"},
                            {"print_after_conversion"},
                            {"use_flex_attn"}};

constexpr Passed optimizer[] = {
    {"early_step_in_backward", "false", "gradients would not be clipped together"}, {"fused"}};

constexpr Passed training[] = {
    {"checkpoint_interval_type", "steps", "in Trireme intervals are numbers of steps"},
    {"compile"},
    {"dataloader.num_workers"},
    {"dataloader.persistent_workers"},
    {"dataloader.pin_memory"},
    {"dataloader.prefetch_factor"},
    {"debug_moe_force_load_balance", "false",
     "tokens are assigned to experts round-robin, for benchmarks only"},
    {"deterministic"},
    {"disable_cuda_graphs"},
    {"disable_loss_parallel"},
    {"dtype", "float32", "Trireme keeps weights and optimizer states in fp32"},
    {"enable_float8_linear", "false", own_fp8},
    {"enable_fp8_linear", "false", own_fp8},
    {"enable_fsdp_float8_all_gather"},
    {"enable_fsdp_fp8_all_gather"},
    {"enable_loss_parallel"},
    {"enable_selective_ac"},
    {"float8_scaling_type_grad_output"},
    {"float8_scaling_type_input"},
    {"float8_scaling_type_weight"},
    {"fp8_linear", "|false", own_fp8},
    {"gc_debug"},
    {"gc_freq"},
    {"mixed_precision_reduce", "float32",
     "Trireme reduces gradients in fp32 (alternatively use run.gradient_dtype = \"bf16\")"},
    {"precompute_float8_dynamic_scale_for_fsdp"},
    {"warmup_pct", "", "a warm-up as a share of the steps: give optimizer.warmup_iters"}};

constexpr Passed parallelism[] = {{"context_parallel_load_balancer"},
                                  {"context_parallel_ptrr_mask_key"},
                                  {"disable_loss_parallel"},
                                  {"enable_async_tensor_parallel"},
                                  {"enable_compiled_autograd"},
                                  {"enable_fsdp_symm_mem"},
                                  {"expert_parallel_comm_backend"},
                                  {"expert_tensor_parallel_degree"},
                                  {"module_fqns_per_model_part"},
                                  {"pipeline_parallel_expert_parallel_overlap"},
                                  {"pipeline_parallel_first_stage_less_layers"},
                                  {"pipeline_parallel_last_stage_less_layers"},
                                  {"pipeline_parallel_layers_per_stage"},
                                  {"spmd_backend"}};

constexpr Passed experimental[] = {{"custom_args_module", "", own_code},
                                   {"custom_import", "", own_code},
                                   {"custom_model_path", "", own_code},
                                   {"enable_async_tensor_parallel"},
                                   {"enable_compiled_autograd"},
                                   {"pipeline_parallel_split_mode"},
                                   {"torch_spmd"}};

constexpr Passed checkpoint[] = {
    {"create_seed_checkpoint", "false", no_training},
    {"enable_first_step_checkpoint"},
    {"enable_ft_dataloader_checkpoints"},
    {"exclude_from_loading", "[]|", other_start},
    {"export_dtype"},
    {"folder"},
    {"initial_load_in_hf_quantized"},
    {"initial_load_model_only"},
    {"initial_load_model_weights_only"},
    {"interval_type", "steps",
     "in Trireme intervals are numbers of steps: give checkpoint.interval"},
    {"last_save_in_hf"},
    {"last_save_in_safetensors_format"},
    {"last_save_model_only"},
    {"last_save_model_weights_only"},
    {"load_only", "false", "nothing would be saved: remove [checkpoint]"},
    {"load_step", "-1", other_start},
    {"model_weights_only"}};

constexpr Passed activation_checkpoint[] = {{"debug"},
                                            {"determinism_check"},
                                            {"early_stop"},
                                            {"force_recompute_mm_shapes_by_fqns"},
                                            {"memory_budget"},
                                            {"per_op_sac_force_recompute_mm_shapes_by_fqns"},
                                            {"preserve_rng_state"},
                                            {"selective_ac_option"},
                                            {"visualize_memory_budget_pareto"}};

constexpr Passed debug[] = {{"batch_invariant"},
                            {"detect_anomaly"},
                            {"deterministic"},
                            {"deterministic_warn_only"},
                            {"enable_structured_logging"},
                            {"moe_force_load_balance", "false",
                             "tokens are assigned to experts round-robin, for benchmarks only"},
                            {"print_config"},
                            {"save_config_file"},
                            {"spmd_typechecking"}};

constexpr Passed comm[] = {{"init_timeout_seconds"},    {"mode", "default|torchcomms", no_training},
                           {"save_traces_file_prefix"}, {"save_traces_folder"},
                           {"timeout_seconds"},         {"trace_buf_size"},
                           {"train_timeout_seconds"}};

constexpr Passed compile[] = {
    {"backend"}, {"components"}, {"enable"}, {"enable_async_tensor_parallel"}};

// Keys without effect unless model.converters is set; includes the oldest fp8 switch.
constexpr Passed float8[] = {{"emulate"},
                             {"enable_float8_linear", "false", own_fp8},
                             {"enable_fsdp_float8_all_gather"},
                             {"filter_fqns"},
                             {"force_recompute_fp8_weight_in_bwd"},
                             {"moe_fqns_prototype"},
                             {"precompute_float8_dynamic_scale_for_fsdp"},
                             {"recipe_name"},
                             {"scaling_type_grad_output"},
                             {"scaling_type_input"},
                             {"scaling_type_weight"}};

constexpr Passed mx[] = {{"filter_fqns"},
                         {"moe_fqns_prototype"},
                         {"mxfp8_dim1_cast_kernel_choice"},
                         {"recipe_name"},
                         {"use_fp8_dim1_cast_triton_kernel"}};

constexpr Passed quantize[] = {{"float8.emulate"},
                               {"float8.enable_fsdp_float8_all_gather"},
                               {"float8.filter_fqns"},
                               {"float8.fqns"},
                               {"float8.precompute_float8_dynamic_scale_for_fsdp"},
                               {"float8.recipe_name"},
                               {"mx.filter_fqns"},
                               {"mx.fqns"},
                               {"mx.mxfp8_dim1_cast_kernel_choice"},
                               {"mx.recipe_name"}};

constexpr const char* restarts = "replicas may join and leave, which changes the batch size";
constexpr const char* rare_sums = "replicas take local steps between synchronizations";

constexpr Passed fault_tolerance[] = {{"enable", "false", restarts},
                                      {"fragment_sync_delay", "0", rare_sums},
                                      {"fragment_update_alpha", "0", rare_sums},
                                      {"group_size"},
                                      {"min_replica_size"},
                                      {"module_fqns_per_model_fragment"},
                                      {"num_fragments"},
                                      {"process_group"},
                                      {"process_group_timeout_ms"},
                                      {"replica_id"},
                                      {"semi_sync_method", "", rare_sums},
                                      {"should_quantize", "false", rare_sums},
                                      {"sync_steps"}};

constexpr Passed estimates[] = {{"memory_estimation.disable_fake_mode"},
                                {"memory_estimation.enable", "false", no_training},
                                {"memory_estimation.enabled", "false", no_training},
                                {"estimate.memory", "false", no_training},
                                {"estimate.mode"}};

constexpr Passed validation[] = {{"dataloader.num_workers"},
                                 {"dataloader.persistent_workers"},
                                 {"dataloader.pin_memory"},
                                 {"dataloader.prefetch_factor"}};

}  // namespace

void pass_torchtitan_keys(Reader& reader) {
  reader.pass("job.", job);
  reader.pass("profiler.", profiler);
  reader.pass("profiling.", profiling);
  reader.pass("metrics.", metrics);
  reader.pass("model.", model);
  reader.pass("optimizer.", optimizer);
  reader.pass("training.", training);
  reader.pass("parallelism.", parallelism);
  reader.pass("experimental.", experimental);
  reader.pass("checkpoint.", checkpoint);
  reader.pass("activation_checkpoint.", activation_checkpoint);
  reader.pass("debug.", debug);
  reader.pass("comm.", comm);
  reader.pass("compile.", compile);
  reader.pass("float8.", float8);
  reader.pass("mx.", mx);
  for (const char* part : {"dense", "moe", "linear", "grouped_mm"})
    reader.pass(fmt::format("quantize.{}.", part), quantize);
  reader.pass("fault_tolerance.", fault_tolerance);
  reader.pass("", estimates);
  reader.pass("validation.", validation);
}

}  // namespace trireme::settings
