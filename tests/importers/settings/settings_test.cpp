// Settings files of accelerate, DeepSpeed and torchtitan: what they become, and what is refused.
#include <gmock/gmock.h>

#include "importers/settings/fixture.h"

namespace trireme::settings {
namespace {

using testing::HasSubstr;

TEST_F(Settings, AcceleratesFullShardingIsZero3) {
  const SettingsFile file =
      read("a.yaml",
           "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
           "downcast_bf16: 'no'\nnum_machines: 2\nnum_processes: 16\nmachine_rank: 0\n"
           "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
           "  fsdp_activation_checkpointing: true\n  fsdp_offload_params: false\n"
           "parallelism_config:\n  parallelism_config_tp_size: 2\n"
           "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n");
  EXPECT_EQ(lost(file), "");
  EXPECT_EQ(file.ranks, 16);
  EXPECT_EQ(file.nodes, 2);
  const Config c = config(file);
  EXPECT_EQ(c.run.precision, Precision::bf16);
  EXPECT_EQ(c.parallel.zero, 3);
  EXPECT_EQ(c.parallel.tp, 2);
  EXPECT_EQ(c.parallel.dp_replicate, 2);
  EXPECT_EQ(c.parallel.recompute, Recompute::full);
}

TEST_F(Settings, AcceleratesMegatronHasItsDegrees) {
  const SettingsFile file = read(
      "a.yaml",
      "distributed_type: MEGATRON_LM\nmixed_precision: no\nnum_processes: 8\nmegatron_lm_config:\n"
      "  megatron_lm_tp_degree: 4\n  megatron_lm_pp_degree: 2\n  megatron_lm_sequence_parallelism: "
      "true\n"
      "  megatron_lm_use_distributed_optimizer: true\n  megatron_lm_gradient_clipping: 0.5\n"
      "  megatron_lm_num_micro_batches: 4\n");
  const Config c = config(file);
  EXPECT_EQ(c.run.precision, Precision::fp32);
  EXPECT_EQ(c.parallel.tp, 4);
  EXPECT_EQ(c.parallel.pp, 2);
  EXPECT_TRUE(c.parallel.sequence_parallel);
  EXPECT_EQ(c.parallel.zero, 1);
  EXPECT_EQ(c.optimizer.clip_grad, 0.5);
  EXPECT_EQ(lost(file), "");
  EXPECT_EQ(file.micro_batches, 4);  // the batch is not known
  EXPECT_THAT(noted(file),
              HasSubstr("num_micro_batches is 4: set train.global_batch_size to that"));
}

TEST_F(Settings, AcceleratesDeepSpeedFileIsReadNextToIt) {
  write("ds.json",
        R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_comm": true},
            "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}}})");
  const SettingsFile file =
      read("a.yaml",
           "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n"
           "  deepspeed_config_file: ds.json\n  zero3_init_flag: false\n");
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(c.run.precision, Precision::bf16);
  EXPECT_EQ(c.parallel.zero, 2);
  EXPECT_EQ(c.train.global_batch_size, 64);
  EXPECT_EQ(c.train.micro_batch_size, 4);
  EXPECT_EQ(c.optimizer.name, OptimizerKind::adamw);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_EQ(c.optimizer.clip_grad, 1);  // DeepSpeed's default
  EXPECT_THAT(
      refusal("b.yaml",
              "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: no.json\n"),
      HasSubstr("no.json', which does not exist"));
}

TEST_F(Settings, WithoutAPrecisionItIsFp32AsThere) {
  EXPECT_EQ(config(read("a.yaml", "distributed_type: MULTI_GPU\n")).run.precision, Precision::fp32);
  EXPECT_EQ(config(read("a.json", R"({"train_batch_size": 8})", 2)).run.precision, Precision::fp32);
  const SettingsFile open =
      read("b.json", R"({"train_batch_size": 8, "bf16": {"enabled": "auto"}})", 2);
  ASSERT_EQ(open.translation.notes.size(), 2u);
  EXPECT_EQ(open.translation.notes[0].flag, "bf16.enabled");

  write("ds.json", R"({"train_batch_size": 64, "bf16": {"enabled": true}})");
  const std::string yaml =
      "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n"
      "  deepspeed_config_file: ds.json\n";
  EXPECT_EQ(config(read("a.yaml", yaml)).run.precision, Precision::bf16);
  EXPECT_EQ(config(read("a.yaml", yaml + "mixed_precision: bf16\n")).run.precision,
            Precision::bf16);
  EXPECT_THAT(
      refusal("a.yaml", yaml + "mixed_precision: fp16\n"),
      HasSubstr(
          "mixed_precision asks for run.precision = \"fp16\", and bf16.enabled for \"bf16\""));
}

TEST_F(Settings, DeepSpeedsActivationsAreCutOrLieInHostMemory) {
  const SettingsFile file =
      read("ds.json",
           R"({"train_batch_size": 8, "activation_checkpointing": {"partition_activations": true,
          "cpu_checkpointing": true, "contiguous_memory_optimization": false}})");
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_TRUE(c.parallel.distribute_saved_activations);
  EXPECT_EQ(c.parallel.recompute, Recompute::full);
  EXPECT_EQ(c.offload.activations, OffloadPlace::host);
}

TEST_F(Settings, DeepSpeedsParametersLieInHostMemoryOrOnADisk) {
  const auto with = [](const std::string& stage, const std::string& states,
                       const std::string& parameters) {
    return R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": )" +
           stage + R"(, "offload_optimizer": )" + states + R"(, "offload_param": )" + parameters +
           "}}";
  };
  const std::string cpu = R"({"device": "cpu", "pin_memory": true})";
  const std::string disk = R"({"device": "nvme", "nvme_path": "/fast", "buffer_count": 5})";
  const SettingsFile files = read("a.json", with("3", disk, disk), 2);
  EXPECT_EQ(lost(files), "");
  EXPECT_EQ(config(files).offload.optimizer, OffloadPlace::file);
  EXPECT_EQ(config(files).offload.parameters, OffloadPlace::file);
  EXPECT_EQ(config(files).offload.path, "/fast");
  EXPECT_EQ(config(read("b.json", with("3", cpu, cpu), 2)).offload.parameters, OffloadPlace::host);
  EXPECT_THAT(refusal("c.json", with("2", cpu, cpu), 2), HasSubstr("only with stage 3"));
  const SettingsFile apart =
      read("d.json", with("3", R"({"device": "nvme", "nvme_path": "/other"})", disk), 2);
  EXPECT_THAT(lost(apart), HasSubstr("is '/fast', but all files go to one folder, '/other'"));
}

TEST_F(Settings, DeepSpeedsFp16HasItsScale) {
  const SettingsFile file = read(
      "ds.json",
      R"({"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 12, "loss_scale_window": 500},
               "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100, "warmup_type": "linear",
               "total_num_steps": 1000, "warmup_max_lr": 0.001}}, "sparse_attention": {"mode": "fixed"}})");
  const Config c = config(file);
  EXPECT_EQ(c.run.precision, Precision::fp16);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 4096);
  EXPECT_EQ(c.optimizer.loss_scale_window, 500);
  EXPECT_EQ(c.optimizer.decay_style, DecayStyle::linear);
  EXPECT_EQ(c.optimizer.decay_iters, 1000);
  EXPECT_EQ(c.optimizer.warmup_iters, 100);
  EXPECT_THAT(lost(file), HasSubstr("sparse_attention has the mode 'fixed'"));
}

const std::string titan =
    "[job]\ndump_folder = 'outputs'\n[model]\nname = 'llama3'\nflavor = '8B'\nhf_assets_path = "
    "'assets/llama'\n"
    "[optimizer]\nname = 'AdamW'\nlr = 3e-4\n[lr_scheduler]\nwarmup_steps = 200\ndecay_ratio = "
    "0.8\nmin_lr_factor = 0.1\n"
    "[training]\nlocal_batch_size = 2\nseq_len = 4096\nsteps = 1000\ndataset = 'c4'\n";

TEST_F(Settings, TorchtitansJobIsWholeButForTheData) {
  const SettingsFile file =
      read("job.toml",
           titan + "[parallelism]\ntensor_parallel_degree = 2\n[checkpoint]\nenable = true\n", 16);
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(file.ranks, 16);
  EXPECT_EQ(c.model.num_layers, 32);
  EXPECT_EQ(c.model.seq_length, 4096);
  EXPECT_EQ(c.parallel.tp, 2);
  EXPECT_EQ(c.parallel.zero, 3);
  EXPECT_EQ(c.train.global_batch_size, 16);  // 2 on each of 8
  EXPECT_EQ(c.checkpoint.interval, 500);
  EXPECT_TRUE(c.optimizer.decay_vectors);
  // The first step has lr / 200, the last of the decay is 0.1 lr: a warm-up that ends a step
  // earlier.
  EXPECT_EQ(c.optimizer.warmup_iters, 199);
  EXPECT_DOUBLE_EQ(c.optimizer.warmup_init_lr, 3e-4 / 200);
  EXPECT_EQ(c.optimizer.decay_style, DecayStyle::wsd);
  EXPECT_EQ(c.optimizer.wsd_decay_iters, 800);
  EXPECT_DOUBLE_EQ(c.optimizer.min_lr, 3e-5);
  // Models without experts have no use for it.
  const std::string experts = titan + "[parallelism]\nexpert_parallel_degree = 2\n";
  EXPECT_EQ(config(read("job.toml", experts, 16)).parallel.ep, 1);
}

// What is offloaded with every strategy, and what with parameters in parts alone.
TEST_F(Settings, OffloadToTheHostFollowsTheStrategy) {
  for (const auto& [strategy, parameters] :
       {std::pair{"FULL_SHARD", OffloadPlace::host}, {"SHARD_GRAD_OP", OffloadPlace::none}}) {
    const Config c = config(
        read("a.yaml", std::string("distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n"
                                   "  fsdp_offload_params: true\n  fsdp_sharding_strategy: ") +
                           strategy + "\n"));
    EXPECT_EQ(c.offload.optimizer, OffloadPlace::host);
    EXPECT_EQ(c.offload.parameters, parameters);
  }
  for (const auto& [reshard, parameters] :
       {std::pair{"always", OffloadPlace::host}, {"never", OffloadPlace::none}}) {
    const Config c = config(
        read("job.toml",
             titan + "enable_cpu_offload = true\n[parallelism]\nfsdp_reshard_after_forward = '" +
                 reshard + "'\n",
             16));
    EXPECT_EQ(c.offload.optimizer, OffloadPlace::host);
    EXPECT_EQ(c.offload.parameters, parameters);
  }
  for (const auto& [stage, parameters] :
       {std::pair{"3", OffloadPlace::host}, {"2", OffloadPlace::none}}) {
    const Config c =
        config(read("a.yaml", std::string("distributed_type: DEEPSPEED\nmixed_precision: bf16\n"
                                          "deepspeed_config:\n  offload_optimizer_device: cpu\n"
                                          "  offload_param_device: cpu\n  zero_stage: ") +
                                  stage + "\n"));
    EXPECT_EQ(c.offload.optimizer, OffloadPlace::host);
    EXPECT_EQ(c.offload.parameters, parameters);
  }
}

TEST_F(Settings, WhatTorchtitanLeavesOpenIsAskedFor) {
  EXPECT_THAT(lost(read("job.toml", titan + "[parallelism]\ntensor_parallel_degree = 2\n")),
              HasSubstr("add --ranks N"));
  EXPECT_THAT(refusal("job.toml", titan + "[parallelism]\ntensor_parallel_degree = 3\n", 16),
              HasSubstr("does not divide 16 ranks"));
  EXPECT_THAT(lost(read("job.toml", titan + "[quantum]\nspeed = 3\n", 8)),
              HasSubstr("quantum.speed is 3, but it is not a known setting of torchtitan"));
}

TEST_F(Settings, OtherFilesAreRefusedByName) {
  EXPECT_THAT(refusal("a.yaml", "a: [1, 2"), HasSubstr("is not YAML: line"));
  EXPECT_THAT(refusal("a.yaml", "steps: 3\n"), HasSubstr("not a settings file of a known system"));
  EXPECT_THAT(refusal("a.yaml", "- 3\n"), HasSubstr("not a table of settings"));
  EXPECT_THAT(refusal("a.yaml", std::string(100'000, '[')), HasSubstr("levels deep"));
  EXPECT_THAT(refusal("a.toml", "a = = 3\n"), HasSubstr("is not TOML: line 1"));
  EXPECT_THAT(refusal("a.json", "{"), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("a.yaml", "distributed_type: TPU\n"), HasSubstr("'TPU': expected NO"));
  EXPECT_THAT(refusal("a.yaml", "distributed_type: FSDP\nnum_processes: many\n"),
              HasSubstr("not a number"));
}

// Each alias doubles what the one before stands for.
TEST_F(Settings, AliasesThatExplodeAreRefused) {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i)
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            ", *a" + std::to_string(i - 1) + "]\n";
  EXPECT_THAT(refusal("a.yaml", text), HasSubstr("more than 10000 values"));
}

}  // namespace
}  // namespace trireme::settings
