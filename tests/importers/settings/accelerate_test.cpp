// What accelerate's launcher makes of its file, and what it refuses.
#include <gmock/gmock.h>

#include "importers/settings/fixture.h"

namespace trireme::settings {
namespace {

using testing::HasSubstr;

class Accelerate : public Settings {};

// What the questions about Megatron write.
std::string megatron_answers(int micro_batches) {
  return "compute_environment: LOCAL_MACHINE\ndistributed_type: MEGATRON_LM\ndowncast_bf16: 'no'\n"
         "machine_rank: 0\nmain_training_function: main\nmegatron_lm_config:\n"
         "  megatron_lm_gradient_clipping: 1.0\n  megatron_lm_learning_rate_decay_iters: 320000\n"
         "  megatron_lm_num_micro_batches: " +
         std::to_string(micro_batches) +
         "\n  megatron_lm_pp_degree: 2\n  megatron_lm_recompute_activations: true\n"
         "  megatron_lm_sequence_parallelism: false\n  megatron_lm_tp_degree: 2\n"
         "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\nrdzv_backend: static\n"
         "same_network: true\ntpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\n"
         "use_cpu: false\n";
}

TEST_F(Accelerate, TheAnswersOfMegatronAreRead) {
  for (const int micro_batches : {1, 4}) {
    const SettingsFile file = read("default_config.yaml", megatron_answers(micro_batches));
    EXPECT_EQ(lost(file), "");
    EXPECT_EQ(file.ranks, 8);
    EXPECT_EQ(file.micro_batches, micro_batches);
    const Config c = config(file);
    EXPECT_EQ(c.optimizer.decay_iters, 320000);
    EXPECT_EQ(c.optimizer.clip_grad, 1.0);
    EXPECT_EQ(c.parallel.tp, 2);
    EXPECT_EQ(c.parallel.pp, 2);
    EXPECT_EQ(c.parallel.zero, 0);
    EXPECT_EQ(c.parallel.recompute, Recompute::selective);
    EXPECT_EQ(c.run.precision, Precision::bf16);
  }
  EXPECT_THAT(noted(read("a.yaml", megatron_answers(4))), HasSubstr("num_micro_batches is 4"));
}

TEST_F(Accelerate, WordsOfDevicesMayBeCapitals) {
  const auto answers = [](const std::string& optimizer, const std::string& parameters, int stage) {
    return "distributed_type: DEEPSPEED\nmixed_precision: BF16\nnum_processes: 4\n"
           "deepspeed_config:\n  offload_optimizer_device: " +
           optimizer + "\n  offload_param_device: " + parameters +
           "\n  zero_stage: " + std::to_string(stage) + "\n";
  };
  const SettingsFile none = read("a.yaml", answers("NONE", "NONE", 2));
  EXPECT_EQ(lost(none), "");
  EXPECT_EQ(config(none).parallel.zero, 2);
  EXPECT_EQ(config(none).offload.optimizer, OffloadPlace::none);
  EXPECT_EQ(config(none).run.precision, Precision::bf16);
  EXPECT_EQ(config(read("a.yaml", answers("CPU", "Cpu", 3))).offload.optimizer, OffloadPlace::host);
  EXPECT_EQ(config(read("a.yaml", answers("CPU", "Cpu", 3))).offload.parameters,
            OffloadPlace::host);
  const SettingsFile nvme = read("a.yaml", answers("NVME", "nvme", 3) +
                                               "  offload_optimizer_nvme_path: /fast\n"
                                               "  offload_param_nvme_path: /fast\n");
  EXPECT_EQ(lost(nvme), "");
  EXPECT_EQ(config(nvme).offload.optimizer, OffloadPlace::file);
  EXPECT_EQ(config(nvme).offload.path, "/fast");
  EXPECT_THAT(lost(read("a.yaml", answers("nvme", "none", 2))),
              HasSubstr("which requires a folder"));
  EXPECT_THAT(refusal("a.yaml", answers("no", "none", 2)),
              HasSubstr("is 'no', not none, cpu or nvme"));
  EXPECT_EQ(config(read("a.yaml", "distributed_type: no\nmixed_precision: no\n")).run.precision,
            Precision::fp32);
}

TEST_F(Accelerate, SizesThatDoNotMultiplyAreNamed) {
  const std::string fsdp =
      "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config:\n"
      "  fsdp_version: 2\nparallelism_config:\n  parallelism_config_tp_size: 2\n"
      "  parallelism_config_dp_shard_size: ";
  EXPECT_THAT(refusal("a.yaml", fsdp + "2\n"),
              HasSubstr("a total size of 4 (dp_replicate 1 x dp_shard 2 x tp 2 x cp 1 x sp 1), but "
                        "num_processes is 8"));
  EXPECT_THAT(refusal("a.yaml", fsdp + "8\n"), HasSubstr("a total size of 16"));
  EXPECT_EQ(config(read("a.yaml", fsdp + "4\n")).parallel.tp, 2);
  std::string megatron = megatron_answers(1);
  megatron.replace(megatron.find("num_processes: 8"), 16, "num_processes: 6");
  EXPECT_THAT(
      refusal("a.yaml", megatron),
      HasSubstr("num_processes is 6, which is not a multiple of megatron_lm_tp_degree 2 x"));
  EXPECT_THAT(refusal("a.yaml", "distributed_type: MULTI_GPU\nnum_processes: 8\nnum_machines: 3\n"),
              HasSubstr("num_processes is 8, which is not a multiple of num_machines = 3"));
  EXPECT_THAT(refusal("a.yaml", "distributed_type: NO\nnum_processes: 8\n"),
              HasSubstr("num_processes is 8, but with distributed_type NO"));
  EXPECT_EQ(read("a.yaml", "distributed_type: NO\nnum_processes: 1\n").ranks, 1);
  EXPECT_THAT(refusal("a.yaml", "distributed_type: MULTI_GPU\nnum_processes: 8\n", 4),
              HasSubstr("num_processes is 8, but --ranks is 4"));
}

TEST_F(Accelerate, TheKindOfFsdpDecidesWhichWordCounts) {
  const auto fsdp = [&](const std::string& answers) {
    return read(
        "a.yaml",
        "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 2\nfsdp_config:\n" + answers);
  };
  EXPECT_EQ(config(fsdp("  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n")).parallel.zero,
            2);
  EXPECT_EQ(config(fsdp("  fsdp_version: 2\n")).parallel.zero, 3);
  EXPECT_EQ(config(fsdp("  fsdp_sharding_strategy: 2\n")).parallel.zero, 2);
  const SettingsFile both = fsdp(
      "  fsdp_version: 2\n  fsdp_sharding_strategy: NO_SHARD\n  fsdp_reshard_after_forward: "
      "true\n");
  EXPECT_EQ(config(both).parallel.zero, 3);
  EXPECT_THAT(noted(both), HasSubstr("fsdp_sharding_strategy has no effect with fsdp_version 2"));
  const Config hybrid = config(fsdp("  fsdp_sharding_strategy: HYBRID_SHARD_ZERO2\n"));
  EXPECT_EQ(hybrid.parallel.zero, 2);
  EXPECT_EQ(hybrid.parallel.dp_replicate, 2);
  EXPECT_EQ(config(fsdp("  activation_checkpointing: true\n")).parallel.recompute, Recompute::full);
}

TEST_F(Accelerate, KeysThatAreThereTwiceAreNoted) {
  const SettingsFile file =
      read("a.yaml", "distributed_type: NO\nmixed_precision: fp16\nmixed_precision: bf16\n");
  EXPECT_EQ(config(file).run.precision, Precision::bf16);
  EXPECT_THAT(noted(file), HasSubstr("mixed_precision appears twice"));
}

TEST_F(Accelerate, ATrainingOnProcessorsIsOne) {
  EXPECT_EQ(value(read("a.yaml", "distributed_type: MULTI_CPU\n"), "run.device"), "\"cpu\"");
  EXPECT_EQ(value(read("a.yaml", "distributed_type: NO\nuse_cpu: true\n"), "run.device"),
            "\"cpu\"");
  EXPECT_EQ(value(read("a.yaml", "distributed_type: MULTI_GPU\n"), "run.device"), "");
}

// PyYAML's safe_load, which accelerate uses, takes one document.
TEST_F(Accelerate, OneDocumentIsRead) {
  EXPECT_THAT(refusal("a.yaml", "distributed_type: NO\n---\nnum_processes: 4\n"),
              HasSubstr("has more than one YAML document"));
  EXPECT_THAT(refusal("a.yaml", "distributed_type: NO\n---\n---\nnum_processes: 4\n"),
              HasSubstr("has more than one YAML document"));
  EXPECT_EQ(refusal("a.yaml", "---\ndistributed_type: NO\n...\n"), "read");
  EXPECT_NE(refusal("a.yaml", ", {tri:\n  megate:}\n"), "read");  // in bounded time
}

TEST_F(Accelerate, FiltersOfDevicesDecideHowManyProcessesStart) {
  const auto with = [&](const std::string& machines, const std::string& more) {
    return lost(read("a.yaml", "distributed_type: DEEPSPEED\nnum_processes: 8\nnum_machines: " +
                                   machines + "\ndeepspeed_config:\n  zero_stage: 2\n" + more));
  };
  const std::string include = "  deepspeed_inclusion_filter: w@1\n";
  EXPECT_THAT(with("2", include), HasSubstr("deepspeed_inclusion_filter is 'w@1'"));
  EXPECT_THAT(with("2", "  deepspeed_exclusion_filter: w@1:0\n"), HasSubstr("exclusion_filter"));
  EXPECT_EQ(with("1", include), "");
  EXPECT_EQ(with("2", include + "  deepspeed_multinode_launcher: standard\n"), "");
  EXPECT_EQ(with("2", "  deepspeed_inclusion_filter: null\n"), "");
}

// The library that parses YAML recurses.
TEST_F(Accelerate, DeepYamlIsRefused) {
  const auto many = [](const std::string& part) {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += part;
    return text;
  };
  for (const char* part : {"- ", "-\t", "? ", "[", "{a: ", "- - ", "a: "})
    EXPECT_NE(refusal("a.yaml", "distributed_type: NO\na: " + many(part)), "read") << part;
  EXPECT_THAT(refusal("a.toml", many("a.") + "a = 1\n"), HasSubstr("more than 32 parts"));
  EXPECT_THAT(refusal("a.json", many("{\"a\":")), HasSubstr("256 levels deep"));
}

}  // namespace
}  // namespace trireme::settings
