// Legacy checkpoints of Megatron, of several layouts and versions, give the bits that the same
// weights give as a Hugging Face folder (tests/formats/data/make_torch_folders.py wrote them).
#include "importers/megatron/checkpoint.h"

#include <gmock/gmock.h>

#include <fstream>

#include "formats/assembled.h"
#include "formats/huggingface/model.h"
#include "formats/torch/writer.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

using megatron::open_megatron_folder;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const ModelSettings words{"model.vocab_size=61"};

fs::path data(const std::string& name) {
  return fs::path(TRIREME_TESTS) / "formats/data" / name;
}

class Megatron : public testing::Test {
 protected:
  fs::path copy(const std::string& name) {
    fs::remove_all(folder_ / "copy");
    fs::copy(data(name), folder_ / "copy", fs::copy_options::recursive);
    return folder_ / "copy";
  }
  std::string refusal(const fs::path& folder, const ModelSettings& settings = words) {
    return refusal_of([&] {
      const ForeignModel model = open_megatron_folder(folder, settings);
      assembled(model);
    });
  }
  ScratchFolder folder_;
};

TEST_F(Megatron, GivesTheBitsOfTheSource) {
  for (const auto& [name, source] : {std::pair{"gpt2_legacy", "gpt2"},
                                     {"gpt2_version0", "gpt2"},
                                     {"gpt2_version1", "gpt2"},
                                     {"llama_core", "llama"},
                                     {"bert_legacy", "megatron_bert"}}) {
    SCOPED_TRACE(name);
    const ForeignModel model = open_megatron_folder(data("torch") / name, words);
    const ForeignModel reference = open_huggingface_folder(data("hf") / source);
    EXPECT_THAT(differences(model, reference), IsEmpty());
    const ModelConfig &got = model.model, &want = reference.model;
    EXPECT_EQ(got.family, want.family);
    EXPECT_EQ(got.activation, want.activation);
    EXPECT_EQ(got.norm_eps, want.norm_eps);
    EXPECT_EQ(got.position, want.position);
    EXPECT_EQ(got.rope_base, want.rope_base);
    EXPECT_EQ(got.max_positions, want.max_positions);
    EXPECT_EQ(got.tie_embeddings, want.tie_embeddings);
  }
}

TEST_F(Megatron, PaddingOfTheVocabularyIsKeptUnlessWordsAreCounted) {
  const ForeignModel model = open_megatron_folder(data("torch/gpt2_legacy"));
  EXPECT_EQ(model.model.vocab_size, 64);
  EXPECT_THAT(model.note, HasSubstr("all 64 rows of the vocabulary are kept"));
  EXPECT_THAT(open_megatron_folder(data("torch/gpt2_legacy"), words).note,
              AllOf(HasSubstr("by --set, model.vocab_size"), Not(HasSubstr("are kept"))));
  EXPECT_THAT(refusal(data("torch/gpt2_legacy"), {"model.vocab_size=65"}),
              AllOf(HasSubstr("[64,16] in 2 parts"), HasSubstr("expected [65, 16]")));
}

TEST_F(Megatron, TheFolderOfAStepIsReadToo) {
  EXPECT_EQ(open_megatron_folder(data("torch/bert_legacy/iter_0000100"), words).kind,
            "Megatron BERT");
}

TEST_F(Megatron, AMissingRankIsNamed) {
  const fs::path folder = copy("torch/gpt2_legacy"), step = folder / "iter_0000100";
  fs::remove_all(step / "mp_rank_01_001");
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr("mp_rank_01_001/model_optim_rng.pt' is missing"),
                                     HasSubstr("2 x 2 files"), HasSubstr("mp_rank_01_000")));
  // The names alone would now tell of one rank of tensor parallelism.
  fs::remove_all(step / "mp_rank_01_000");
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr("mp_rank_01_000/model_optim_rng.pt' is missing"),
                                     HasSubstr("2 x 2 files")));
}

TEST_F(Megatron, OtherFoldersAndFormatsAreNamed) {
  const fs::path folder = copy("torch/bert_legacy");
  std::ofstream(folder / "latest_checkpointed_iteration.txt") << "200";
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr("names step 200"), HasSubstr("iter_0000100")));
  std::ofstream(folder / "latest_checkpointed_iteration.txt") << "../100";
  EXPECT_THAT(refusal(folder), HasSubstr("expected is the number of a step"));
  std::ofstream(folder / "latest_checkpointed_iteration.txt") << "100";
  for (const char* file : {"metadata.json", ".metadata"})
    std::ofstream(folder / "iter_0000100" / file) << "{}";
  EXPECT_THAT(refusal(folder), HasSubstr("torch_dist"));
  for (const char* file : {"metadata.json", ".metadata"})
    fs::remove(folder / "iter_0000100" / file);
  const fs::path of_an_expert = folder / "iter_0000100/mp_rank_00_000_000";
  fs::create_directory(of_an_expert);
  EXPECT_THAT(refusal(folder), HasSubstr("not whole"));
  std::ofstream(of_an_expert / "model_optim_rng.pt") << "x";
  EXPECT_THAT(refusal(folder), HasSubstr("expert parallelism"));
}

TEST_F(Megatron, ALayoutThatTheArgumentsContradictIsNamed) {
  const fs::path step = copy("torch/bert_legacy") / "iter_0000100";
  fs::copy(step / "mp_rank_01", step / "mp_rank_02", fs::copy_options::recursive);
  EXPECT_THAT(refusal(step), AllOf(HasSubstr("3 x 1 ranks"), HasSubstr("say 2 x 1")));
}

// A model of two layers whose ranks are made here, with what a test wants to be wrong in them.
struct Forged {
  std::int64_t iteration = 100, padded = 4;
  std::vector<std::int64_t> norm{4};
  TorchDict further = {};  // arguments
  TorchDict more = {};     // tensors
};

void forge(const fs::path& folder, int rank, const Forged& what) {
  TorchDict args{
      {"num_layers", {std::int64_t{1}}},          {"hidden_size", {std::int64_t{4}}},
      {"num_attention_heads", {std::int64_t{2}}}, {"max_position_embeddings", {std::int64_t{8}}},
      {"seq_length", {std::int64_t{8}}},          {"tensor_model_parallel_size", {std::int64_t{2}}},
      {"padded_vocab_size", {what.padded}}};
  args.insert(args.end(), what.further.begin(), what.further.end());
  const auto f32 = [](std::vector<std::int64_t> shape) {
    return TorchValue{TorchTensor{DType::f32, std::move(shape)}};
  };
  TorchDict model{{"embedding.word_embeddings.weight", f32({2, 4})},
                  {"embedding.position_embeddings.weight", f32({8, 4})},
                  {"decoder.layers.0.self_attention.linear_qkv.weight", f32({6, 4})},
                  {"decoder.layers.0.self_attention.linear_qkv.bias", f32({6})},
                  {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", f32(what.norm)},
                  {"decoder.layers.0.self_attention.linear_qkv.layer_norm_bias", f32({4})},
                  {"decoder.layers.0.self_attention.linear_proj.weight", f32({4, 2})},
                  {"decoder.layers.0.self_attention.linear_proj.bias", f32({4})},
                  {"decoder.layers.0.mlp.linear_fc1.layer_norm_weight", f32({4})},
                  {"decoder.layers.0.mlp.linear_fc1.layer_norm_bias", f32({4})},
                  {"decoder.layers.0.mlp.linear_fc1.weight", f32({8, 4})},
                  {"decoder.layers.0.mlp.linear_fc1.bias", f32({8})},
                  {"decoder.layers.0.mlp.linear_fc2.weight", f32({4, 8})},
                  {"decoder.layers.0.mlp.linear_fc2.bias", f32({4})},
                  {"decoder.final_layernorm.weight", f32({4})},
                  {"decoder.final_layernorm.bias", f32({4})}};
  model.insert(model.end(), what.more.begin(), what.more.end());
  const TorchDict saved{{"args", {args}},
                        {"checkpoint_version", {3.0}},
                        {"iteration", {what.iteration}},
                        {"model", {model}}};
  const fs::path place = folder / fmt::format("mp_rank_{:02d}", rank);
  make_folders(place);
  TorchWriter writer(place / "model_optim_rng.pt", {saved});
  for (std::size_t i = 0; i < model.size(); ++i) {
    const std::string zeros(std::get<TorchTensor>(model[i].value.value).bytes(), '\0');
    writer.write(i, 0, zeros.data(), zeros.size());
  }
  writer.finish();
}

TEST_F(Megatron, RanksThatDoNotBelongTogetherAreNamed) {
  const auto with = [&](const Forged& first, const Forged& second) {
    fs::remove_all(folder_ / "run");
    forge(folder_ / "run", 0, first);
    forge(folder_ / "run", 1, second);
    return refusal(folder_ / "run", {});
  };
  EXPECT_EQ(with({}, {}), "accepted");
  EXPECT_THAT(with({}, {.iteration = 200}),
              AllOf(HasSubstr("not of one step of one run"), HasSubstr("iteration is 100"),
                    HasSubstr("200 in the second")));
  EXPECT_THAT(with({}, {.padded = 8}), AllOf(HasSubstr("padded_vocab_size"), HasSubstr("8")));
  EXPECT_THAT(with({.padded = 8}, {.padded = 8}),
              AllOf(HasSubstr("has 4 rows over all tensor-parallel ranks"),
                    HasSubstr("padded_vocab_size in its arguments is 8")));
  EXPECT_THAT(with({}, {.norm = {5}}), HasSubstr("linear_qkv.layer_norm_weight"));
}

TEST_F(Megatron, RanksUnderOtherNamesAreNoticed) {
  const auto number = [](std::int64_t rank) { return Forged{.further = {{"rank", {rank}}}}; };
  const auto with = [&](std::int64_t first, std::int64_t second) {
    fs::remove_all(folder_ / "run");
    forge(folder_ / "run", 0, number(first));
    forge(folder_ / "run", 1, number(second));
    return refusal(folder_ / "run", {});
  };
  EXPECT_EQ(with(0, 1), "accepted");
  EXPECT_EQ(with(4, 12), "accepted");
  EXPECT_EQ(with(0, 0), "accepted");  // all saved by one process
  EXPECT_THAT(with(1, 0), AllOf(HasSubstr("saved by process 1"), HasSubstr("by process 0")));

  const fs::path stages = copy("torch/gpt2_legacy"), step = stages / "iter_0000100";
  for (const char* rank : {"mp_rank_00", "mp_rank_01"}) {
    const fs::path first = step / (std::string(rank) + "_000");
    const fs::path second = step / (std::string(rank) + "_001");
    fs::rename(first, step / "other");
    fs::rename(second, first);
    fs::rename(step / "other", second);
  }
  EXPECT_THAT(refusal(stages), HasSubstr("stage of a pipeline has"));
}

TEST_F(Megatron, WhatOurModelsDoNotHaveIsRefused) {
  const auto with = [&](const Forged& what) {
    fs::remove_all(folder_ / "run");
    forge(folder_ / "run", 0, what);
    forge(folder_ / "run", 1, what);
    return refusal(folder_ / "run", {});
  };
  const auto argument = [&](const char* name, const TorchValue& value) {
    return with({.further = {{name, value}}});
  };
  EXPECT_THAT(argument("num_experts", {std::int64_t{8}}), HasSubstr("num_experts is 8"));
  EXPECT_THAT(argument("apply_layernorm_1p", {true}), HasSubstr("distance from 1"));
  EXPECT_THAT(argument("quick_geglu", {true}), HasSubstr("linear_fc1.weight"));  // has no gate
  EXPECT_EQ(argument("quick_geglu", {false}), "accepted");
  EXPECT_THAT(argument("softmax_type", {std::string("off-by-one")}), HasSubstr("softmax"));
  EXPECT_EQ(argument("softmax_type", {std::string("vanilla")}), "accepted");
  EXPECT_THAT(argument("no_rope_freq", {std::int64_t{2}}),
              HasSubstr("describe --no-rope-freq: it removes positions"));
  EXPECT_THAT(argument("rotary_interleaved", {true}), HasSubstr("--rotary-interleaved"));
  EXPECT_THAT(argument("num_layers", {std::int64_t{2}}), HasSubstr("holds 1 layer in all"));
  EXPECT_THAT(argument("add_bias_linear", {false}),
              HasSubstr("tensors are never dropped silently"));
  EXPECT_THAT(argument("normalization", {std::string("RMSNorm")}),
              HasSubstr("final_layernorm.bias"));
  const TorchValue tensor{TorchTensor{DType::f32, {4}}};
  EXPECT_THAT(with({.more = {{"decoder.layers.0.mlp.router.weight", tensor}}}),
              HasSubstr("'decoder.layers.0.mlp.router.weight'"));
}

TEST_F(Megatron, ArgumentsThatNoTableKnowsAreListed) {
  const auto note = [&](const char* name, const TorchValue& value) {
    fs::remove_all(folder_ / "run");
    for (int rank : {0, 1}) forge(folder_ / "run", rank, {.further = {{name, value}}});
    return open_megatron_folder(folder_ / "run").note;
  };
  EXPECT_THAT(note("some_attention_variant", {std::string("sparse")}),
              HasSubstr("some_attention_variant = sparse, which is unknown to Trireme"));
  for (const char* harmless : {"save", "rank", "swiglu", "inference_max_requests"})
    EXPECT_THAT(note(harmless, {std::int64_t{0}}), Not(HasSubstr("unknown to Trireme")));
  EXPECT_THAT(note("inference_max_requests", {std::int64_t{8}}),
              Not(HasSubstr("unknown to Trireme")));
}

}  // namespace
}  // namespace trireme
