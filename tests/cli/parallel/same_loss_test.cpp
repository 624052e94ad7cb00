// Tests that every layout trains as one process does: losses of all steps within 1e-5.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

constexpr double tolerance = 1e-5;

class SameLoss : public Jobs {
 protected:
  void compare(const std::string& of_model, const std::vector<Layout>& layouts,
               double most = tolerance) const {
    const std::string model = compared_run + "optimizer.lr=1e-2 " + of_model;
    ASSERT_EQ(train_on("reference", {1, model}).code, 0) << read("reference.out");
    const std::vector<double> expected = losses("reference");
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(compared_steps));
    ASSERT_LT(expected.back(), 0.8 * expected.front());  // the model learns, so updates matter
    double largest = 0;
    for (const Layout& layout : layouts) {
      const double difference = difference_to("reference", layout, model);
      EXPECT_LE(difference, most) << layout.text() << " " << model;
      if (difference > largest) {
        largest = difference;
        std::printf("largest relative difference so far %.1e: %s\n", difference,
                    layout.text().c_str());
      }
    }
    fs::remove_all(folder_ / "reference");
  }
};
class SlowSameLoss : public SameLoss {};

TEST_F(SameLoss, RepresentativeLayouts) {
  compare("", {{2, "parallel.tp=2 parallel.sequence_parallel=true"},
               {4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=1"},
               {4, "parallel.tp=2 parallel.zero=3"}});
}

const std::vector<Layout> tensor_layouts = {
    {2, "parallel.tp=2"},
    {4, "parallel.tp=4"},
    {2, "parallel.tp=2 parallel.sequence_parallel=true"},
    {4, "parallel.tp=4 parallel.sequence_parallel=true"},
};

std::vector<Layout> pipeline_layouts() {
  std::vector<Layout> layouts;
  for (const int ranks : {2, 4}) {
    for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "zb1p", "zbv", "vhalf"}) {
      const std::string chunks = schedule == "interleaved" ? " parallel.virtual_stages=2" : "";
      layouts.push_back({ranks, "parallel.pp=" + std::to_string(ranks) +
                                    " parallel.schedule=" + schedule + chunks});
    }
  }
  layouts.push_back({2, "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=4"});
  layouts.push_back({3, "parallel.pp=3 parallel.stage_layers=[1,4,3]"});
  layouts.push_back({2, "parallel.pp=2 parallel.schedule=zbv parallel.stage_layers=[3,1,2,2]"});
  layouts.push_back({2,
                     "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2 "
                     "parallel.stage_layers=[1,3,3,1]"});
  return layouts;
}

const std::vector<Layout> data_layouts = {
    {2, ""},
    {4, ""},
    {2, "parallel.zero=1"},
    {4, "parallel.zero=1"},
    {4, "parallel.zero=2"},
    {2, "parallel.zero=3"},
    {4, "parallel.zero=3"},
    {4, "parallel.zero=1 parallel.dp_replicate=2"},
    {4, "parallel.zero=2 parallel.dp_replicate=2"},
    {4, "parallel.zero=3 parallel.dp_replicate=2"},
};

const std::vector<Layout> mixtures = {
    {8,
     "parallel.tp=2 parallel.pp=2 parallel.zero=3 parallel.schedule=zbv "
     "parallel.sequence_parallel=true"},
    {8, "parallel.tp=2 parallel.pp=2 parallel.schedule=vhalf parallel.zero=2"},
    {8, "parallel.tp=2 parallel.pp=4 parallel.schedule=zb1p parallel.sequence_parallel=true"},
    {8, "parallel.tp=4 parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2"},
    {8, "parallel.tp=2 parallel.zero=2 parallel.dp_replicate=2"},
    {8, "parallel.tp=2 parallel.zero=3 parallel.dp_replicate=2 parallel.sequence_parallel=true"},
    {8, "parallel.pp=2 parallel.zero=3 parallel.dp_replicate=2 parallel.schedule=gpipe"},
    {8, "parallel.pp=4 parallel.zero=1 parallel.schedule=interleaved parallel.virtual_stages=2"},
    {8, "parallel.pp=4 parallel.zero=3 parallel.schedule=zbv"},
    {8, "parallel.pp=2 parallel.zero=2 parallel.schedule=zb1p parallel.recompute=selective"},
    {8, "parallel.tp=4 parallel.zero=3 parallel.sequence_parallel=true parallel.recompute=full"},
    {8,
     "parallel.tp=2 parallel.pp=2 parallel.zero=1 parallel.recompute=full "
     "parallel.stage_layers=[3,5]"},
    {6, "parallel.pp=3 parallel.tp=2 parallel.stage_layers=[3,3,2] parallel.zero=1"},
};

const std::vector<Layout> recomputing = {
    {2, "parallel.pp=2 parallel.recompute=full"},
    {2, "parallel.pp=2 parallel.recompute=selective parallel.schedule=zbv"},
    {2, "parallel.pp=2 parallel.recompute=full parallel.schedule=zb1p"},
    {2,
     "parallel.pp=2 parallel.recompute=full parallel.recompute_layers=2 parallel.tp=1 "
     "parallel.schedule=vhalf"},
};

const std::string llama = "model.family=llama ";

TEST_F(SlowSameLoss, GptOverTensorRanks) {
  compare("", sample_of(tensor_layouts, 0));
}
TEST_F(SlowSameLoss, GptOverPipelines) {
  compare("", sample_of(pipeline_layouts(), 0));
}
TEST_F(SlowSameLoss, GptOverDataRanks) {
  compare("", sample_of(data_layouts, 0));
}
TEST_F(SlowSameLoss, GptRecomputing) {
  compare("", recomputing);
}
TEST_F(SlowSameLoss, GptOverMixtures) {
  compare("", sample_of(mixtures, 0));
}
TEST_F(SlowSameLoss, GptWithAHeadOfItsOwn) {
  compare("model.tie_embeddings=false", {tensor_layouts[1], {4, "parallel.pp=4"}, mixtures[1]});
}
TEST_F(SlowSameLoss, LlamaOverTensorRanks) {
  compare(llama, sample_of(tensor_layouts, 1));
  compare(llama + "model.num_kv_heads=2", {tensor_layouts[0], tensor_layouts[2]});
}
TEST_F(SlowSameLoss, LlamaOverPipelines) {
  compare(llama, sample_of(pipeline_layouts(), 1));
}
TEST_F(SlowSameLoss, LlamaOverDataRanks) {
  compare(llama, sample_of(data_layouts, 1));
}
TEST_F(SlowSameLoss, LlamaOverMixtures) {
  compare(llama + "model.num_kv_heads=4", sample_of(mixtures, 1));
}
// Uses 64 bits: with norms after the layers, 32-bit rounding errors grow to 3e-5 in these steps.
TEST_F(SlowSameLoss, NormsOfAllHeadsOverTensorRanks) {
  const std::string olmo2 = llama +
                            "run.precision=fp64 model.norm_placement=output model.qk_norm=true "
                            "model.qk_norm_over=all_heads ";
  compare(olmo2, {tensor_layouts[0], tensor_layouts[3]}, 1e-9);
  compare(olmo2 + "model.num_kv_heads=2",
          {tensor_layouts[1], {8, "parallel.tp=4 parallel.pp=2 parallel.zero=1"}}, 1e-9);
}
TEST_F(SlowSameLoss, CapsOverTensorRanks) {
  compare(llama + "model.norm_placement=both model.attention_soft_cap=5 model.logit_soft_cap=8",
          {tensor_layouts[1], mixtures[0]});
}
TEST_F(SlowSameLoss, TiedLlama) {
  compare(llama + "model.tie_embeddings=true",
          {tensor_layouts[0], {2, "parallel.pp=2"}, mixtures[3]});
}

// All ranks share one loss scale: they skip the same steps, and arrive at the same scale.
TEST_F(SlowSameLoss, Fp16WithADynamicScale) {
  const std::string fp16 =
      "run.precision=fp16 optimizer.initial_loss_scale=1073741824 optimizer.hysteresis=1 "
      "parallel.numerics=exact";
  ASSERT_EQ(train_on("reference", {1, fp16}).code, 0) << read("reference.out");
  const std::vector<double> skipped = values_of(metrics("reference"), "skipped_steps");
  ASSERT_EQ(skipped.size(), 30u);
  ASSERT_GT(skipped.back(), 2);
  ASSERT_LT(skipped.back(), 20);
  const Outcome outcome =
      train_on("mixture", {8, "parallel.pp=2 parallel.schedule=zbv parallel.zero=3"}, fp16);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(metrics("mixture"), metrics("reference"));
  const Outcome cut = train_on("cut", {4, "parallel.tp=2 parallel.zero=2"}, fp16);
  ASSERT_EQ(cut.code, 0) << cut.out;
  EXPECT_EQ(values_of(metrics("cut"), "skipped_steps"), skipped);
  EXPECT_LE(std::abs(losses("cut").back() / losses("reference").back() - 1), 0.01);
}

}  // namespace
}  // namespace trireme::testing_cli
