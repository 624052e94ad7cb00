// Tests that checkpoints with optimizer states keep every bit when converted to a
// torch.distributed.checkpoint folder and back, with both naming schemes.
#include "formats/dcp/export.h"

#include <gmock/gmock.h>

#include "checkpoint/world.h"
#include "formats/assembled.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/model.h"
#include "formats/huggingface/export.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

fs::path stored(const std::string& name) {
  return fs::path(TRIREME_TESTS) / "formats/data" / name;
}

class DcpRoundTrip : public testing::Test {
 protected:
  // Imports a run with the states that PyTorch saved.
  void import_states() {
    import_model(open_dcp_folder(stored("dcp/huggingface"), {}, config_), folder_ / "run",
                 "trireme", nullptr);
  }

  ScratchFolder folder_;
  fs::path config_ = stored("hf/llama/config.json");
};

TEST_F(DcpRoundTrip, KeepsEveryBit) {
  import_states();
  const ForeignModel first = open_dcp_folder(stored("dcp/huggingface"), {}, config_);
  for (const DcpNames names : {DcpNames::huggingface, DcpNames::torchtitan}) {
    const fs::path out = folder_ / (names == DcpNames::torchtitan ? "titan" : "huggingface");
    const ConversionReport report = export_dcp(folder_ / "run", out, names, {});
    EXPECT_EQ(report.note, "");
    const ForeignModel back = open_dcp_folder(out, {}, config_);
    EXPECT_THAT(differences(back, first), IsEmpty());
    ASSERT_TRUE(back.training);
    EXPECT_EQ(back.training->step, first.training->step);
    EXPECT_EQ(back.training->optimizer_steps, first.training->optimizer_steps);
    EXPECT_EQ(back.training->optimizer.weight_decay, first.training->optimizer.weight_decay);
    EXPECT_EQ(back.training->optimizer.decay_vectors, first.training->optimizer.decay_vectors);
    EXPECT_EQ(back.training->optimizer.beta2, first.training->optimizer.beta2);
  }
}

TEST_F(DcpRoundTrip, TheConfigurationGoesOn) {
  import_states();
  const CheckpointReader reader(folder_ / "run");
  EXPECT_EQ(reader.state().step, 5);
  EXPECT_EQ(reader.state().counters.at("optimizer_steps"), 3);
  const Config config = checkpoint_config(folder_ / "run");
  EXPECT_FALSE(config.checkpoint.finetune);
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_TRUE(config.optimizer.decay_vectors);
}

TEST_F(DcpRoundTrip, FilesAreAsLargeAsTheyMay) {
  import_states();
  ExportOptions small;
  small.max_file_bytes = 100'000;
  export_dcp(folder_ / "run", folder_ / "dcp", DcpNames::huggingface, small);
  const DcpFolder dcp(folder_ / "dcp");
  EXPECT_THAT(dcp.metadata().files, Contains("__0_1.distcp"));
  for (const std::string& file : dcp.metadata().files)
    EXPECT_LT(fs::file_size(folder_ / "dcp" / file), 110'000u);
}

// A model that torchtitan's names cannot represent.
TEST_F(DcpRoundTrip, OtherModelsHaveNoNamesOfTorchtitan) {
  import_huggingface(stored("hf/gpt2"), folder_ / "run", "trireme", nullptr);
  EXPECT_THAT(
      refusal_of([&] { export_dcp(folder_ / "run", folder_ / "dcp", DcpNames::torchtitan, {}); }),
      HasSubstr("supports only Llama and Qwen3 without experts or windows"));
  EXPECT_FALSE(fs::exists(folder_ / "dcp"));
  EXPECT_THAT(export_dcp(folder_ / "run", folder_ / "dcp", DcpNames::huggingface, {}).note,
              HasSubstr("weights alone"));
}

}  // namespace
}  // namespace trireme
