// Tests of saving on one layout and resuming on another: training continues as if uninterrupted.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

class AnyLayout : public Jobs {
 protected:
  // Trains 5 of 12 steps on the first layout and the rest on the second. Data, moments, counters
  // and RNG states must carry over, or later losses would differ.
  std::string move(const Layout& from, const Layout& to, const std::string& more) {
    SCOPED_TRACE(from.text() + " -> " + to.text());
    const std::string dir = "job" + std::to_string(jobs_++);
    const Outcome saved = train_on(dir, from, more + " train.exit_interval=5");
    EXPECT_EQ(saved.code, 0) << saved.out;
    EXPECT_THAT(saved.out, testing::HasSubstr("stopped at step 5"));
    const Outcome resumed = train_on(dir, to, more);
    EXPECT_EQ(resumed.code, 0) << resumed.out;
    EXPECT_THAT(resumed.out, testing::HasSubstr("at step 5"));
    return dir;
  }
  void expect_same_bits(const Layout& from, const Layout& to, const std::string& more) {
    const std::string dir = move(from, to, more);
    EXPECT_EQ(metrics(dir), metrics("reference")) << from.text() << " -> " << to.text();
    EXPECT_EQ(first_difference(path(dir), path("reference")), "");
  }
  void expect_same_losses(const Layout& from, const Layout& to, const std::string& more) {
    const std::string dir = move(from, to, more);
    const double difference = largest_difference(losses(dir), losses("reference"));
    std::printf("%.1e: %s -> %s\n", difference, from.text().c_str(), to.text().c_str());
    EXPECT_LE(difference, 1e-5) << from.text() << " -> " << to.text();
    EXPECT_EQ(values_of(metrics(dir), "consumed_tokens"),
              values_of(metrics("reference"), "consumed_tokens"));
    // Rounding differs, and moments of parameters with almost no gradient (key biases) are pure
    // rounding noise.
    EXPECT_LE(largest_tensor_difference(path(dir), path("reference")), 1e-3);
  }
  // Largest difference over weights and moments, relative to the tensor's largest number.
  static double largest_tensor_difference(const fs::path& a, const fs::path& b) {
    const auto left = tensors_of(a), right = tensors_of(b);
    if (left.size() != right.size()) return INFINITY;
    double largest = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i].first != right[i].first || left[i].first.find(" f32 ") == std::string::npos)
        return INFINITY;
      double difference = 0, size = 0;
      for (std::size_t at = 0; at < left[i].second.size(); at += sizeof(float)) {
        float x, y;
        std::memcpy(&x, left[i].second.data() + at, sizeof x);
        std::memcpy(&y, right[i].second.data() + at, sizeof y);
        difference = std::max(difference, static_cast<double>(std::abs(x - y)));
        size = std::max(size, static_cast<double>(std::abs(y)));
      }
      largest = std::max(largest, size > 0 ? difference / size : difference);
    }
    return largest;
  }
};
class SlowAnyLayout : public AnyLayout {};

const std::string exact = compared_run + "parallel.numerics=exact train.hash_interval=4 ";

// Includes bf16 moments, which are rounded by their position in the model, not on a rank.
TEST_F(AnyLayout, FromManyRanksToOneAndBack) {
  const std::string more = exact + "run.precision=bf16 optimizer.moment_dtype=bf16";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const Layout many{4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=3"};
  expect_same_bits(many, {1, ""}, more);
  expect_same_bits({1, ""}, many, more);
}

// Momentum of whole matrices, and AdamW's moments for all other parameters.
TEST_F(AnyLayout, StatesOfWholeMatrices) {
  const std::string more = exact + "run.precision=bf16 optimizer.name=muon";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const Layout many{4, "parallel.pp=2 parallel.schedule=1f1b parallel.zero=2"};
  expect_same_bits(many, {1, ""}, more);
  expect_same_bits({1, ""}, many, more);
}

// A checkpoint does not record how ranks shared sequences.
TEST_F(AnyLayout, SharedSequences) {
  const std::string more = exact + "run.precision=bf16 parallel.exact_block=4 ";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const Layout many{4, "parallel.cp=2 parallel.zero=3"};
  expect_same_bits(many, {1, ""}, more);
  expect_same_bits({1, ""}, many, more);
}

// Experts on one rank, on two and on four.
TEST_F(AnyLayout, ExpertsThatAreDealtOut) {
  const std::string more =
      exact + "run.precision=bf16 model.family=llama moe.num_experts=8 parallel.exact_block=4";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const Layout two{4, "parallel.ep=2 parallel.pp=2 parallel.schedule=zbv parallel.zero=1"};
  const Layout four{4, "parallel.ep=4 parallel.cp=2 parallel.zero=2"};
  expect_same_bits(two, {1, ""}, more);
  expect_same_bits({1, ""}, four, more);
  expect_same_bits(four, two, more);
}

// Expert slices are contiguous in a checkpoint. Their sums differ by rounding.
TEST_F(AnyLayout, ExpertsInSlices) {
  const std::string more = compared_run + "model.family=llama moe.num_experts=4 ";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const Layout slices{4, "parallel.ep=2 parallel.expert_tp=2 parallel.zero=1"};
  expect_same_losses({1, ""}, slices, more);
  expect_same_losses(slices, {2, "parallel.expert_tp=2 parallel.zero=3"}, more);
}

// Weights of norms over all heads are whole in a checkpoint, however ranks share the heads.
TEST_F(AnyLayout, NormsOfAllHeads) {
  const std::string more = compared_run +
                           "model.family=llama model.num_kv_heads=2 model.qk_norm=true "
                           "model.qk_norm_over=all_heads ";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  expect_same_losses({1, ""}, {2, "parallel.tp=2"}, more);
  expect_same_losses({4, "parallel.tp=4 parallel.sequence_parallel=true"}, {1, ""}, more);
}

// Pyramid MoE: layers with different numbers of experts.
TEST_F(AnyLayout, LayersOfDifferentNumbersOfExperts) {
  const std::string more = exact +
                           "run.precision=bf16 model.family=llama moe.layer_interval=3 "
                           "moe.experts_by_layer=[4,8,4] parallel.exact_block=4";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const Layout many{4, "parallel.ep=2 parallel.pp=2 parallel.zero=1"};
  expect_same_bits(many, {1, ""}, more);
  expect_same_bits({1, ""}, many, more);
}

// From states in memory to states in files, and vice versa.
TEST_F(AnyLayout, StatesInFiles) {
  const std::string more = exact + "run.precision=bf16 ";
  ASSERT_EQ(train_on("reference", {1, more}).code, 0);
  const std::string offload = "offload.optimizer=file offload.path=" + path("states");
  const Layout many{2, "parallel.zero=1 " + offload};
  expect_same_bits(many, {1, ""}, more);
  expect_same_bits({1, ""}, many, more);
  const Layout parted{2, "parallel.zero=3 offload.parameters=file offload.path=" + path("states")};
  expect_same_bits({1, ""}, parted, more);
}

TEST_F(SlowAnyLayout, SameBitsWhereTensorParallelismStays) {
  const Layout eight{8,
                     "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2 "
                     "parallel.zero=3 parallel.dp_replicate=2"};
  for (const std::string& precision : sample_of<std::string>({"bf16", "fp32"}, 0)) {
    const std::string more = exact + "run.precision=" + precision;
    ASSERT_EQ(train_on("reference", {1, more}).code, 0);
    expect_same_bits(eight, {1, ""}, more);
    expect_same_bits({1, ""}, eight, more);
    expect_same_bits({4, "parallel.zero=3"}, {4, ""}, more);
    expect_same_bits({4, "parallel.pp=4 parallel.schedule=zbv"}, {2, "parallel.zero=2"}, more);
    expect_same_bits({2, ""}, {8, "parallel.pp=4 parallel.zero=1 parallel.schedule=vhalf"}, more);
    fs::remove_all(folder_ / "reference");
  }
}

TEST_F(SlowAnyLayout, SameLossesWhereItChanges) {
  // Every expert gets every token: otherwise rounding would route some tokens differently.
  const std::string experts = "model.family=llama moe.num_experts=4 moe.top_k=4 ";
  ASSERT_EQ(train_on("reference", {1, exact + experts}).code, 0);
  const std::string cut = "parallel.tp=2 parallel.sequence_parallel=true ";
  expect_same_losses({4, cut + "parallel.ep=4 parallel.zero=1"}, {1, ""}, exact + experts);
  expect_same_losses({2, "parallel.ep=2"}, {4, cut + "parallel.pp=2"}, exact + experts);
  fs::remove_all(folder_ / "reference");
  const std::vector<std::pair<Layout, Layout>> moves = {
      {{4, "parallel.pp=4"}, {2, "parallel.tp=2"}},
      {{8, "parallel.tp=2 parallel.pp=2 parallel.zero=3 parallel.schedule=zbv"}, {1, ""}},
      {{1, ""}, {8, "parallel.tp=4 parallel.zero=2 parallel.sequence_parallel=true"}},
      {{4, "parallel.tp=4"}, {4, "parallel.tp=2 parallel.zero=1"}}};
  const std::vector<std::string> models = {"", "model.family=llama ",
                                           "model.tie_embeddings=false "};
  for (std::size_t model = 0; model < models.size(); ++model) {
    const std::string more = exact + models[model];
    ASSERT_EQ(train_on("reference", {1, more}).code, 0);
    for (const std::size_t i : {model, model + 1})
      expect_same_losses(moves[i].first, moves[i].second, more);
    fs::remove_all(folder_ / "reference");
  }
}

// 300 tokens are padded to 384, 512 or 512 rows: no rank saves the padding rows in between.
TEST_F(SlowAnyLayout, PaddingOfTheVocabularyIsNotSaved) {
  for (const Layout& layout :
       {Layout{1, ""}, Layout{2, "parallel.tp=2"}, Layout{8, "parallel.tp=4 parallel.zero=3"}}) {
    const std::string dir = "job" + std::to_string(jobs_++);
    ASSERT_EQ(
        train_on(dir, layout, "train.iters=2 optimizer.warmup_iters=0 model.tie_embeddings=false")
            .code,
        0);
    CheckpointReader reader(path(dir));
    int tables = 0;
    for (const StoredTensor& tensor : reader.manifest().tensors) {
      if (tensor.name.find("embedding.word") == std::string::npos &&
          tensor.name.find("head.weight") == std::string::npos)
        continue;
      ++tables;
      EXPECT_EQ(tensor.shape.text(), "[300, 32]") << tensor.name << " on " << layout.text();
    }
    EXPECT_EQ(tables, 6) << layout.text();  // two tables with two moments each
    reader.verify();
  }
}

}  // namespace
}  // namespace trireme::testing_cli
