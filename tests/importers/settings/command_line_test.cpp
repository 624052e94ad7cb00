// Command lines that start torchtitan and accelerate with a settings file.
#include "importers/settings/command_line.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "refusal.h"

namespace trireme::settings {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

SettingsFile read_line(const std::string& line, const std::string& text, std::int64_t ranks = 0) {
  const auto launch = find_settings_launch(words_of(line));
  EXPECT_TRUE(launch) << line;
  return read_settings_launch(*launch, text, launch->file, ranks);
}

std::string value_in(const SettingsFile& file, const std::string& key) {
  const auto& settings = file.translation.settings;
  const auto found = std::ranges::find(settings, key, &megatron::Setting::key);
  return found == settings.end() ? "" : found->value;
}

std::vector<std::string> lost_of(const SettingsFile& file) {
  std::vector<std::string> keys;
  for (const auto& note : file.translation.lost) keys.push_back(note.flag);
  return keys;
}

constexpr const char* kTitan = R"(
[model]
name = "llama3"
flavor = "8B"
[optimizer]
lr = 3e-4
[training]
seq_len = 4096
local_batch_size = 2
steps = 1000
)";
const std::string kTorchrun = "torchrun --nproc_per_node=8 -m torchtitan.train ";

TEST(SettingsCommandLine, TorchtitansOptionsWinOverItsFile) {
  const SettingsFile file = read_line(
      kTorchrun +
          "--job.config_file a.toml --training.steps 55 --training.seq-len=2048 "
          "--optimizer.lr 1e-3 --parallelism.tensor_parallel_degree 2 --compile.no-enable",
      kTitan, 8);
  EXPECT_EQ(value_in(file, "train.iters"), "55");
  EXPECT_EQ(value_in(file, "model.seq_length"), "2048");
  EXPECT_EQ(value_in(file, "optimizer.lr"), "0.001");
  EXPECT_EQ(value_in(file, "parallel.tp"), "2");
  // Options before the file's name count too, and tyro's spelling of it.
  const SettingsFile before =
      read_line(kTorchrun + "--training.steps 7 --job.config-file=a.toml", kTitan, 8);
  EXPECT_EQ(value_in(before, "train.iters"), "7");
}

TEST(SettingsCommandLine, WhatIsLostInAFileIsLostOnTheLine) {
  const std::string line = kTorchrun + "--job.config_file a.toml ";
  EXPECT_THAT(lost_of(read_line(line + "--training.unheard_of 3", kTitan, 8)),
              ElementsAre("training.unheard_of"));
  EXPECT_THAT(lost_of(read_line(line + "--model.converters float8", kTitan, 8)),
              ::testing::Contains("model.converters"));
  EXPECT_THAT(refusal_of([&] { read_line(line + "--training.steps many", kTitan, 8); }),
              HasSubstr("training.steps"));
}

constexpr const char* kFsdp = R"(
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 8
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
)";

TEST(SettingsCommandLine, OptionsOfAccelerateLaunchWinOverItsFile) {
  const SettingsFile file = read_line(
      "accelerate launch --config_file a.yaml --num-processes 4 --mixed_precision=fp16 "
      "--fsdp_sharding_strategy SHARD_GRAD_OP --main_process_port 0 run.py --num_processes 2",
      kFsdp);
  EXPECT_EQ(file.ranks, 4);
  EXPECT_EQ(value_in(file, "run.precision"), "\"fp16\"");
  EXPECT_EQ(value_in(file, "parallel.zero"), "2");
  const SettingsFile deepspeed = read_line(
      "accelerate launch --use_deepspeed --zero_stage 1 --gradient_accumulation_steps 3 "
      "--config_file a.yaml -m package.train",
      kFsdp);
  EXPECT_EQ(value_in(deepspeed, "parallel.zero"), "1");
  EXPECT_EQ(deepspeed.micro_batches, 3);
  EXPECT_THAT(
      lost_of(read_line("accelerate launch --config_file a.yaml --unheard_of 3 run.py", kFsdp)),
      ElementsAre("unheard_of"));
}

TEST(SettingsCommandLine, OthersAreNone) {
  for (const char* line :
       {"accelerate launch run.py --config_file a.yaml", "accelerate config --config_file a.yaml",
        "torchrun train.py --config_file a.toml", "python -m torchtitan.train", "accelerate"})
    EXPECT_FALSE(find_settings_launch(words_of(line))) << line;
}

TEST(SettingsCommandLine, TheFileIsOfTheProgramThatIsStarted) {
  EXPECT_THAT(
      refusal_of([] { read_line("accelerate launch --config_file a.toml run.py", kTitan); }),
      HasSubstr("settings of torchtitan, not of accelerate"));
}

}  // namespace
}  // namespace trireme::settings
