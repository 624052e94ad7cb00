// Tests that folders written in Meta's Llama format are read back bit for bit.
#include "formats/llama/writer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "formats/assembled.h"
#include "formats/held_tensors.h"
#include "formats/huggingface/names.h"
#include "formats/llama/folder.h"
#include "formats/llama/params.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class LlamaWriter : public testing::Test {
 protected:
  static ModelConfig llama(const std::function<void(ModelConfig&)>& change = {}) {
    ModelConfig m = small_model("llama");
    m.vocab_size = 60;
    if (change) change(m);
    resolve(m);
    validate(m);
    return m;
  }

  // Returns the note.
  std::string write(const ModelConfig& model, int parts) {
    fs::remove_all(folder());
    make_folders(folder());
    HeldTensors held(model);
    const TensorMapping mapping = huggingface_mapping({&llama_kind, model, {}, ""});
    const TensorAssembler assembler(mapping, Direction::to_theirs, held);
    return write_llama_folder(folder(), {model, parts, {}}, assembler);
  }
  std::string refusal(const ModelConfig& model, int parts = 1) {
    return refusal_of([&] { write(model, parts); });
  }
  nlohmann::json params() { return nlohmann::json::parse(read_file(folder() / "params.json")); }
  fs::path folder() const { return folder_ / "meta"; }

 private:
  ScratchFolder folder_;
};

TEST_F(LlamaWriter, WhatIsWrittenIsReadAgain) {
  const ModelConfig models[] = {
      llama(),                                              // Llama 1 and 2: columns of words
      llama([](ModelConfig& m) { m.rope_base = 500000; }),  // Llama 3: rows
      llama([](ModelConfig& m) { m.num_kv_heads = m.num_heads; }), llama([](ModelConfig& m) {
        m.rope_base = 500000;
        m.rope_scaling = RopeScaling::llama3;
        m.rope_scaling_factor = 32;
        m.tie_embeddings = true;
        m.given = {"tie_embeddings"};
      })};
  for (const ModelConfig& model : models) {
    for (const int parts : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} {} {}", model.rope_base, model.tie_embeddings, parts));
      write(model, parts);
      const ForeignModel back = open_llama_folder(folder(), {"model.max_positions=16"});
      EXPECT_THAT(HeldTensors(model).missing_in(back), IsEmpty());
      Config got, want;
      got.model = back.model;
      want.model = model;
      got.model.vocab_multiple = want.model.vocab_multiple;
      EXPECT_EQ(to_toml(got), to_toml(want));
    }
  }
}

TEST_F(LlamaWriter, TheInnerWidthIsSaidAsMetaComputesIt) {
  const auto width = [&](std::int64_t hidden, std::int64_t inner) {
    write(llama([&](ModelConfig& m) {
            m.hidden_size = hidden;
            m.head_dim = hidden / 4;
            m.num_layers = 1;
            m.ffn_hidden_size = inner;
          }),
          1);
    const auto json = params();
    return fmt::format(
        "{} {}", json["multiple_of"].get<int>(),
        json.contains("ffn_dim_multiplier") ? json["ffn_dim_multiplier"].dump() : "none");
  };
  EXPECT_EQ(width(96, 256), "256 none");
  EXPECT_EQ(width(64, 240), "16 1.4");
  EXPECT_EQ(width(32, 24), "8 0.2");
}

TEST_F(LlamaWriter, PositionsThatWillBeGuessedWrongAreNoted) {
  EXPECT_THAT(write(llama(), 1),
              AllOf(HasSubstr("has 16 positions"), HasSubstr("--set model.max_positions=16")));
  EXPECT_EQ(write(llama([](ModelConfig& m) { m.seq_length = m.max_positions = 4096; }), 1), "");
}

TEST_F(LlamaWriter, AScalingThatMetaDoesNotComputeIsNoted) {
  const auto scaled = [&](double factor) {
    return write(llama([&](ModelConfig& m) {
                   m.rope_scaling = RopeScaling::llama3;
                   m.rope_scaling_factor = factor;
                   m.seq_length = m.max_positions = 131072;
                 }),
                 1);
  };
  EXPECT_EQ(scaled(8), "");
  EXPECT_THAT(scaled(32), HasSubstr("divides frequencies by 8"));
}

TEST_F(LlamaWriter, WhatTheFormatCannotSayIsRefused) {
  EXPECT_THAT(refusal(llama(), 4), AllOf(HasSubstr("--tp 4"), HasSubstr("num_kv_heads = 2")));
  EXPECT_THAT(refusal(llama([](ModelConfig& m) { m.vocab_size = 61; }), 2),
              HasSubstr("model.vocab_size = 61"));
  EXPECT_THAT(refusal(llama([](ModelConfig& m) { m.head_dim = 4; })),
              HasSubstr("model.head_dim = 4"));
  ModelConfig latent = llama();
  latent.kv_lora_rank = 8;
  EXPECT_THAT(refusal_of([&] { llama_params(latent); }), HasSubstr("model.kv_lora_rank = 8"));
  EXPECT_THAT(refusal(llama([](ModelConfig& m) {
                m.qkv_bias = true;
                m.given = {"qkv_bias"};
              })),
              HasSubstr("model.qkv_bias = true"));
  EXPECT_THAT(refusal(llama([](ModelConfig& m) {
                m.bias = m.qkv_bias = true;
                m.given = {"bias", "qkv_bias"};
              })),
              HasSubstr("model.bias = true"));
  EXPECT_THAT(refusal(llama([](ModelConfig& m) {
                m.rope_scaling = RopeScaling::linear;
                m.rope_scaling_factor = 2;
              })),
              HasSubstr("model.rope_scaling = \"linear\""));
  ModelConfig gpt = small_model("gpt");
  resolve(gpt);
  EXPECT_THAT(refusal_of([&] { llama_params(gpt); }),
              HasSubstr("its models have no equivalent of model.position = \"learned\""));
}

}  // namespace
}  // namespace trireme
