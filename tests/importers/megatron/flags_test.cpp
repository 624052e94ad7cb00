// The table is sound, and docs/from-megatron.md and --help say what it says.
#include "importers/megatron/flags/flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/file.h"
#include "config/fields.h"
#include "importers/megatron/translate.h"

namespace trireme::megatron {
namespace {

using ::testing::HasSubstr;

TEST(Flags, NamesAreUniqueAndKeysExist) {
  std::set<std::string> names;
  for (const Flag& flag : all_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_EQ(find_flag(flag.name), &flag);
    const bool carried = flag.fate == Fate::key || flag.fate == Fate::rule;
    EXPECT_EQ(carried, !flag.keys.empty()) << flag.name;
    for (std::size_t at = 0; at < flag.keys.size();) {
      const std::size_t end = std::min(flag.keys.find(", ", at), flag.keys.size());
      const std::string key = flag.keys.substr(at, end - at);
      const std::size_t dot = key.find('.');
      EXPECT_NE(find_field(key.substr(0, dot), key.substr(dot + 1)), nullptr) << key;
      at = end + 2;
    }
    EXPECT_TRUE(carried || !flag.text.empty()) << flag.name;
    EXPECT_EQ(flag.kind == Kind::choice, !choices(flag).empty()) << flag.name;
  }
  EXPECT_EQ(find_flag("--nothing"), nullptr);
}

// The flags that a classic script may hold.
TEST(Flags, HoldAllThatScriptsUse) {
  for (const char* name : {"--num-layers",
                           "--hidden-size",
                           "--num-attention-heads",
                           "--seq-length",
                           "--max-position-embeddings",
                           "--ffn-hidden-size",
                           "--kv-channels",
                           "--group-query-attention",
                           "--num-query-groups",
                           "--position-embedding-type",
                           "--rotary-base",
                           "--rotary-percent",
                           "--normalization",
                           "--norm-epsilon",
                           "--swiglu",
                           "--squared-relu",
                           "--openai-gelu",
                           "--disable-bias-linear",
                           "--add-qkv-bias",
                           "--untie-embeddings-and-output-weights",
                           "--make-vocab-size-divisible-by",
                           "--attention-dropout",
                           "--hidden-dropout",
                           "--seed",
                           "--init-method-std",
                           "--micro-batch-size",
                           "--global-batch-size",
                           "--rampup-batch-size",
                           "--train-iters",
                           "--train-samples",
                           "--exit-interval",
                           "--exit-duration-in-mins",
                           "--exit-signal-handler",
                           "--lr",
                           "--min-lr",
                           "--lr-decay-style",
                           "--lr-decay-iters",
                           "--lr-decay-samples",
                           "--lr-warmup-fraction",
                           "--lr-warmup-iters",
                           "--lr-warmup-samples",
                           "--optimizer",
                           "--adam-beta1",
                           "--adam-beta2",
                           "--adam-eps",
                           "--weight-decay",
                           "--clip-grad",
                           "--use-distributed-optimizer",
                           "--overlap-grad-reduce",
                           "--overlap-param-gather",
                           "--fp16",
                           "--bf16",
                           "--loss-scale",
                           "--initial-loss-scale",
                           "--min-loss-scale",
                           "--loss-scale-window",
                           "--hysteresis",
                           "--tensor-model-parallel-size",
                           "--pipeline-model-parallel-size",
                           "--context-parallel-size",
                           "--expert-model-parallel-size",
                           "--num-layers-per-virtual-pipeline-stage",
                           "--sequence-parallel",
                           "--recompute-granularity",
                           "--recompute-method",
                           "--recompute-num-layers",
                           "--checkpoint-activations",
                           "--recompute-activations",
                           "--data-path",
                           "--split",
                           "--train-data-path",
                           "--valid-data-path",
                           "--test-data-path",
                           "--data-cache-path",
                           "--num-workers",
                           "--tokenizer-type",
                           "--vocab-file",
                           "--merge-file",
                           "--tokenizer-model",
                           "--reset-position-ids",
                           "--reset-attention-mask",
                           "--eod-mask-loss",
                           "--save",
                           "--load",
                           "--save-interval",
                           "--no-load-optim",
                           "--no-load-rng",
                           "--finetune",
                           "--async-save",
                           "--eval-interval",
                           "--eval-iters",
                           "--log-interval",
                           "--tensorboard-dir",
                           "--wandb-project",
                           "--log-throughput",
                           "--distributed-backend",
                           "--data-impl",
                           "--dataset-impl",
                           "--use-flash-attn",
                           "--no-gradient-accumulation-fusion",
                           "--no-masked-softmax-fusion",
                           "--no-bias-gelu-fusion",
                           "--use-mcore-models",
                           "--transformer-impl",
                           "--distributed-timeout-minutes",
                           "--local-rank",
                           "--calculate-per-token-loss",
                           "--bert-no-binary-head",
                           "--mask-prob",
                           "--short-seq-prob",
                           "--deepspeed_config"}) {
    EXPECT_NE(find_flag(name), nullptr) << name;
  }
}

TEST(Flags, HelpNamesThemAll) {
  const std::string help = megatron::help(Program::bert);
  for (const Flag& flag : all_flags()) EXPECT_THAT(help, HasSubstr("  " + flag.name));
  EXPECT_THAT(megatron::help(Program::gpt), ::testing::Not(HasSubstr("--mask-prob")));
}

// Markdown's table cells end at a bar.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.replace(at, 1, "\\|");
  return text;
}

const char* fate_word(Fate fate) {
  switch (fate) {
    case Fate::key:
    case Fate::rule:
      return "carried over";
    case Fate::ignored:
      return "ignored";
    case Fate::refused:
      return "refused";
  }
  return "";
}

std::string flags_markdown() {
  std::string page, group;
  for (const Flag& flag : all_flags()) {
    if (flag.group != group) {
      page += fmt::format("{}### {}\n\n| flags | result | meaning |\n|---|---|---|\n",
                          group.empty() ? "" : "\n", flag.group);
      group = flag.group;
    }
    std::string what = fate_text(flag);
    if (flag.fate == Fate::ignored) what = flag.text;
    if (flag.fate == Fate::refused && what.starts_with("refused: ")) what = flag.text;
    const std::string rest = fmt::format(" | {} | {}{}{} |\n", fate_word(flag.fate), cell(what),
                                         flag.required ? "; required" : "",
                                         flag.bert_only ? "; only with pretrain-bert" : "");
    const std::string value = value_text(flag);
    const std::string name =
        fmt::format("`{}{}{}`", flag.name, value.empty() ? "" : " ", cell(value));
    // Flags with one meaning share its row.
    if (page.ends_with(rest)) {
      page.erase(page.size() - rest.size());
      page += ", " + name + rest;
    } else {
      page += "| " + name + rest;
    }
  }
  return page;
}

// The part of the page between these lines comes from the table.
constexpr const char* kBegin =
    "<!-- flags: generated from src/importers/megatron/flags_*.cpp -->\n";
constexpr const char* kEnd = "<!-- end of flags -->\n";

TEST(Flags, PageIsUpToDate) {
  const fs::path file = fs::path(TRIREME_TESTS "/../docs/from-megatron.md").lexically_normal();
  std::string page = read_file(file);
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + std::string(kBegin).size();
  const std::string table = "\n" + flags_markdown() + "\n";
  const bool same = page.substr(from, end - from) == table;
  if (std::getenv("TRIREME_UPDATE_DOCS")) {
    write_file_durably(file, page.replace(from, end - from, table));
    return;
  }
  EXPECT_TRUE(same) << "docs/from-megatron.md is old: run this test with TRIREME_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace trireme::megatron
