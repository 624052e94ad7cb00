// Legacy folders of Megatron that are written are read again bit for bit, whatever the layout and
// the names, and are what Megatron's own writer made where the layout is the same.
#include "formats/megatron/writer.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>

#include "formats/assembled.h"
#include "formats/held_tensors.h"
#include "formats/megatron/step.h"
#include "formats/weight_file.h"
#include "importers/megatron/arguments.h"
#include "importers/megatron/checkpoint.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

using megatron::arguments_of;
using megatron::open_megatron_folder;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr MegatronKind kinds[] = {MegatronKind::transformer_engine, MegatronKind::local,
                                  MegatronKind::legacy};

class MegatronWriter : public testing::Test {
 protected:
  static ModelConfig model(const std::string& family,
                           const std::function<void(ModelConfig&)>& change = {}) {
    ModelConfig m = small_model(family);
    if (change) change(m);
    resolve(m);
    validate(m);
    return m;
  }

  fs::path write(const ModelConfig& model, const MegatronLayout& layout) {
    fs::remove_all(folder_ / "written");
    Config config;
    config.model = model;
    const TorchDict arguments = arguments_of(config, layout);
    HeldTensors held(model);
    const TensorAssembler assembler(held.mapping(), Direction::to_theirs, held);
    write_megatron_folder(folder_ / "written", {model, layout, arguments, 7, {}}, assembler);
    return folder_ / "written";
  }

  std::string refusal(const ModelConfig& model, const MegatronLayout& layout = {}) {
    return refusal_of([&] { write(model, layout); });
  }

  ScratchFolder folder_;
};

TEST_F(MegatronWriter, WhatIsWrittenIsReadAgain) {
  const ModelConfig models[] = {
      model("gpt"),
      model("gpt",
            [](ModelConfig& m) {
              m.tie_embeddings = false;
              m.given = {"tie_embeddings"};
            }),
      model("gpt",
            [](ModelConfig& m) {
              m.activation = MlpActivation::gelu_erf;
              m.hidden_dropout = 0.25;
            }),
      model("llama"),
      model("llama",
            [](ModelConfig& m) {
              m.tie_embeddings = true;
              m.qkv_bias = true;
              m.given = {"qkv_bias", "tie_embeddings"};
              m.rope_base = 500000;
              m.rope_scaling = RopeScaling::llama3;
              m.rope_scaling_factor = 8;
              m.rope_original_length = 8192;
            }),
      model("llama", [](ModelConfig& m) { m.attention_window = 5; }),
      model("llama",
            [](ModelConfig& m) {
              m.gate_alpha = 1.702;
              m.gate_offset = 1;
              m.activation_clamp = 7;
              m.rope_scaling = RopeScaling::yarn;
              m.rope_scaling_factor = 32;
              m.rope_attention_factor = 0.1 * std::log(32.0) + 1;
              m.rope_original_length = 2048;
              m.rope_truncate = false;
            }),
      model("bert", [](ModelConfig& m) { m.activation = MlpActivation::gelu_erf; }),
      model("bert", [](ModelConfig& m) {
        m.activation = MlpActivation::gelu_erf;
        m.order_head = false;
      })};
  constexpr std::pair<int, int> layouts[] = {{1, 1}, {2, 1}, {1, 2}, {2, 4}};
  for (const ModelConfig& model : models) {
    const HeldTensors held(model);
    for (const auto& [tp, pp] : layouts) {
      for (const MegatronKind kind : kinds) {
        const bool newer = model.rope_scaling != RopeScaling::none || model.attention_window > 0 ||
                           model.gate_alpha != 1;
        if (newer && kind == MegatronKind::legacy) continue;
        SCOPED_TRACE(fmt::format("{} {}, tp {}, pp {}, kind {}", model.family, model.activation, tp,
                                 pp, static_cast<int>(kind)));
        const ForeignModel back = open_megatron_folder(write(model, {tp, pp, kind}));
        EXPECT_THAT(held.missing_in(back), IsEmpty());
        EXPECT_EQ(back.note, "");
        Config got, want;
        got.model = back.model;
        want.model = model;
        EXPECT_EQ(to_toml(got), to_toml(want));
      }
    }
  }
}

TEST_F(MegatronWriter, ModulesOfMultiTokenPredictionAndSinksAreReadAgain) {
  const ModelConfig llama = model("llama", [](ModelConfig& m) {
    m.mtp_layers = 2;
    m.attention_sinks = true;
  });
  for (const MegatronKind kind : {MegatronKind::transformer_engine, MegatronKind::local}) {
    const HeldTensors held(llama);
    const ForeignModel back = open_megatron_folder(write(llama, {2, 1, kind}));
    EXPECT_THAT(held.missing_in(back), IsEmpty());
    EXPECT_EQ(back.model.mtp_layers, 2);
  }
  EXPECT_THAT(refusal(llama, {1, 2, MegatronKind::local}),
              AllOf(HasSubstr("--pp 2"), HasSubstr("model.mtp_layers = 2")));
  EXPECT_THAT(refusal(llama, {1, 1, MegatronKind::legacy}), HasSubstr("model."));
}

// The tensors of a rank by their names in the file.
std::map<std::string, std::string> tensors_of(const fs::path& file) {
  const auto torch = std::make_shared<const TorchFile>(file);
  const auto root = torch->pickle().find(torch->pickle().root(), "model");
  const auto weights = torch_weights(torch, root.value());
  std::map<std::string, std::string> tensors;
  for (const WeightEntry& entry : weights->tensors()) {
    std::string bytes(static_cast<std::size_t>(4 * entry.count()), '\0');
    weights->read(entry, 0, entry.count(), reinterpret_cast<std::byte*>(bytes.data()));
    tensors[entry.name] = shape_text(entry.shape) + bytes;
  }
  return tensors;
}

class Reread : public TensorSource {
 public:
  explicit Reread(const ForeignModel& model)
      : assembler_(model.mapping, Direction::to_ours, *model.weights) {}
  DType check(const std::string& name, const Shape&) const override {
    return assembler_.dtype(target(name));
  }
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override {
    const std::int64_t width = part.columns;  // whole rows are asked for
    assembler_.produce(target(name), DType::f32, part.row * width, (part.row + part.rows) * width,
                       dst);
  }

 private:
  std::size_t target(const std::string& name) const {
    const auto& all = assembler_.targets();
    return static_cast<std::size_t>(std::ranges::find(all, name, &NamedTensor::name) - all.begin());
  }
  TensorAssembler assembler_;
};

TEST_F(MegatronWriter, AFolderOfMegatronIsWrittenBackAsItWas) {
  for (const auto& [name, layout] :
       {std::pair{"gpt2_legacy", MegatronLayout{2, 2, MegatronKind::legacy}},
        {"bert_legacy", MegatronLayout{2, 1, MegatronKind::legacy}}}) {
    const fs::path source = fs::path(TRIREME_TESTS) / "formats/data/torch" / name;
    const ForeignModel model = open_megatron_folder(source);
    Reread tensors(model);
    const TensorMapping mapping = megatron_mapping(model.model);
    const TensorAssembler assembler(mapping, Direction::to_theirs, tensors);
    fs::remove_all(folder_ / "back");
    write_megatron_folder(folder_ / "back", {model.model, layout, {}, 0, {}}, assembler);
    int ranks = 0;
    for (const auto& rank : fs::directory_iterator(source / "iter_0000100")) {
      const fs::path file = rank.path().filename() / megatron_rank_file;
      SCOPED_TRACE(file.string());
      const auto got = tensors_of(folder_ / "back/release" / file);
      const auto want = tensors_of(source / "iter_0000100" / file);
      EXPECT_EQ(got.size(), want.size());
      for (const auto& [name, tensor] : want)
        EXPECT_TRUE(got.contains(name) && got.at(name) == tensor) << name;
      ++ranks;
    }
    EXPECT_EQ(ranks, layout.tp * layout.pp);
  }
}

TEST_F(MegatronWriter, RowsThatPadTheVocabularyRepeatTheLastWord) {
  const ModelConfig gpt = model("gpt");
  const fs::path step = write(gpt, {.tp = 4}) / "release";
  const auto last = tensors_of(step / "mp_rank_03" / megatron_rank_file);
  const std::string words = last.at("embedding.word_embeddings.weight");
  // 61 words in 64 rows, 16 of which are the last rank's.
  const std::string row = words.substr(words.size() - 32 * 4);
  EXPECT_TRUE(words.starts_with("[16,32]"));
  for (std::size_t i = 2; i <= 4; ++i)
    EXPECT_EQ(words.substr(words.size() - i * 32 * 4, 32 * 4), row);
  EXPECT_NE(words.substr(words.size() - 5 * 32 * 4, 32 * 4), row);
}

TEST_F(MegatronWriter, RowsThatPadTheVocabularyOfABertAreNeverPredicted) {
  const ModelConfig bert =
      model("bert", [](ModelConfig& m) { m.activation = MlpActivation::gelu_erf; });
  const fs::path step = write(bert, {.tp = 4}) / "release";
  const std::string bias =
      tensors_of(step / "mp_rank_03" / megatron_rank_file).at("output_layer.bias");
  // 61 words in 64 rows, 16 of which are the last rank's.
  std::array<float, 16> values{};
  std::memcpy(values.data(), bias.data() + bias.size() - sizeof values, sizeof values);
  EXPECT_THAT(std::vector(values.begin() + 13, values.end()), testing::Each(-10'000.0f));
  EXPECT_GT(values[12], -100.0f);
}

TEST_F(MegatronWriter, LayoutsThatDoNotDivideTheModelAreRefused) {
  EXPECT_THAT(refusal(model("llama"), {.tp = 4}),
              AllOf(HasSubstr("--tp 4"), HasSubstr("model.num_kv_heads = 2")));
  EXPECT_THAT(refusal(model("gpt"), {.tp = 3}), HasSubstr("model.num_heads = 4"));
  EXPECT_THAT(refusal(model("gpt"), {.pp = 3}),
              AllOf(HasSubstr("--pp 3"), HasSubstr("model.num_layers = 4")));
  EXPECT_FALSE(fs::exists(folder_ / "written"));
}

TEST_F(MegatronWriter, ModelsThatMegatronDoesNotHaveAreRefused) {
  const auto changed = [&](const std::string& family,
                           const std::function<void(ModelConfig&)>& change) {
    return refusal(model(family, change));
  };
  EXPECT_THAT(changed("gpt", [](ModelConfig& m) { m.position = PositionEncoding::alibi; }),
              HasSubstr("no equivalent of model.position = \"alibi\""));
  EXPECT_THAT(changed("gpt", [](ModelConfig& m) { m.activation = MlpActivation::silu; }),
              HasSubstr("model.activation = \"silu\""));
  EXPECT_THAT(changed("llama", [](ModelConfig& m) { m.activation = MlpActivation::geglu; }),
              HasSubstr("model.activation"));
  EXPECT_THAT(changed("llama", [](ModelConfig& m) { m.embedding_norm = true; }),
              HasSubstr("model.embedding_norm"));
  EXPECT_THAT(changed("llama", [](ModelConfig& m) { m.scale_embedding = true; }),
              HasSubstr("model.scale_embedding"));
  EXPECT_THAT(changed("bert", [](ModelConfig& m) { m.norm_placement = NormPlacement::post; }),
              HasSubstr("model.norm_placement"));
  EXPECT_THAT(changed("llama", [](ModelConfig& m) { m.moe.num_experts = 4; }),
              HasSubstr("moe.num_experts = 4"));
  EXPECT_THAT(changed("llama",
                      [](ModelConfig& m) {
                        m.rope_scaling = RopeScaling::llama3;
                        m.rope_scaling_factor = 8;
                        m.rope_high_freq_factor = 3;
                      }),
              HasSubstr("model.rope_high_freq_factor"));
  // What the arguments can say, and Megatron does not read.
  EXPECT_THAT(changed("gpt",
                      [](ModelConfig& m) {
                        m.bias = false;
                        m.given = {"bias"};
                      }),
              HasSubstr("gelu_tanh"));
  EXPECT_THAT(changed("llama",
                      [](ModelConfig& m) {
                        m.rope_scaling = RopeScaling::llama3;
                        m.rope_scaling_factor = 32;
                      }),
              HasSubstr("model.rope_scaling_factor = 32"));
  EXPECT_THAT(changed("bert", [](ModelConfig& m) { m.activation = MlpActivation::gelu_tanh; }),
              HasSubstr("the head of its BERT"));
  const auto legacy = [&](const std::function<void(ModelConfig&)>& change) {
    return refusal(model("llama", change), {.kind = MegatronKind::legacy});
  };
  EXPECT_THAT(legacy([](ModelConfig& m) { m.rope_base = 500000; }), HasSubstr("model.rope_base"));
  EXPECT_THAT(legacy([](ModelConfig& m) { m.attention_window = 5; }),
              HasSubstr("model.attention_window"));
  const ModelConfig normed = model("llama", [](ModelConfig& m) { m.qk_norm = true; });
  EXPECT_EQ(refusal(normed), "accepted");
  EXPECT_THAT(refusal(normed, {.kind = MegatronKind::legacy}),
              HasSubstr("'layers.0.attention.query_norm.weight'"));
}

}  // namespace
}  // namespace trireme
