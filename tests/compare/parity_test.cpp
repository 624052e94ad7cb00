// Errors planted where parallel degrees meet are found and named, and sound layouts pass. A longer
// run of random layouts: TRIREME_LAYOUTS=200 TRIREME_LAYOUTS_SEED=1.
#include "compare/parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/error.h"
#include "comm/local.h"
#include "compare/planted.h"
#include "config/run_rules.h"
#include "named.h"
#include "train/local_ranks.h"

namespace trireme::testing_parity {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Result = ParityVerdict::Result;

enum class Numbers { fast, exact, leaves };

Config model_of(const std::string& family, Numbers numbers, const std::string& precision = "bf16") {
  Config config = config_of(precision, 4, family == "planted experts" ? "experts" : family);
  config.model.num_layers = 2;
  config.run.dir = "unused";
  config.train.iters = 2;
  config.data.path = {"unused"};
  if (family == "planted") config.model.tie_embeddings = true;
  if (family == "planted experts") config.model.family = "planted";
  if (numbers == Numbers::fast) config.parallel.numerics = Numerics::fast;
  if (numbers != Numbers::fast) config.parallel.exact_block = 2;
  if (numbers == Numbers::leaves) {
    config.model.ffn_hidden_size = 24;
    config.parallel.exact_leaves = 4;
  }
  config.model.moe.capacity_factor = 0;  // which conflicts with tp and cp
  return config;
}

// As plan_parity() makes it.
ParityLayout one_rank_of(Config config) {
  const ParallelConfig p = std::exchange(config.parallel, {});
  config.parallel.numerics = p.numerics;
  config.parallel.exact_block = p.exact_block;
  config.parallel.exact_leaves = p.exact_leaves;
  config.offload = {};
  return {"one rank", config, 1};
}

struct Plant {
  GraphEdit edit;
  Loss loses;
};

ParityVerdict judge(const Config& config, int ranks, const Plant& plant = {}) {
  planted_edit() = plant.edit;
  ParityJudge judge(one_rank_of(config), [&](const Config& of_run, int size) {
    LayoutRun run(size, 2);
    run_local_ranks(size, {.timeout_s = 60}, [&](Transport& transport) {
      LosingTransport losing(transport, plant.loses);
      if (plant.loses)
        run_rank(of_run, losing, run, [&] { losing.begin(); });
      else
        run_rank(of_run, transport, run);
    });
    return run;
  });
  const ParityVerdict verdict = judge.judge({"", config, ranks});
  planted_edit() = nullptr;
  return verdict;
}

std::string text_of(const ParityVerdict& verdict) {
  return verdict.first ? verdict.first->text() : verdict.problem;
}

class PlantedErrors : public testing::Test {
 protected:
  static void SetUpTestSuite() { add_planted_family(); }

  // Finds the error with `numbers`, and returns what is said of it.
  static FirstDifference find(Numbers numbers, const std::function<void(ParallelConfig&)>& layout,
                              int ranks, const Plant& plant,
                              const std::string& family = "planted") {
    Config config = model_of(family, numbers);
    layout(config.parallel);
    // Leaves are not for families that a program adds, but compute them.
    if (numbers != Numbers::leaves) validate_layout(config, ranks);
    EXPECT_NE(judge(config, ranks).result, Result::differs) << "without the error";
    const ParityVerdict verdict = judge(config, ranks, plant);
    EXPECT_EQ(verdict.result, Result::differs);
    RecordProperty("found", text_of(verdict));
    return verdict.first.value_or(FirstDifference{});
  }
};

TEST_F(PlantedErrors, MissingSumOverTensorRanks) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions& o) {
    if (o.tensor.size > 1) bypass(g, OpKind::all_reduce);
  }};
  const auto found = find(
      Numbers::fast, [](ParallelConfig& p) { p.tp = 2; }, 2, plant);
  EXPECT_EQ(found.place.op, "linear");
  EXPECT_EQ(found.place.parameter, "layers.0.attention.out.weight");
  EXPECT_TRUE(found.place.is_forward);
  EXPECT_EQ(found.group, "a tensor-parallel group");
}

TEST_F(PlantedErrors, MissingSumOfLeaves) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions& o) {
    for (Node& node : g.forward) {
      if (o.tensor.size == 1 || node.op != OpKind::linear) continue;
      LeafCut& cut = std::get<LinearAttributes>(node.attributes).leaves;
      if (cut.of_inputs) cut.group.size = 1;
    }
  }};
  const auto found = find(
      Numbers::leaves, [](ParallelConfig& p) { p.tp = 2; }, 2, plant);
  EXPECT_EQ(found.place.op, "linear");
  EXPECT_EQ(found.place.parameter, "layers.0.attention.out.weight");
  EXPECT_EQ(found.group, "a tensor-parallel group");
}

// The sum is over the ranks of the same tensor-parallel index instead.
TEST_F(PlantedErrors, SumOverTheWrongGroup) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions& o) {
    if (o.tensor.size == 1 || o.context.size == 1) return;
    int sums = 0;
    for (Node& node : g.forward)
      if (node.op == OpKind::all_reduce && sums++ == 1)
        std::get<CollectiveAttributes>(node.attributes).group.kind = GroupKind::context;
  }};
  const auto found = find(
      Numbers::fast, [](ParallelConfig& p) { p.tp = p.cp = 2; }, 4, plant);
  EXPECT_EQ(found.place.op, "linear");
  EXPECT_EQ(found.place.parameter, "layers.0.mlp.down.weight");
  EXPECT_EQ(found.place.summed, "the context-parallel ranks");
}

TEST_F(PlantedErrors, MissingSumBehindSequenceParallelism) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions&) {
    spec_of(g, "mlp_norm.weight").partial_gradient = false;
  }};
  const auto found = find(
      Numbers::fast,
      [](ParallelConfig& p) {
        p.tp = 2;
        p.sequence_parallel = true;
      },
      2, plant);
  EXPECT_EQ(found.place.kind, StepPlace::Kind::gradient);
  EXPECT_EQ(found.place.parameter, "layers.0.mlp_norm.weight");
}

TEST_F(PlantedErrors, DoubledGradient) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions& o) {
    if (o.tensor.size > 1) spec_of(g, "mlp_norm.weight").partial_gradient = true;
  }};
  for (const Numbers numbers : {Numbers::fast}) {
    const auto found = find(
        numbers, [](ParallelConfig& p) { p.tp = 2; }, 2, plant);
    EXPECT_EQ(found.place.kind, StepPlace::Kind::gradient);
    EXPECT_EQ(found.place.parameter, "layers.0.mlp_norm.weight");
    EXPECT_NEAR(found.factor, 2, 1e-6);
    EXPECT_EQ(found.place.summed, "the tensor-parallel ranks");
    EXPECT_THAT(found.text(), HasSubstr("2 times as large everywhere"));
  }
}

// The second rank believes that its later chunk is another one.
TEST_F(PlantedErrors, ShiftedMaskOfSharedSequences) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions& o) {
    if (o.context.size == 1 || o.context.rank == 0) return;
    for (Node& node : g.forward)
      if (node.op == OpKind::context_attention)
        std::get<AttentionAttributes>(node.attributes).cut.first[1] += 1;
  }};
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    const auto found = find(
        numbers, [](ParallelConfig& p) { p.cp = 2; }, 2, plant);
    EXPECT_EQ(found.place.op, "attention");
    EXPECT_EQ(found.place.layer, 0);
    EXPECT_THAT(found.ranks, ElementsAre(1));
  }
}

TEST_F(PlantedErrors, MissingSumOverDataParallelRanks) {
  const Plant plant{.loses = [](const std::string& group, const Label& label) {
    return group == "replicate" && label.index == 1;
  }};
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    const auto found = find(
        numbers, [](ParallelConfig&) {}, 2, plant);
    EXPECT_EQ(found.place.kind, StepPlace::Kind::gradient);
    EXPECT_EQ(found.place.summed, "the data-parallel ranks");
    EXPECT_EQ(found.group, "a data-parallel group");
    EXPECT_EQ(found.step, 0);
  }
}

TEST_F(PlantedErrors, StaleParameterOfZero) {
  const Plant plant{.loses = [](const std::string& group, const Label& label) {
    return group == "gather" && label.index == 1;
  }};
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    const auto found = find(
        numbers, [](ParallelConfig& p) { p.zero = 1; }, 2, plant);
    EXPECT_EQ(found.step, 1);
    EXPECT_EQ(found.place.kind, StepPlace::Kind::parameter);
    EXPECT_EQ(found.place.parameter, "layers.0.input_norm.weight");
    EXPECT_THAT(found.ranks, ElementsAre(1));
  }
}

TEST_F(PlantedErrors, MissingSumOverTheEndsOfThePipeline) {
  const Plant plant{
      .loses = [](const std::string& group, const Label&) { return group == "embedding"; }};
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    const auto found = find(
        numbers, [](ParallelConfig& p) { p.pp = 2; }, 2, plant);
    EXPECT_EQ(found.place.kind, StepPlace::Kind::gradient);
    EXPECT_EQ(found.place.parameter, "embedding.word.weight");
    EXPECT_EQ(found.place.summed, "the first and last pipeline stage");
    EXPECT_EQ(found.group, "a pipeline");
  }
}

// Gradients of experts are summed over ranks that have other experts.
TEST_F(PlantedErrors, ExpertsOfTheWrongGroup) {
  const Plant plant{.edit = [](Graph& g, const BuildOptions& o) {
    for (const ParameterSpec& spec : g.parameters())
      if (o.expert.size > 1 && spec.name == "mlp.experts.down.weight")
        spec_of(g, spec.name).of_experts = false;
  }};
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    const auto found = find(
        numbers, [](ParallelConfig& p) { p.ep = 2; }, 2, plant, "planted experts");
    EXPECT_EQ(found.place.kind, StepPlace::Kind::gradient);
    EXPECT_EQ(found.place.parameter, "layers.1.mlp.experts.down.weight");
    EXPECT_EQ(found.place.summed, "the data-parallel ranks");
  }
}

// An error that only the run's own precision computes, in parameters that are a small part of all.
// In fp64 the layout is sound.
TEST_F(PlantedErrors, InSmallParametersInOnePrecisionOnly) {
  struct Case {
    const char *family, *parameter;
    bool sequence_parallel, doubled, fp8;
  };
  for (const auto& [family, parameter, sequence_parallel, doubled, fp8] :
       {Case{"planted", "mlp_norm.weight", false, true, false},
        {"planted", "input_norm.weight", true, false, false},
        {"planted", "mlp_norm.weight", false, true, true},
        {"planted", "mlp_norm.weight", true, false, true},
        {"planted experts", "mlp.router.weight", true, false, false}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", family, parameter, fp8 ? "fp8" : "bf16"));
    Config config = model_of(family, Numbers::fast);
    config.parallel.tp = 2;
    config.parallel.sequence_parallel = sequence_parallel;
    if (fp8) config.fp8.recipe = Fp8Recipe::tensorwise;
    validate_layout(config, 2);
    ASSERT_EQ(judge(config, 2).result, Result::rounding);
    const Plant plant{.edit = [&](Graph& g, const BuildOptions& o) {
      if (o.tensor.size == 1 || g.compute() != DType::bf16) return;
      for (const ParameterSpec& spec : g.parameters())
        if (spec.name == parameter) spec_of(g, parameter).partial_gradient = doubled;
    }};
    const ParityVerdict verdict = judge(config, 2, plant);
    EXPECT_EQ(verdict.result, Result::differs);
    EXPECT_THAT(text_of(verdict), AllOf(HasSubstr("error of the gradient of layers."),
                                        HasSubstr(parameter), HasSubstr("only in this precision")));
    // It does not show in all gradients together.
    EXPECT_LT(verdict.distance, 4 * verdict.distance_of_one_rank + 4 * 0x1p-8);
    RecordProperty("found", text_of(verdict));
  }
}

TEST(Parity, SoundLayoutsPass) {
  for (const auto& [family, numbers] :
       {std::pair{"gpt", Numbers::fast}, {"llama", Numbers::leaves}, {"experts", Numbers::exact}}) {
    SCOPED_TRACE(family);
    Config config = model_of(family, numbers);
    config.parallel.pp = 2;
    config.parallel.zero = 1;
    if (numbers != Numbers::exact) {
      config.parallel.tp = 2;
      config.parallel.sequence_parallel = true;
    } else {
      config.parallel.ep = 2;
    }
    const int ranks = numbers == Numbers::exact ? 4 : 8;
    validate_layout(config, ranks);
    const ParityVerdict verdict = judge(config, ranks);
    EXPECT_EQ(verdict.result, numbers == Numbers::fast ? Result::rounding : Result::equal)
        << text_of(verdict);
    EXPECT_GT(verdict.compared, verdict.values * 4 / 5) << verdict.values;
  }
}

TEST(Parity, SharedKeyAndValueHeads) {
  for (const bool has_norms : {false, true}) {
    Config config = model_of("llama", Numbers::fast);
    config.model.num_kv_heads = 1;
    config.model.head_dim = 32;  // a part of the weight has rows of queries and of keys
    config.model.qk_norm = has_norms;
    config.parallel.tp = 4;
    const ParityVerdict verdict = judge(config, 4);
    EXPECT_EQ(verdict.result, Result::rounding) << text_of(verdict);
    EXPECT_GT(verdict.compared, verdict.values / 2) << verdict.values;
  }
}

// The gradient of the bias of keys is zero but for rounding.
TEST(Parity, GradientsOfRoundingOnly) {
  for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lion}) {
    Config config = model_of("gpt", Numbers::fast);
    config.optimizer.name = optimizer;
    config.optimizer.eps = 1e-15;
    config.parallel.tp = 2;
    const ParityVerdict verdict = judge(config, 2);
    EXPECT_EQ(verdict.result, Result::rounding) << text_of(verdict);
  }
}

TEST(Parity, LossScaleIsNoDistance) {
  Config config = model_of("llama", Numbers::fast, "fp16");
  config.parallel.tp = 2;
  const ParityVerdict verdict = judge(config, 2);
  EXPECT_EQ(verdict.result, Result::rounding) << text_of(verdict);
  EXPECT_LT(verdict.distance, 0.05);
  EXPECT_LT(verdict.distance_of_one_rank, 0.05);
}

using RunEdit = std::function<void(LayoutRun& run, Precision precision)>;

// The verdict if the runs on two data-parallel ranks are changed.
ParityVerdict judge_changed(Numbers numbers, const RunEdit& edit) {
  const Config config = model_of("llama", numbers);
  ParityJudge judge(one_rank_of(config), [&](const Config& of_run, int ranks) {
    LayoutRun run = run_layout(of_run, ranks, 2);
    if (ranks > 1) edit(run, of_run.run.precision);
    return run;
  });
  return judge.judge({"", config, 2});
}

TEST(Parity, NumbersThatAreNotFiniteDiffer) {
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    const ParityVerdict verdict = judge_changed(numbers, [](LayoutRun& run, Precision precision) {
      if (precision == Precision::bf16) run.norms[1] = run.losses[1] = NAN;
    });
    EXPECT_EQ(verdict.result, Result::differs);
    EXPECT_THAT(verdict.problem, AllOf(HasSubstr("step 2"), HasSubstr("nan")));
  }
}

TEST(Parity, OneRankMustHaveFiniteNumbersAndGradients) {
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    Config large = model_of("gpt", numbers), zero = large;
    large.optimizer.lr = 1e30;
    zero.model.init_std = 0;
    for (const auto& [config, found] :
         {std::pair{large, "gradient norm nan"}, {zero, "gradient norm 0"}}) {
      try {
        judge(config, 2);
        FAIL() << found;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::bad_input);
        EXPECT_THAT(e.what(), HasSubstr(found));
      }
    }
  }
}

// A shard that no rank holds, or that only some of the ranks with copies hold.
TEST(Parity, EachElementOfGradientsAndStatesIsHeld) {
  for (const Numbers numbers : {Numbers::fast, Numbers::exact}) {
    for (const std::string kind : {"gradient", "state"}) {
      for (const std::size_t first : {0, 1}) {
        SCOPED_TRACE(kind);
        const ParityVerdict verdict = judge_changed(numbers, [&](LayoutRun& run, Precision) {
          for (std::size_t rank = first; rank < 2; ++rank) {
            auto& parts = run.steps[0][rank].at(kind + " layers.1.mlp.down.weight", {}, 16).parts;
            parts[3].elements -= first == 0 ? parts[3].elements : 1;
          }
        });
        EXPECT_EQ(verdict.result, Result::differs);
        ASSERT_TRUE(verdict.first);
        EXPECT_EQ(verdict.first->place.parameter, "layers.1.mlp.down.weight");
        EXPECT_THAT(verdict.first->text(), HasSubstr("all ranks together have"));
      }
    }
  }
}

template <class T>
T one_of(std::mt19937& random, const std::vector<T>& values) {
  return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
}

using Names = std::vector<std::string>;

// Sets a layout that the configuration allows, and returns its ranks; 0 if none was found.
int choose(Config& config, std::mt19937& random) {
  for (int attempt = 0; attempt < 500; ++attempt) {
    Config chosen = config;
    ParallelConfig& p = chosen.parallel;
    const int ranks = one_of(random, std::vector<int>{2, 4, 8});
    p.tp = one_of(random, p.exact_leaves > 0 ? std::vector<int>{2, 4} : std::vector<int>{1, 2, 4});
    p.sequence_parallel = one_of(random, std::vector<int>{0, 1}) == 1;
    p.pp = one_of(random, std::vector<int>{1, 1, 2});
    p.schedule = named(one_of(random, Names{"gpipe", "1f1b", "zb1p"}));
    p.cp = one_of(random, std::vector<int>{1, 1, 2});
    p.cp_attention = named(one_of(random, Names{"all_gather", "ulysses", "ring"}));
    p.ep = config.model.moe.num_experts > 0 ? one_of(random, std::vector<int>{1, 2, 4}) : 1;
    p.zero = one_of(random, std::vector<int>{0, 1, 2, 3});
    p.recompute = named(one_of(random, Names{"none", "selective", "full"}));
    try {
      check_run(chosen, ranks);
    } catch (const Error&) {
      continue;
    }
    config = chosen;
    return ranks;
  }
  return 0;
}

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

TEST(LongParity, RandomSoundLayoutsPass) {
  std::mt19937 random(static_cast<unsigned>(from_environment("TRIREME_LAYOUTS_SEED", 7)));
  const int count = from_environment("TRIREME_LAYOUTS", 50);
  int of_leaves = 0;
  for (int i = 0; i < count;) {
    const auto numbers =
        one_of(random, std::vector{Numbers::fast, Numbers::exact, Numbers::leaves});
    const auto family =
        one_of(random, Names{"gpt", "bert", "llama", "llama4", "experts", "latent", "residual",
                             "delta experts", "mamba experts", "parts experts"});
    const auto precision = one_of(random, Names{"bf16", "fp32", "fp16"});
    Config config = model_of(family, numbers, precision);
    const auto optimizer = one_of(random, Names{"adamw", "adamw", "lion", "sgd", "muon"});
    config.optimizer.name = named(optimizer);
    config.run.seed = i;
    config.data.mask_prob = 1;  // BERT predicts every word
    const bool fp8 = precision == "bf16" && one_of(random, std::vector<int>{0, 1, 2}) == 0;
    if (fp8) config.fp8.recipe = Fp8Recipe::tensorwise;
    if (one_of(random, std::vector<int>{0, 1, 2}) == 0) config.model.attention_window = 3;
    const int ranks = choose(config, random);
    if (ranks == 0) continue;
    ++i;
    const ParallelConfig& p = config.parallel;
    SCOPED_TRACE(
        fmt::format("{} {} {} {} {}: {} ranks, tp {}{}, pp {} {}, cp {} {}, ep {}, ZeRO {}, {}", i,
                    family, fp8 ? "fp8" : precision, optimizer, p.numerics, ranks, p.tp,
                    p.sequence_parallel ? " sp" : "", p.pp, p.schedule, p.cp, p.cp_attention, p.ep,
                    p.zero, p.recompute));
    const ParityVerdict verdict = judge(config, ranks);
    EXPECT_EQ(verdict.result, verdict.bits_promised ? Result::equal : Result::rounding)
        << text_of(verdict);
    if (numbers != Numbers::leaves) continue;
    EXPECT_TRUE(verdict.bits_promised || p.cp_attention == ContextAttention::ring);
    ++of_leaves;
  }
  std::printf("%d layouts, %d of them with leaves and tensor parallelism\n", count, of_leaves);
}

}  // namespace
}  // namespace trireme::testing_parity
