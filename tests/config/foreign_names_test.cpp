// Tests that keys and files of other systems are recognized, and that hints name existing keys.
#include "config/foreign_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "config/fields.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "run.toml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(ForeignNames, KeysOfOtherSystemsAreTranslated) {
  const std::pair<const char*, const char*> cases[] = {
      {"train.epochs", "use train.samples"},
      {"train.batch_size", "train.global_batch_size"},
      {"train.max_steps", "use train.iters"},
      {"train.gradient_accumulation_steps", "use train.global_batch_size"},
      {"train.num_micro_batches", "use train.global_batch_size"},
      {"optimizer.learning_rate", "use optimizer.lr"},
      {"parallel.dp", "start more processes"},
      {"model.num_experts", "use moe.num_experts"},
      {"model.n-layer", "use model.num_layers"},
      {"model.top_k", "use moe.top_k"},
      {"train.total_tokens", "use train.tokens"},
  };
  for (const auto& [key, hint] : cases) {
    const std::string message = refusal("", {std::string(key) + "=4"});
    EXPECT_THAT(message, HasSubstr(hint)) << key;
    EXPECT_THAT(message, testing::Not(HasSubstr("did you mean"))) << key;
  }
  EXPECT_THAT(refusal("learning_rate = 1\n"), HasSubstr("use optimizer.lr"));
}

// Every key that a hint names exists.
TEST(ForeignNames, HintsNameKeysThatExist) {
  const std::regex key(
      "\\b(run|model|data|train|optimizer|parallel|checkpoint|log)\\.([a-z_0-9]+)");
  int keys = 0;
  for (const char* name : {"epochs",
                           "batch_size",
                           "gradient_accumulation_steps",
                           "max_steps",
                           "learning_rate",
                           "warmup_steps",
                           "warmup_ratio",
                           "max_grad_norm",
                           "n_layer",
                           "n_head",
                           "n_embd",
                           "rope_theta",
                           "dim",
                           "flavor",
                           "fsdp",
                           "tp_degree",
                           "pp_degree",
                           "gradient_checkpointing",
                           "bf16",
                           "output_dir",
                           "save_steps",
                           "save_total_limit",
                           "logging_steps",
                           "eval_steps",
                           "num_experts_per_tok",
                           "moe_intermediate_size",
                           "wandb",
                           "dataset"}) {
    const std::string hint = foreign_key_hint("", name);
    EXPECT_NE(hint, "") << name;
    for (std::sregex_iterator at(hint.begin(), hint.end(), key), end; at != end; ++at, ++keys)
      EXPECT_NE(find_field((*at)[1], (*at)[2]), nullptr) << hint;
  }
  EXPECT_GT(keys, 25);
}

TEST(ForeignNames, NoKeyOfOursIsForeign) {
  for (const Field& field : all_fields())
    EXPECT_EQ(foreign_key_hint(field.section, field.name), "") << field.key();
}

TEST(ForeignNames, FilesOfOtherSystemsAreNamed) {
  EXPECT_THAT(refusal("[job]\ndump_folder = \"x\"\n[training]\nsteps = 10\n"),
              HasSubstr("a configuration of torchtitan"));
  EXPECT_THAT(refusal("[model]\nflavor = \"8B\"\n[training]\nsteps = 10\n"),
              HasSubstr("trireme import-args FILE reads it"));
  EXPECT_THAT(refusal("compute_environment: LOCAL_MACHINE\ndistributed_type: MEGATRON_LM\n"),
              HasSubstr("a configuration of Accelerate: trireme import-args FILE reads it"));
  EXPECT_THAT(refusal("{\"train_batch_size\": 8, \"zero_optimization\": {}}"),
              HasSubstr("a configuration of DeepSpeed"));
  EXPECT_THAT(refusal("{\"model_type\": \"gpt2\"}"), HasSubstr("config.json of Hugging Face"));
  EXPECT_THAT(refusal("#!/bin/bash\n#SBATCH --nodes=1\ntorchrun pretrain_gpt.py\n"),
              HasSubstr("trireme import-args"));
  EXPECT_THAT(refusal("[run]\nseed = \n"), HasSubstr("not TOML"));
}

}  // namespace
}  // namespace trireme
