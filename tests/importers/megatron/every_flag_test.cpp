// No flag of the table is dropped: it changes the configuration, is said in a note, or is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "importers/megatron/flags/flags.h"
#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

struct Base {
  Program program;
  const char* flags;
};

// Trainings that between them give a meaning to every flag.
constexpr Base bases[] = {
    {Program::gpt, ""},
    {Program::bert, ""},
    {Program::gpt,
     "--position-embedding-type rope --swiglu --disable-bias-linear --tensor-model-parallel-size 2 "
     "--pipeline-model-parallel-size 2 --num-layers 8 --num-attention-heads 8 --bf16 --profile "
     "--window-size 7,0 --use-megatron-fsdp --tokenizer-type HuggingFaceTokenizer "
     "--recompute-granularity full --fp8-format hybrid --first-last-layers-bf16 --fim-data "
     "--context-parallel-size 2 --use-rope-scaling --lr-decay-style WSD --optimizer muon "
     "--muon-tp-mode duplicated "},
    {Program::gpt,
     "--num-experts 8 --disable-bias-linear --moe-router-num-groups 4 --moe-router-group-topk 2 "
     "--moe-expert-capacity-factor 1.5 moe.capacity_factor=1.5 --optimizer lion --loss-scale 2 "},
    {Program::gpt,
     "--deepspeed --num-experts 8 --disable-bias-linear --tensor-model-parallel-size 2 "
     "moe.capacity_factor=1 "},
    {Program::gpt,
     "--multi-latent-attention --qk-layernorm --position-embedding-type rope --normalization "
     "RMSNorm --disable-bias-linear --swiglu "},
    {Program::gpt,
     "--multi-latent-attention --qk-layernorm --use-rotary-position-embeddings --normalization "
     "RMSNorm --disable-bias-linear --q-lora-rank 24 --rotary-scaling-factor 40 "
     "--mscale-all-dim 0.5 "},
    {Program::gpt, "--fp8-format hybrid --fp8-recipe tensorwise --bf16 "},
    {Program::gpt,
     "--position-embedding-type yarn --rotary-scaling-factor 32 --quick-geglu --num-experts 8 "
     "--tokenizer-type NullTokenizer --vocab-size 100 --global-batch-size 8 "},
    {Program::gpt, "--hybrid-layer-pattern *-*- --position-embedding-type rope "},
};

// Words to try as the value of a flag; of a choice all, of which one is the default.
std::vector<std::string> values_of(const Flag& flag) {
  switch (flag.kind) {
    case Kind::none:
      return {""};
    case Kind::integer:
    case Kind::integers:
      return {"3"};
    case Kind::number:
    case Kind::numbers:
      return {"0.25"};
    case Kind::text:
    case Kind::texts:
      return {"some.json"};
    case Kind::choice:
      break;
  }
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : choices(flag)) names.push_back(theirs);
  return names;
}

std::string settings_of(const Translation& translation) {
  std::string result;
  for (const Setting& setting : translation.settings)
    result += setting.key + " = " + setting.value + "\n";
  return result;
}

bool names_origin(const Translation& translation, const std::string& flag) {
  for (const Setting& setting : translation.settings)
    if (setting.origin.find(flag) != std::string::npos) return true;
  return false;
}

bool has_word(const std::string& text, const std::string& word) {
  const std::vector<std::string> all = words(text);
  return std::find(all.begin(), all.end(), word) != all.end();
}

// Biases that all layers have, and positions that are not learned.
bool asks_for_what_is(const Base& base, const std::string& flag) {
  return (flag == "--add-qkv-bias" && !has_word(base.flags, "--disable-bias-linear")) ||
         flag == "--no-position-embedding";
}

// Values of a flag next to those of a training that change nothing there and that nothing is said
// of.
int dropped(const Base& base, const Translation& plain, const Flag& flag) {
  int count = 0;
  for (const std::string& value : values_of(flag)) {
    const Translation with = translated(base.flags + flag.name + " " + value, base.program, true);
    const bool changes = settings_of(with) != settings_of(plain);
    const bool said =
        with.notes != plain.notes || with.lost != plain.lost || names_origin(with, flag.name);
    if (!changes && !said) ++count;
  }
  return count;
}

TEST(EveryFlag, IsReadSaidOrRefused) {
  for (const Base& base : bases) {
    const Translation plain = translated(base.flags, base.program, true);
    for (const Flag& flag : all_flags()) {
      if (has_word(base.flags, flag.name) || asks_for_what_is(base, flag.name)) continue;
      const int most = flag.kind == Kind::choice ? 1 : 0;  // the default
      EXPECT_LE(dropped(base, plain, flag), most) << base.flags << flag.name;
    }
  }
}

}  // namespace
}  // namespace trireme::megatron
