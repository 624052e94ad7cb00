// The states of Megatron's optimizer in its older format, as megatron-core's own classes keep them
// (tests/formats/data/make_megatron_optimizer_folders.py wrote them, and what they should give).
#include <gmock/gmock.h>

#include "base/file.h"
#include "formats/assembled.h"
#include "importers/megatron/checkpoint.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

using megatron::open_megatron_folder;
using megatron::open_torch_dist_folder;
using testing::AllOf;
using testing::HasSubstr;

fs::path optimizer_folders() {
  return fs::path(TRIREME_TESTS) / "formats/data/megatron_optimizer";
}

class MegatronOptimizer : public testing::Test {
 protected:
  MegatronOptimizer() {
    fs::copy(optimizer_folders() / "bfloat16/legacy", run_, fs::copy_options::recursive);
  }
  // The first rank's file is another one.
  std::string refusal_with(const fs::path& file) const {
    fs::copy_file(file, step_ / "mp_rank_00/model_optim_rng.pt",
                  fs::copy_options::overwrite_existing);
    return refusal_of([&] { assembled(open_megatron_folder(run_)); });
  }
  std::string refusal_of_damaged(const std::string& name) const {
    return refusal_with(optimizer_folders() / "damaged" / name / "model_optim_rng.pt");
  }
  ScratchFolder folder_;
  const fs::path run_ = folder_ / "run", step_ = run_ / "iter_0000003";
};

TEST_F(MegatronOptimizer, GivesWeightsAndMomentsOfEachParameter) {
  for (const char* type : {"bfloat16", "float32"}) {
    SCOPED_TRACE(type);
    const ForeignModel model = open_megatron_folder(optimizer_folders() / type / "legacy");
    const auto got = assembled(model);
    const auto weights = assembled(open_megatron_folder(optimizer_folders() / type / "weights"));
    EXPECT_EQ(got.size(), 3 * weights.size());
    for (const auto& [name, tensor] : weights) EXPECT_EQ(got.at(name), tensor) << name;
    for (const int which : {0, 1}) {
      const char* const key = which == 0 ? "exp_avg" : "exp_avg_sq";
      for (const auto& [name, tensor] :
           assembled(open_megatron_folder(optimizer_folders() / type / key)))
        EXPECT_EQ(got.at(moment_name(name, which)), tensor) << name;
    }
    ASSERT_TRUE(model.training.has_value());
    EXPECT_EQ(model.training->step, 3);
    EXPECT_EQ(model.training->optimizer_steps, 3);
  }
}

TEST_F(MegatronOptimizer, RefusesStatesOfOtherParameters) {
  EXPECT_THAT(refusal_of_damaged("swapped_states"),
              AllOf(HasSubstr("exp_avg of 'embedding.word_embeddings.weight' is F32 [16,8]"),
                    HasSubstr("F32 [32,8] was expected"), HasSubstr("mp_rank_00"),
                    HasSubstr("remove 'optimizer'")));
  EXPECT_THAT(refusal_of_damaged("swapped_weights"),
              AllOf(HasSubstr("'decoder.layers.0.input_layernorm.weight', rounded to BF16"),
                    HasSubstr("is not that weight")));
}

TEST_F(MegatronOptimizer, RefusesAMissingGroup) {
  EXPECT_THAT(refusal_of_damaged("dropped_group"),
              AllOf(HasSubstr("the group 0 of its optimizer (wd_mult 1) has 6 parameters"),
                    HasSubstr("the model has 16, 6 of which decay")));
}

TEST_F(MegatronOptimizer, RefusesParametersOfTwoSteps) {
  EXPECT_THAT(refusal_of_damaged("other_step"), HasSubstr("took 3 steps with one parameter and 4"));
}

TEST_F(MegatronOptimizer, RefusesARankWithoutStates) {
  const fs::path without =
      optimizer_folders() / "bfloat16/weights/iter_0000003/mp_rank_00/model_optim_rng.pt";
  EXPECT_THAT(refusal_with(without),
              AllOf(HasSubstr("mp_rank_00/model_optim_rng.pt' has no states of an optimizer"),
                    HasSubstr("mp_rank_01/model_optim_rng.pt' has 3 steps")));
}

// Those of the distributed optimizer, of two stages whose buffers have several buckets.
class MegatronDistributed : public testing::Test {
 protected:
  MegatronDistributed() { fs::copy(all_ / "distributed", run_, fs::copy_options::recursive); }
  std::string note() const { return open_megatron_folder(run_).note; }
  const fs::path all_ = optimizer_folders().parent_path() / "torch_dist_flat";
  ScratchFolder folder_;
  const fs::path run_ = folder_ / "run", step_ = run_ / "iter_0000003";
  const fs::path first_ = step_ / "mp_rank_00_000/distrib_optim.pt",
                 second_ = step_ / "mp_rank_00_001/distrib_optim.pt";
};

TEST_F(MegatronDistributed, GivesWhatIsInTheDistributedFormatToo) {
  const ForeignModel model = open_megatron_folder(run_);
  EXPECT_THAT(differences(model, open_torch_dist_folder(all_ / "torch_dist")), testing::IsEmpty());
  EXPECT_EQ(assembled(model).size(), 3 * assembled(open_megatron_folder(all_ / "legacy")).size());
  ASSERT_TRUE(model.training.has_value());
  EXPECT_EQ(model.training->step, 3);
  EXPECT_EQ(model.training->optimizer_steps, 3);
}

TEST_F(MegatronDistributed, LeavesStatesOfAnotherStageOut) {
  fs::copy_file(first_, second_, fs::copy_options::overwrite_existing);
  EXPECT_THAT(note(),
              AllOf(HasSubstr("the states of its optimizer are left out"),
                    HasSubstr("mp_rank_00_001/distrib_optim.pt"), HasSubstr("do not fill them")));
  EXPECT_FALSE(open_megatron_folder(run_).training.has_value());
}

TEST_F(MegatronDistributed, LeavesStatesOutWhereARankHasNone) {
  fs::remove(second_);
  EXPECT_THAT(note(), AllOf(HasSubstr("the states of its optimizer are left out"),
                            HasSubstr("mp_rank_00_001/distrib_optim.pt' is not there")));
}

TEST_F(MegatronDistributed, RefusesADamagedFile) {
  std::string bytes = read_file(second_);
  bytes.resize(bytes.size() / 2);
  fs::remove(second_);
  write_file_durably(second_, bytes);
  EXPECT_THAT(refusal_of([&] { open_megatron_folder(run_); }),
              HasSubstr("mp_rank_00_001/distrib_optim.pt"));
}

}  // namespace
}  // namespace trireme
