// Whole tiny models cut among ranks (as threads): losses and gathered gradients are those of one
// rank, whatever the layout, with and without sequence parallelism and dropout.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/error.h"
#include "comm/local.h"
#include "model/tiny_model.h"
#include "parallel/tensor_group.h"

namespace trireme {
namespace {

using namespace testing_model;

struct Layout {
  std::string family;
  int ranks;
  bool sequence_parallel;
  bool dropout;
};

ModelConfig model_of(const Layout& layout) {
  ModelConfig model = tiny(layout.family);
  if (layout.dropout) {
    model.hidden_dropout = 0.2;
    model.attention_dropout = 0.3;
  }
  return model;
}

// What all ranks of a layout computed, put together.
template <class T>
struct Gathered {
  std::vector<std::vector<T>> losses;               // by rank
  std::map<std::string, std::vector<T>> gradients;  // of whole parameters
  std::map<std::string, std::vector<int>> owners;   // how many ranks gave each element
  std::map<std::string, bool> split;
};

// Of `copies` neighbors; null for one.
std::unique_ptr<Communicator> make_group_of_copies(Transport& transport, std::int64_t copies) {
  if (copies < 2) return nullptr;
  const int rank = transport.place().rank, count = static_cast<int>(copies);
  std::vector<int> ranks;
  for (int r = rank / count * count; static_cast<int>(ranks.size()) < count; ++r)
    ranks.push_back(r);
  return transport.group(std::move(ranks), "shared heads");
}

template <class T>
Gathered<T> run_on_ranks(const Layout& layout, BuildOptions build = {},
                         const StageOptions& options = {}, bool evaluate = false) {
  const ModelConfig model = model_of(layout);
  Gathered<T> all;
  all.losses.resize(layout.ranks);
  std::mutex mutex;
  run_local_ranks(layout.ranks, {.timeout_s = 60}, [&](Transport& transport) {
    TensorGroup group(transport.world());
    const auto same_keys = make_group_of_copies(transport, layout.ranks / model.num_kv_heads);
    RankGroups groups;
    groups[GroupKind::tensor] = &group;
    BuildOptions mine = build;
    mine.tensor = {layout.ranks, group.rank(), layout.sequence_parallel};
    TinyStage<T> stage(model, mine, options, groups);
    if (evaluate) {
      stage.evaluate();
    } else {
      stage.forward();
      stage.backward();
      if (options.split_weight_grad) stage.weight_grad();
    }
    for (std::size_t p = 0; p < stage.parameters().size(); ++p) {
      const auto& [name, spec, offset] = stage.parameters()[p];
      std::vector<T> gradient = stage.gradient(static_cast<int>(p));
      if (spec.partial_gradient) {
        const auto count = static_cast<std::int64_t>(gradient.size());
        group.sum(cpu::queue(), gradient.data(), count, stage.stage().definition().accumulate());
      }
      if (const std::int64_t begin = spec.first_copied(); begin < spec.shape.count()) {
        TensorGroup(*same_keys)
            .sum(cpu::queue(), gradient.data() + begin, spec.shape.count() - begin,
                 stage.stage().definition().accumulate());
      }
      const std::lock_guard lock(mutex);
      std::vector<T>& whole = all.gradients[name];
      std::vector<int>& owners = all.owners[name];
      whole.resize(spec.saved_shape.count());
      owners.resize(whole.size());
      all.split[name] = spec.split;
      for_elements(spec, [&](std::int64_t from, std::int64_t to) {
        // Where several ranks have it, they must have the same bits.
        if (owners[to]++ > 0) {
          EXPECT_EQ(whole[to], gradient[from]) << name << " at " << to;
        }
        whole[to] = gradient[from];
      });
    }
    const std::lock_guard lock(mutex);
    all.losses[group.rank()] = stage.losses();
  });
  return all;
}

template <class T>
void expect_near(const std::vector<T>& ours, const std::vector<T>& theirs,
                 const std::string& what) {
  ASSERT_GE(theirs.size(), ours.size()) << what;
  double largest = 0;
  for (const T x : theirs) largest = std::max(largest, std::abs(static_cast<double>(x)));
  const double tolerance = (sizeof(T) == 8 ? 1e-12 : 1e-5) * std::max(largest, 1e-3);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours[i], theirs[i], tolerance) << what << " at " << i;
  }
}

template <class T>
void check_against_one_rank(const Layout& layout) {
  TinyStage<T> one(model_of(layout), {});
  one.forward();
  one.backward();
  const Gathered<T> all = run_on_ranks<T>(layout);
  for (const std::vector<T>& losses : all.losses) {
    EXPECT_EQ(losses, all.losses[0]);
    expect_near(losses, one.losses(), "losses");
  }
  const auto expected = one.gradients();
  ASSERT_EQ(all.gradients.size(), expected.size());
  for (const auto& [name, gradient] : all.gradients) {
    expect_near(gradient, expected.at(name), name);
    const int times = all.split.at(name) ? 1 : layout.ranks;
    const std::vector<int>& owners = all.owners.at(name);
    const bool shared = layout.family.ends_with("_shared");
    if (shared && name.find("attention.qkv") != std::string::npos)
      // Each key and value on two of the four ranks, of 6 rows of heads.
      EXPECT_EQ(std::ranges::count(owners, 2) * 3, std::ssize(owners)) << name;
    else if (layout.family == "llama_olmo2_shared" && name.ends_with("key_norm.weight"))
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 2)) << name;
    else
      EXPECT_EQ(owners, std::vector<int>(owners.size(), times)) << name;
  }
}

class TensorParallelModel : public testing::TestWithParam<Layout> {};

TEST_P(TensorParallelModel, MatchesOneRankInDouble) {
  check_against_one_rank<double>(GetParam());
}

TEST_P(TensorParallelModel, MatchesOneRankInFloat) {
  check_against_one_rank<float>(GetParam());
}

TEST_P(TensorParallelModel, EvaluatesLikeOneRank) {
  TinyStage<double> one(model_of(GetParam()), {});
  one.evaluate();
  for (const auto& losses : run_on_ranks<double>(GetParam(), {}, {}, true).losses) {
    expect_near(losses, one.losses(), "losses");
  }
}

TEST_P(TensorParallelModel, RecomputationPoisonAndSplitGradientsGiveTheSameBits) {
  const Gathered<double> plain = run_on_ranks<double>(GetParam());
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    BuildOptions build;
    build.recompute = how;
    StageOptions options;
    options.poison = true;
    options.split_weight_grad = true;
    const Gathered<double> other = run_on_ranks<double>(GetParam(), build, options);
    EXPECT_EQ(plain.losses, other.losses);
    EXPECT_EQ(plain.gradients, other.gradients);
  }
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const char* family : {"gpt", "gpt_bloom", "llama", "llama_qk_norm", "llama_output_norm",
                             "llama_olmo2", "llama_window", "llama_some_windows", "llama_gemma",
                             "llama_gemma2", "llama_gemma3", "llama_granite", "llama_delta",
                             "llama_mamba", "llama_parts", "llama_latent", "bert", "bert_post"}) {
    for (const int ranks : {2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const bool dropout : {false, true}) {
          all.push_back({family, ranks, sequence_parallel, dropout});
        }
      }
    }
  }
  // Two ranks for each of two heads of keys and values.
  all.push_back({"llama_shared", 4, false, true});
  all.push_back({"llama_shared", 4, true, false});
  all.push_back({"llama_olmo2_shared", 4, false, true});
  all.push_back({"llama_olmo2_shared", 4, true, false});
  all.push_back({"llama_latent_plain", 4, true, false});
  all.push_back({"llama_mtp", 4, true, true});
  all.push_back({"llama_gemma_mtp", 2, false, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, TensorParallelModel, testing::ValuesIn(layouts()),
                         [](const auto& info) {
                           const Layout& l = info.param;
                           return l.family + std::to_string(l.ranks) +
                                  (l.sequence_parallel ? "Sequence" : "") +
                                  (l.dropout ? "Dropout" : "");
                         });

TEST(SequenceParallel, LeavesOnlyNormsToBeSummed) {
  BuildOptions build;
  build.batch = 2;
  build.tensor = {2, 1, true};
  for (const char* family : {"gpt", "llama"}) {
    for (const Parameter& p : build_model(tiny(family), build).parameters) {
      const bool is_norm = p.name.find("norm") != std::string::npos;
      EXPECT_EQ(p.spec.partial_gradient, is_norm) << p.name;
    }
  }
}

TEST(SequenceParallel, SavesAShareOfTheActivations) {
  const auto saved = [](int ranks, bool sequence_parallel) {
    BuildOptions build;
    build.batch = 4;
    build.recompute = Recompute::selective;
    build.tensor = {ranks, 0, sequence_parallel};
    const Stage stage(build_model(tiny("gpt"), build), {});
    return stage.segment_plan(1, true).saved_bytes;
  };
  EXPECT_LT(saved(4, false), saved(1, false));
  EXPECT_LT(saved(4, true), 0.3 * static_cast<double>(saved(1, false)));
}

TEST(SequenceParallel, RefusesRowsThatDoNotDivide) {
  ModelConfig model = tiny("gpt");
  model.seq_length = 5;
  BuildOptions build;
  build.batch = 1;
  build.tensor = {2, 0, true};
  try {
    build_model(model, build);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("multiple of 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trireme
