// Lists keys of accelerate's settings files without an equivalent Trireme setting.
#include <fmt/format.h>

#include "importers/settings/accelerate.h"

namespace trireme::settings {
namespace {

constexpr Passed top[] = {{"command_file"},
                          {"commands"},
                          {"debug"},
                          {"downcast_bf16"},
                          {"dynamo_backend"},
                          {"enable_cpu_affinity"},
                          {"gpu_ids"},
                          {"ipex_config", "{}|false", "an extension for Intel processors"},
                          {"machine_rank"},
                          {"main_process_ip"},
                          {"main_process_port"},
                          {"main_training_function"},
                          {"mpirun_config.mpirun_ccl"},
                          {"mpirun_config.mpirun_hostfile"},
                          {"rdzv_backend"},
                          {"same_network"},
                          {"tpu_env"},
                          {"tpu_name"},
                          {"tpu_use_cluster"},
                          {"tpu_use_sudo"},
                          {"tpu_vm"},
                          {"tpu_zone"},
                          {"use_xpu", "false", "unsupported hardware"}};

constexpr Passed dynamo[] = {
    {"backend"}, {"mode"}, {"use_dynamic"}, {"use_fullgraph"}, {"use_regional_compilation"}};

constexpr Passed fsdp[] = {{"auto_wrap_policy"},
                           {"backward_prefetch"},
                           {"backward_prefetch_policy"},
                           {"cpu_ram_efficient_loading"},
                           {"forward_prefetch"},
                           {"ignored_modules", "",
                            "parameters ignored by FSDP, which are trained in a different "
                            "precision"},
                           {"min_num_params"},
                           {"state_dict_type"},
                           {"sync_module_states"},
                           {"transformer_layer_cls_to_wrap"},
                           {"use_orig_params"}};

constexpr Passed deepspeed[] = {{"deepspeed_hostfile"},
                                {"deepspeed_moe_layer_cls_names"},
                                {"deepspeed_multinode_launcher"},
                                {"zero3_init_flag"},
                                {"zero3_save_16bit_model"}};

constexpr Passed megatron_lm[] = {
    {"attention_backend"},
    {"attention_softmax_in_fp32"},
    {"calculate_per_token_loss"},
    {"decoder_last_pipeline_num_layers"},
    {"no_load_optim"},
    {"no_save_optim"},
    {"overlap_cpu_optimizer_d2h_h2d"},
    {"recompute_method"},
    {"recompute_num_layers"},
    {"use_custom_fsdp", "false", "Megatron-FSDP: use parallel.zero = 3"},
    {"use_precision_aware_optimizer"}};

constexpr Passed parallelism[] = {
    {"sp_attn_implementation"}, {"sp_seq_length"}, {"sp_seq_length_is_variable"}};

// Ignored without mixed_precision: fp8, which is not carried over at all.
constexpr Passed fp8[] = {{"amax_compute_algo"},
                          {"amax_compute_algorithm"},
                          {"amax_history_len"},
                          {"amax_history_length"},
                          {"backend"},
                          {"enable_fsdp_float8_all_gather"},
                          {"format"},
                          {"interval"},
                          {"margin"},
                          {"opt_level"},
                          {"optimization_level"},
                          {"override_linear_precision"},
                          {"pad_inner_dim"},
                          {"use_autocast_during_eval"}};

// accelerate prefixes keys of some sections with the section's name, but accepts both forms.
void pass_both(Reader& reader, const std::string& section, const std::string& prefix,
               std::span<const Passed> keys) {
  reader.pass(section + ".", keys);
  reader.pass(section + "." + prefix, keys);
}

}  // namespace

void pass_accelerate_keys(Reader& reader, const std::string& type) {
  reader.pass("", top);
  pass_both(reader, "dynamo_config", "dynamo_", dynamo);
  pass_both(reader, "fp8_config", "fp8_", fp8);
  const auto of_type = [&](const char* wanted, const char* section, const std::string& prefix,
                           std::span<const Passed> keys) {
    if (type == wanted) return reader.pass(fmt::format("{}.{}", section, prefix), keys);
    reader.pass(section);  // has no effect
    if (reader.is_there(section)) reader.consume_section(section);
  };
  if (type == "FSDP") reader.pass("fsdp_config.", fsdp);
  of_type("FSDP", "fsdp_config", "fsdp_", fsdp);
  of_type("DEEPSPEED", "deepspeed_config", "", deepspeed);
  of_type("MEGATRON_LM", "megatron_lm_config", "megatron_lm_", megatron_lm);
  reader.pass("parallelism_config.parallelism_config_", parallelism);
}

}  // namespace trireme::settings
