// Tests that folders of Megatron-Bridge, which hold its configuration instead of arguments, are
// read.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "formats/torch/writer.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class BridgeFolders : public Workspace {};

TEST_F(BridgeFolders, AreReadWithTheirConfiguration) {
  prepare_data();
  const Outcome trained =
      train("run", {"train.iters=2", "model.family=llama", "model.hidden_dropout=0",
                    "model.ffn_hidden_size=48", "optimizer.warmup_iters=1"});
  ASSERT_EQ(trained.code, 0) << trained.out;
  ASSERT_EQ(run({"convert", "--to", "torch_dist", path("run"), path("theirs")}).code, 0);
  const std::string step = "theirs/iter_0000002/";
  TorchWriter(path(step + "common.pt"), {TorchDict{{"checkpoint_version", {3.0}}}}).finish();
  const auto back = [&] { return run({"convert", path("theirs"), path("back")}); };
  EXPECT_THAT(back().out, HasSubstr("no run_config.yaml of Megatron-Bridge is beside it"));

  const auto weights_of = [&](const std::string& from, const std::string& name) {
    EXPECT_EQ(run({"convert", "--to", "hf", path(from), path(name)}).code, 0);
    return contents(path(name + "/model.safetensors"));
  };
  const std::string weights = weights_of("run", "before");
  EXPECT_NE(weights, "");
  const auto words = nlohmann::json::parse(contents(path("before/config.json")))["vocab_size"];
  const std::string configuration =
      "_target_: megatron.bridge.training.config.ConfigContainer\n"
      "model:\n"
      "  _target_: megatron.bridge.models.llama.llama_provider.LlamaModelProvider\n"
      "  activation_func: {_target_: torch.nn.functional.silu, _call_: false}\n"
      "  gated_linear_unit: true\n  normalization: RMSNorm\n  add_bias_linear: false\n"
      "  position_embedding_type: rope\n  share_embeddings_and_output_weights: false\n"
      "  num_layers: 2\n  hidden_size: 32\n  num_attention_heads: 4\n"
      "  ffn_hidden_size: 48\n  seq_length: 16\n  hidden_dropout: 0.0\n"
      "  attention_dropout: 0.0\n  add_qkv_bias: false\n  qk_layernorm: false\n"
      "  num_query_groups: 4\n  layernorm_epsilon: 1.0e-05\n  init_method_std: 0.02\n"
      "  rotary_base: 10000\n  rotary_percent: 1.0\n  vocab_size: " +
      words.dump() + "\n";
  write(step + "run_config.yaml", configuration + "  softmax_scale: 0.5\n");
  EXPECT_THAT(back().out, HasSubstr("model.softmax_scale"));
  write(step + "run_config.yaml", configuration);
  const Outcome read = back();
  ASSERT_EQ(read.code, 0) << read.out;
  EXPECT_TRUE(weights_of("back", "after") == weights);
}

}  // namespace
}  // namespace trireme::testing_cli
