// torchtitan's versions: names, defaults and meanings that changed, and what no version reads.
#include <gmock/gmock.h>

#include "importers/settings/fixture.h"

namespace trireme::settings {
namespace {

using testing::HasSubstr;
using testing::Not;

class Torchtitan : public Settings {};

// The learning rate of step k, from 0, of a warm-up and a linear fall of either style.
double rate_of(const Config& c, int k) {
  const OptimizerConfig& o = c.optimizer;
  const double warmup = static_cast<double>(o.warmup_iters),
               end = static_cast<double>(c.train.iters);
  if (warmup > 0 && k <= warmup) return o.warmup_init_lr + (o.lr - o.warmup_init_lr) * k / warmup;
  const double begin =
      o.decay_style == DecayStyle::wsd ? end - static_cast<double>(o.wsd_decay_iters) : warmup;
  return o.min_lr + (o.lr - o.min_lr) * (k <= begin ? 1 : 1 - (k - begin) / (end - begin));
}

// As before version 0.1, and in the forks of that time.
const std::string oldest =
    "[model]\nname = 'llama3'\nflavor = '8B'\ntokenizer_path = "
    "'./assets/original/tokenizer.model'\n"
    "[optimizer]\nname = 'AdamW'\nlr = 3e-5\n[training]\nbatch_size = 21\nseq_len = 8192\n"
    "warmup_steps = 500\nmax_norm = 1.0\nsteps = 500000\ndata_parallel_replicate_degree = 2\n"
    "data_parallel_shard_degree = 32\ntensor_parallel_degree = 8\n";

TEST_F(Torchtitan, OldNamesOfDegreesWarmUpAndTokenizerAreRead) {
  const SettingsFile file = read("train.toml", oldest, 512);
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(file.ranks, 512);
  EXPECT_EQ(c.parallel.tp, 8);
  EXPECT_TRUE(c.parallel.sequence_parallel);
  EXPECT_EQ(c.parallel.dp_replicate, 2);
  EXPECT_EQ(c.parallel.zero, 3);
  EXPECT_EQ(c.train.micro_batch_size, 21);
  EXPECT_EQ(c.train.global_batch_size, 21 * 64);
  EXPECT_EQ(c.train.iters, 500000);
  EXPECT_EQ(c.model.seq_length, 8192);
  EXPECT_EQ(c.optimizer.clip_grad, 1.0);
  EXPECT_EQ(c.run.precision, Precision::bf16);
  EXPECT_EQ(c.data.tokenizer, "tiktoken");
  EXPECT_EQ(c.data.tokenizer_model, "./assets/original/tokenizer.model");
  EXPECT_EQ(value(file, "model.rope_scaling"),
            "");  // positions were not scaled before October 2025
  EXPECT_THAT(noted(file), HasSubstr("before October 2025, which did not scale positions"));
}

// The rate of each step, by torchtitan's formula of the time.
TEST_F(Torchtitan, TheOldestScheduleIsThatOfItsTime) {
  const Config c = config(read("train.toml", oldest, 512));
  EXPECT_EQ(c.optimizer.decay_style, DecayStyle::linear);
  EXPECT_EQ(c.optimizer.warmup_iters, 500);
  for (const int k : {0, 250, 499}) EXPECT_NEAR(rate_of(c, k), 3e-5 * (k + 1) / 501, 1e-18) << k;
  for (const int k : {500, 501, 100'000, 499'999})
    EXPECT_NEAR(rate_of(c, k), 3e-5 * (1 - (k - 500) / 499'500.0), 1e-18) << k;
}

// March to June 2025: both ends one step longer than later.
TEST_F(Torchtitan, TheScheduleOfSpring2025IsThatOfItsTime) {
  const std::string job =
      "[model]\nflavor = '8B'\n[optimizer]\nlr = 1e-3\n[lr_scheduler]\nwarmup_steps = 4\n"
      "decay_ratio = 0.3\nlr_min = 0.1\n[training]\nbatch_size = 1\nsteps = 20\n"
      "[parallelism]\ntensor_parallel_degree = 2\n";
  const SettingsFile file = read("job.toml", job, 4);
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(c.optimizer.wsd_decay_style, AnnealStyle::linear);
  for (int k = 0; k < 20; ++k) {
    const double progress = (k + 1 - 14) / 7.0;
    const double factor = k < 4 ? (k + 1) / 5.0 : k < 14 ? 1 : 0.1 + 0.9 * (1 - progress);
    EXPECT_NEAR(rate_of(c, k), 1e-3 * factor, 1e-15) << k;
  }
  const std::string whole =
      "[model]\nflavor = '8B'\n[lr_scheduler]\nwarmup_steps = 4\n[training]\n"
      "batch_size = 1\nsteps = 20\n";
  EXPECT_THAT(lost(read("job.toml", whole, 4)),
              HasSubstr("had already decayed in torchtitan of March to June 2025"));
}

TEST_F(Torchtitan, ThePipelineOfTheExperimentalSectionIsRead) {
  const std::string job =
      "[model]\nflavor = '8B'\n[training]\nbatch_size = 8\nseq_len = 4096\nsteps = 1000\n"
      "[experimental]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "
      "'Interleaved1F1B'\ncontext_parallel_degree = 2\n";
  const SettingsFile file = read("job.toml", job, 64);
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(c.parallel.pp, 4);
  EXPECT_EQ(c.parallel.cp, 2);
  EXPECT_EQ(c.parallel.schedule, ScheduleKind::interleaved);
  EXPECT_EQ(c.parallel.virtual_stages, 2);
  EXPECT_EQ(c.train.micro_batch_size, 2);  // as many micro-batches as stages, at the time
  EXPECT_EQ(c.parallel.zero, 2);
  for (const auto& [name, ours] : {std::pair{"1f1b", "1f1b"},
                                   {"gpipe", "gpipe"},
                                   {"interleaved_1f1b", "interleaved"},
                                   {"ZBVZeroBubble", "zbv"}}) {
    std::string other = job;
    other.replace(other.find("Interleaved1F1B"), 15, name);
    EXPECT_EQ(name_of(config(read("job.toml", other, 64)).parallel.schedule), ours);
  }
}

// Keys that no version has together: one of them is passed over by torchtitan.
TEST_F(Torchtitan, KeysOfDifferentVersionsAreNamed) {
  const std::string base = "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nsteps = 10\n";
  for (const auto& [more, key] :
       {std::pair{"[experimental]\npipeline_parallel_degree = 4\n",
                  "experimental.pipeline_parallel_degree"},
        {"warmup_steps = 7\n", "training.warmup_steps"},
        {"tensor_parallel_degree = 2\n", "training.tensor_parallel_degree"}})
    EXPECT_THAT(lost(read("job.toml", base + more, 8)), HasSubstr(key));
  EXPECT_THAT(lost(read("job.toml", base + "warmup_steps = 7\n", 8)),
              HasSubstr("before 2025-03, and training.local_batch_size a key since 2025-06"));
  // What has no effect contradicts nothing.
  EXPECT_EQ(lost(read("job.toml",
                      base + "[experimental]\npipeline_parallel_degree = 1\n"
                             "enable_async_tensor_parallel = true\n[metrics]\nrank_0_only = true\n",
                      8)),
            "");
  EXPECT_THAT(refusal("job.toml", base + "seed = 1\n[debug]\nseed = 2\n", 8),
              HasSubstr("training.seed is 1, and debug.seed is 2"));
}

TEST_F(Torchtitan, PositionsAreScaledByTheAgeOfTheFile) {
  const std::string base = "[model]\nflavor = '8B'\n[training]\nsteps = 10\n";
  const auto scaled = [&](const std::string& more) {
    return value(read("job.toml", base + more, 8), "model.rope_scaling") == "\"llama3\"";
  };
  EXPECT_FALSE(scaled("[checkpoint]\nenable_checkpoint = true\n"));          // until August 2025
  EXPECT_FALSE(scaled("[float8]\nenable_fsdp_float8_all_gather = true\n"));  // until September 2025
  EXPECT_TRUE(scaled("[job]\ncustom_config_module = ''\n"));                 // since October 2025
  EXPECT_TRUE(scaled(""));                                                   // with a note
}

TEST_F(Torchtitan, SectionsThatDecideAboutTheTrainingAreNotPassedOver) {
  const std::string base =
      "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nsteps = 1000\n";
  for (const auto& [more, words] :
       {std::pair{"[float8]\nenable_float8_linear = true\n",
                  "float8.enable_float8_linear is true: unsupported fp8 recipe"},
        {"[experimental]\ncustom_import = 'mine'\n", "experimental.custom_import is 'mine'"},
        {"[experimental]\nfoo = 4\n",
         "experimental.foo is 4, but it is not a known setting of torchtitan"},
        {"mixed_precision_reduce = 'bfloat16'\n", "training.mixed_precision_reduce is 'bfloat16'"},
        {"[checkpoint]\ninterval_type = 'seconds'\n", "checkpoint.interval_type is 'seconds'"},
        {"[fault_tolerance]\nsemi_sync_method = 'diloco'\n", "fault_tolerance.semi_sync_method"},
        {"[debug]\nmoe_force_load_balance = true\n", "debug.moe_force_load_balance is true"},
        {"[empty]\n", "empty is {}, but it is not a known setting"}})
    EXPECT_THAT(lost(read("job.toml", base + more, 64)), HasSubstr(words));
  const SettingsFile norm = read(
      "job.toml", "[model]\nflavor = '8B'\nnorm_type = 'layernorm'\n[training]\nsteps = 9\n", 8);
  EXPECT_EQ(value(norm, "model.norm"), "\"layer_norm\"");
  EXPECT_THAT(lost(norm), HasSubstr("has no bias in torchtitan"));
  EXPECT_THAT(lost(read("job.toml", "[model]\nflavor = '8B'\nconverters = ['mx']\n[training]\n")),
              Not(HasSubstr("rowwise")));
}

TEST_F(Torchtitan, BatchesThatDoNotDivideAreRefused) {
  const std::string base = "[model]\nflavor = '8B'\n[training]\nsteps = 10\nlocal_batch_size = 3\n";
  EXPECT_THAT(refusal("job.toml", base + "global_batch_size = 64\n", 8),
              HasSubstr("training.global_batch_size is 64, which is not a multiple of "
                        "training.local_batch_size = 3 on 8"));
  EXPECT_THAT(refusal("job.toml",
                      base + "[parallelism]\npipeline_parallel_degree = 2\n"
                             "pipeline_parallel_microbatch_size = 2\n",
                      8),
              HasSubstr("is 2, which does not divide training.local_batch_size = 3"));
}

// Without FSDP nothing narrows the parameters, unless autocast does.
TEST_F(Torchtitan, PrecisionFollowsFromTheLayout) {
  const auto precision = [&](const std::string& more) {
    return config(read("job.toml", "[model]\nflavor = '8B'\n[training]\nsteps = 10\n" + more, 8))
        .run.precision;
  };
  EXPECT_EQ(precision("[parallelism]\ntensor_parallel_degree = 8\n"), Precision::fp32);
  EXPECT_EQ(precision("[parallelism]\ntensor_parallel_degree = 4\n"), Precision::bf16);
  const std::string copies =
      "[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n";
  EXPECT_EQ(precision(copies), Precision::bf16);
  EXPECT_EQ(precision("batch_size = 8\n" + copies), Precision::fp32);
  EXPECT_EQ(precision("mixed_precision_param = 'float32'\n"), Precision::fp32);
}

}  // namespace
}  // namespace trireme::settings
