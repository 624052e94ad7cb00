// Tests of Hugging Face folders: the tables name exactly the tensors that the reference
// implementation writes, indices and shapes are checked, and tokenizers are copied.
#include "formats/huggingface/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/model.h"
#include "formats/huggingface/names.h"
#include "formats/huggingface/tokenizer.h"
#include "formats/huggingface_references.h"
#include "tensors/safetensors.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(HuggingFaceNames, AreThoseOfTheReferenceImplementation) {
  for (const std::string& name : reference_models) {
    const TensorMapping mapping = huggingface_mapping(read_huggingface_config(reference(name)));
    const SafetensorsFile file(reference(name) / "model.safetensors");
    std::map<std::string, std::vector<std::int64_t>> ours, theirs;
    for (const NamedTensor& tensor : mapping.theirs) {
      ours[tensor.name] = {tensor.shape.begin(), tensor.shape.end()};
    }
    for (const SafetensorsEntry& entry : file.tensors()) theirs[entry.name] = entry.shape;
    EXPECT_EQ(ours, theirs) << name;
  }
}

TEST(HuggingFaceNames, OfOursAreIndependentOfTheKind) {
  const TensorMapping mapping = huggingface_mapping(read_huggingface_config(reference("llama")));
  std::map<std::string, Shape> ours;
  for (const NamedTensor& tensor : mapping.ours) ours[tensor.name] = tensor.shape;
  // 4 heads and 2 key/value heads of size 8: 2 groups of (2 queries + key + value).
  EXPECT_EQ(ours.at("layers.1.attention.qkv.weight"), (Shape{64, 16}));
  EXPECT_EQ(ours.at("layers.1.mlp.up.weight"), (Shape{48, 16}));
  EXPECT_EQ(ours.at("layers.1.mlp.down.weight"), (Shape{16, 24}));
  EXPECT_EQ(ours.at("head.weight"), (Shape{61, 16}));
  EXPECT_EQ(ours.size(), 15u);
}

TEST(HuggingFaceNames, AcceptOlderFiles) {
  EXPECT_EQ(canonical_huggingface_name(gpt2_kind, "h.0.ln_1.bias"), "transformer.h.0.ln_1.bias");
  EXPECT_EQ(canonical_huggingface_name(gpt2_kind, "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_huggingface_name(bert_kind, "bert.embeddings.LayerNorm.gamma"),
            "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(canonical_huggingface_name(bert_kind, "cls.predictions.transform.LayerNorm.beta"),
            "cls.predictions.transform.LayerNorm.bias");
  const HuggingFaceModel gpt2{&gpt2_kind, {}, {}, ""};
  EXPECT_TRUE(is_left_out_of_huggingface(gpt2, "transformer.h.0.attn.bias"));
  EXPECT_FALSE(is_left_out_of_huggingface(gpt2, "lm_head.weight"));
  EXPECT_FALSE(is_left_out_of_huggingface(gpt2, "transformer.h.0.attn.c_attn.bias"));
}

TEST(HuggingFaceNames, CopiesOfTiedWeightsAreKnown) {
  const HuggingFaceModel gpt2 = read_huggingface_config(reference("gpt2"));
  EXPECT_EQ(tied_huggingface_tensor(gpt2, "lm_head.weight"), "transformer.wte.weight");
  EXPECT_EQ(tied_huggingface_tensor(gpt2, "transformer.wpe.weight"), "");
  const HuggingFaceModel llama = read_huggingface_config(reference("llama"));
  EXPECT_EQ(tied_huggingface_tensor(llama, "lm_head.weight"), "");
  HuggingFaceModel bert = read_huggingface_config(reference("bert"));
  EXPECT_EQ(tied_huggingface_tensor(bert, "cls.predictions.decoder.bias"), "cls.predictions.bias");
  bert.model.tie_embeddings = false;
  EXPECT_EQ(tied_huggingface_tensor(bert, "cls.predictions.bias"), "cls.predictions.decoder.bias");
  const TensorMapping untied = huggingface_mapping(bert);
  EXPECT_TRUE(std::ranges::any_of(
      untied.ours, [](const NamedTensor& tensor) { return tensor.name == "head.weight"; }));
}

// Loaders read tokenizer.json: its additions to the vocabulary files must not get lost.
TEST(HuggingFaceTokenizer, ATokenizerJsonThatSaysMoreIsTaken) {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_tokenizer_json";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "vocab.json") << R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})";
  std::ofstream(folder / "merges.txt") << "#version: 0.2\na b\n";
  const auto type = [&] {
    return import_huggingface_tokenizer(folder, folder / "to", gpt2_kind).type;
  };
  fs::create_directories(folder / "to");
  export_huggingface_tokenizer(
      {"gpt2", (folder / "vocab.json").string(), (folder / "merges.txt").string(), ""},
      folder / "to", 8);
  EXPECT_EQ(type(), "gpt2");
  fs::copy_file(folder / "to/tokenizer.json", folder / "tokenizer.json");
  EXPECT_EQ(type(), "gpt2");
  auto json = nlohmann::json::parse(read_file(folder / "tokenizer.json"));
  json["added_tokens"].push_back({{"id", 4}, {"content", "<pad>"}});
  std::ofstream(folder / "tokenizer.json") << json.dump();
  EXPECT_EQ(type(), "hf");
  fs::remove_all(folder);
}

// Folders whose tokenizer is more than its vocabulary, file by file.
class HuggingFaceVocabulary : public testing::Test {
 protected:
  HuggingFaceVocabulary() { fs::create_directories(folder_ / "to"); }
  ~HuggingFaceVocabulary() override { fs::remove_all(folder_); }

  void write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void write_gpt2() const {
    write("vocab.json", R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})");
    write("merges.txt", "#version: 0.2\na b\n");
  }
  void write_bert() const { write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nriver\n"); }
  TokenizerFiles take(const HuggingFaceKind& kind) const {
    return import_huggingface_tokenizer(folder_, folder_ / "to", kind);
  }
  // The tokenizer.json that an export writes for the same vocabulary, with a change.
  template <class Change>
  void write_json(const TokenizerFiles& files, const Change& change) const {
    export_huggingface_tokenizer(files, folder_ / "to", 8);
    auto json = nlohmann::json::parse(read_file(folder_ / "to/tokenizer.json"));
    change(json);
    write("tokenizer.json", json.dump());
  }
  TokenizerFiles gpt2_files() const {
    return {"gpt2", (folder_ / "vocab.json").string(), (folder_ / "merges.txt").string(), "", ""};
  }
  TokenizerFiles bert_files() const {
    return {"bert", (folder_ / "vocab.txt").string(), "", "", ""};
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "trireme_vocabulary_folder";
};

TEST_F(HuggingFaceVocabulary, Gpt2JsonThatDiffersAnywhereIsTaken) {
  write_gpt2();
  const auto type_with = [&](const auto& change) {
    write_json(gpt2_files(), change);
    return take(gpt2_kind).type;
  };
  using Json = nlohmann::json;
  EXPECT_EQ(type_with([](Json&) {}), "gpt2");
  EXPECT_EQ(type_with([](Json& json) {
              json["model"]["merges"] = Json::array({Json::array({"a", "b"})});
            }),
            "gpt2");
  EXPECT_EQ(type_with([](Json& json) { json["model"]["merges"] = Json::array(); }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["model"]["ignore_merges"] = true; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["pre_tokenizer"]["use_regex"] = false; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["added_tokens"][0]["lstrip"] = true; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["model"]["dropout"] = 0.1; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["decoder"] = nullptr; }), "hf");
  EXPECT_EQ(type_with([](Json& json) {
              json["added_tokens"].push_back({{"id", 2}, {"content", "ab"}});
            }),
            "hf");
}

TEST_F(HuggingFaceVocabulary, Gpt2FilesThatNameMoreAreNotTakenForTheVocabularyAlone) {
  write_gpt2();
  EXPECT_EQ(take(gpt2_kind).type, "gpt2");
  write("special_tokens_map.json", R"({"eos_token": "<|endoftext|>"})");
  EXPECT_EQ(take(gpt2_kind).type, "gpt2");
  for (const auto& [file, text] :
       {std::pair{"added_tokens.json", R"({"<new>": 4})"},
        {"special_tokens_map.json", R"({"pad_token": "<pad>"})"},
        {"tokenizer_config.json", R"({"add_prefix_space": true})"},
        {"tokenizer_config.json", R"({"add_bos_token": true})"},
        {"tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})"},
        {"tokenizer_config.json", R"({"added_tokens_decoder": {"4": {"content": "<new>"}}})"}}) {
    write(file, text);
    const TokenizerFiles files = take(gpt2_kind);
    EXPECT_EQ(files.type, "") << text;
    EXPECT_THAT(files.note, HasSubstr("the tokenizer is not imported")) << text;
    fs::remove(folder_ / file);
  }
}

TEST_F(HuggingFaceVocabulary, BertJsonAndFilesThatSayMore) {
  write_bert();
  const auto type_with = [&](const auto& change) {
    write_json(bert_files(), change);
    return take(bert_kind).type;
  };
  using Json = nlohmann::json;
  EXPECT_EQ(type_with([](Json&) {}), "bert");
  EXPECT_EQ(type_with([](Json& json) { json["model"]["vocab"]["stone"] = 6; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["normalizer"]["lowercase"] = false; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["post_processor"] = nullptr; }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["post_processor"]["single"].erase(0); }), "hf");
  EXPECT_EQ(type_with([](Json& json) { json["decoder"] = nullptr; }), "hf");
  const auto processing = [](int cls) {
    return [cls](Json& json) {
      json["post_processor"] = {
          {"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", cls}}};
    };
  };
  EXPECT_EQ(type_with(processing(2)), "bert");
  EXPECT_EQ(type_with(processing(3)), "hf");
  EXPECT_EQ(type_with([](Json& json) {
              json["added_tokens"].push_back({{"id", 6}, {"content", "<new>"}});
            }),
            "hf");
  fs::remove(folder_ / "tokenizer.json");
  write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": false})");
  EXPECT_EQ(take(bert_kind).type, "bert_cased");
  write("tokenizer_config.json", R"({"strip_accents": false})");
  EXPECT_THAT(take(bert_kind).note, HasSubstr("strip_accents is false"));
  write("tokenizer_config.json", R"({"tokenize_chinese_chars": false})");
  EXPECT_EQ(take(bert_kind).type, "");
}

TEST_F(HuggingFaceVocabulary, ASentencePieceModelIsTakenForLlama2sOnlyIfNothingSaysOtherwise) {
  write("tokenizer.model", "x");
  EXPECT_EQ(take(llama_kind).type, "llama2");
  write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true})");
  EXPECT_EQ(take(llama_kind).type, "llama2");
  write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_THAT(take(llama_kind).note, HasSubstr("add_bos_token is false"));
  write("tokenizer_config.json", R"({"tokenizer_class": "GemmaTokenizer"})");
  EXPECT_THAT(take(llama_kind).note, HasSubstr("GemmaTokenizer"));
}

// Readers of vocab.txt and merges.txt trim their lines: a tokenizer.json made of them does too.
TEST_F(HuggingFaceVocabulary, ExportsTrimLinesAsReadersDo) {
  write("vocab.txt", "\xef\xbb\xbf[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nriver \t\r\n");
  write_json(bert_files(), [](const nlohmann::json& json) {
    EXPECT_EQ(json["model"]["vocab"]["river"], 5);
    EXPECT_EQ(json["model"]["vocab"]["[PAD]"], 0);
  });
  write_gpt2();
  write("merges.txt", "\xef\xbb\xbf#version: 0.2\na b \r\n");
  write_json(gpt2_files(), [](const nlohmann::json& json) {
    EXPECT_EQ(json["model"]["merges"], nlohmann::json::array({"a b"}));
  });
}

// Hugging Face loaders do not read tiktoken files.
TEST(HuggingFaceTokenizer, ATiktokenFileIsCopiedAndANoteSaysWhatIsMissing) {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_tiktoken_export";
  fs::create_directories(folder);
  std::ofstream(folder / "in.tiktoken") << "YQ== 0\n";
  fs::create_directories(folder / "out");
  const TokenizerFiles files{"tiktoken", "", "", (folder / "in.tiktoken").string()};
  EXPECT_THAT(export_huggingface_tokenizer(files, folder / "out", 8),
              AllOf(HasSubstr("'in.tiktoken' was copied"), HasSubstr("tokenizer.json")));
  EXPECT_EQ(read_file(folder / "out/in.tiktoken"), "YQ== 0\n");
  fs::remove_all(folder);
}

TEST(HuggingFaceTokenizer, ANullTokenizerHasNoFiles) {
  EXPECT_EQ(export_huggingface_tokenizer({.type = "null"}, "unused", 8),
            "the run's tokenizer is null, which has no files");
  EXPECT_THAT(export_huggingface_tokenizer({}, "unused", 8), HasSubstr("the run has no tokenizer"));
}

// A copy of a reference folder that a test may damage.
class HuggingFaceFolder : public testing::Test {
 protected:
  HuggingFaceFolder() { use("gpt2"); }
  ~HuggingFaceFolder() override { fs::remove_all(folder_); }

  void use(const std::string& model) {
    reference_ = reference(model);
    fs::remove_all(folder_);
    fs::copy(reference_, folder_);
  }

  // Returns the error from opening the folder and requesting every tensor.
  std::string refusal() {
    try {
      HuggingFaceModel model = read_huggingface_config(folder_);
      WeightFiles files = open_huggingface_weights(folder_);
      fit_to_files(model, files);
      HuggingFaceWeights weights(folder_, std::move(files), model);
      TensorAssembler(huggingface_mapping(model), Direction::to_ours, weights);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "accepted";
  }
  void write_text(const char* file, const std::string& text) {
    std::ofstream(folder_ / file) << text;
  }
  // Splits the weights into two files with an index.
  void split(const std::string& first_name, const std::string& second_name) {
    nlohmann::json map;
    {
      const SafetensorsFile file(folder_ / "model.safetensors");
      const std::size_t half = file.tensors().size() / 2;
      for (const bool second : {false, true}) {
        std::vector<SafetensorsTensor> tensors;
        for (std::size_t i = 0; i < file.tensors().size(); ++i) {
          const SafetensorsEntry& entry = file.tensors()[i];
          if ((i >= half) != second) continue;
          tensors.push_back({entry.name, *entry.dtype, entry.shape});
          map["weight_map"][entry.name] = second ? second_name : first_name;
        }
        SafetensorsWriter writer(folder_ / (second ? "b.safetensors" : "a.safetensors"), tensors);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          const auto bytes = file.bytes(file.at(tensors[i].name));
          writer.write(i, 0, bytes.data(), bytes.size());
        }
        writer.finish();
      }
    }
    fs::remove(folder_ / "model.safetensors");
    write_text("model.safetensors.index.json", map.dump());
  }

  // Writes tensors of the reference; a damaged one has one bit flipped.
  struct Piece {
    std::string name;
    bool spoiled = false;
  };
  void write_shard(const char* name, const std::vector<Piece>& pieces) {
    const SafetensorsFile whole(reference_ / "model.safetensors");
    std::vector<SafetensorsTensor> tensors;
    for (const Piece& piece : pieces) {
      const SafetensorsEntry& entry = whole.at(piece.name);
      tensors.push_back({entry.name, *entry.dtype, entry.shape});
    }
    SafetensorsWriter writer(folder_ / name, tensors);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto bytes = whole.bytes(whole.at(pieces[i].name));
      std::vector<std::byte> copy(bytes.begin(), bytes.end());
      if (pieces[i].spoiled) copy[0] ^= std::byte{1};
      writer.write(i, 0, copy.data(), copy.size());
    }
    writer.finish();
  }

  // Rewrites the weights without tensors whose names start with one of these prefixes.
  void leave_out(const std::vector<std::string>& prefixes) {
    std::vector<Piece> kept;
    const SafetensorsFile whole(reference_ / "model.safetensors");
    for (const SafetensorsEntry& entry : whole.tensors()) {
      const auto begins = [&](const std::string& prefix) { return entry.name.starts_with(prefix); };
      if (std::ranges::none_of(prefixes, begins)) kept.push_back({entry.name});
    }
    write_shard("model.safetensors", kept);
  }

  fs::path reference_;
  fs::path folder_ = fs::path(testing::TempDir()) / ("trireme_hf_" + std::to_string(::getpid()));
};

TEST_F(HuggingFaceFolder, IsAccepted) {
  EXPECT_EQ(refusal(), "accepted");
}

// BertForMaskedLM and its relatives: the missing tensors tell which model it is.
TEST_F(HuggingFaceFolder, ABertMayLackTheSentenceOrderHead) {
  for (const char* name : {"bert", "megatron_bert"}) {
    use(name);
    leave_out({"cls.seq_relationship.", "bert.pooler."});
    EXPECT_EQ(refusal(), "accepted") << name;
    leave_out({"cls.seq_relationship."});
    EXPECT_EQ(refusal(), "accepted") << name;
    HuggingFaceModel model = read_huggingface_config(folder_);
    EXPECT_THAT(fit_to_files(model, open_huggingface_weights(folder_)),
                AllOf(HasSubstr("model.order_head = false"), HasSubstr("pooler")));
    EXPECT_FALSE(model.model.order_head);
    EXPECT_TRUE(model.model.token_types);
    EXPECT_THAT(huggingface_config_text(model, "float32"), HasSubstr("BertForMaskedLM\""));
    leave_out({"bert.pooler."});
    EXPECT_THAT(refusal(), HasSubstr("has no tensor 'bert.pooler.dense.weight'"));
    leave_out({"cls.seq_relationship.bias"});
    EXPECT_THAT(refusal(), HasSubstr("has no tensor 'cls.seq_relationship.bias'"));
    leave_out({"bert.embeddings.token_type_embeddings."});
    EXPECT_THAT(refusal(), HasSubstr("token_type_embeddings.weight'"));
  }
}

// Folders of other formats rely on this, since their tensors have the same names.
TEST_F(HuggingFaceFolder, NamesSayWhetherABertHasTheSentenceOrderHead) {
  use("bert");
  const HuggingFaceModel read = read_huggingface_config(folder_);
  HuggingFaceModel whole = read, masked = read, pooled = read;
  EXPECT_EQ(fit_to_names(whole, {"bert.pooler.dense.weight", "cls.seq_relationship.weight"}), "");
  EXPECT_TRUE(whole.model.order_head);
  EXPECT_FALSE(is_left_out_of_huggingface(whole, "bert.pooler.dense.weight"));
  EXPECT_THAT(fit_to_names(masked, {"cls.predictions.bias"}), Not(HasSubstr("pooler")));
  EXPECT_FALSE(masked.model.order_head);
  EXPECT_THAT(fit_to_names(pooled, {"bert.pooler.dense.weight"}), HasSubstr("pooler"));
  EXPECT_TRUE(is_left_out_of_huggingface(pooled, "bert.pooler.dense.weight"));
}

TEST_F(HuggingFaceFolder, StatesNextToTheWeightsAreSaid) {
  EXPECT_THAT(open_huggingface_folder(folder_).note, Not(HasSubstr("optimizer")));
  write_text("optimizer.pt", "");
  EXPECT_THAT(open_huggingface_folder(folder_).note,
              HasSubstr("in 'optimizer.pt' are not imported"));
  fs::remove(folder_ / "optimizer.pt");
  fs::create_directory(folder_ / "global_step3");
  EXPECT_THAT(open_huggingface_folder(folder_).note, HasSubstr("/global_step3' to import them"));
}

TEST_F(HuggingFaceFolder, AdaptersNextToTheWeightsAreRefused) {
  for (const char* name :
       {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
    write_text(name, "{}");
    EXPECT_THAT([&] { open_huggingface_folder(folder_); },
                testing::ThrowsMessage<Error>(AllOf(HasSubstr("PEFT adapter"), HasSubstr(name))));
    fs::remove(folder_ / name);
  }
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(HuggingFaceFolder, ShardsAreFoundByTheirIndex) {
  split("a.safetensors", "b.safetensors");
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(HuggingFaceFolder, NamesInAnIndexMayBeginWithTheFolder) {
  split("./a.safetensors", "x/.././b.safetensors");
  EXPECT_EQ(refusal(), "accepted");
}

// Other programs may use either of the two.
TEST_F(HuggingFaceFolder, ATensorInTwoShardsMustBeTheSame) {
  split("a.safetensors", "b.safetensors");
  std::vector<Piece> second;
  std::string first;
  {
    const SafetensorsFile a(folder_ / "a.safetensors"), b(folder_ / "b.safetensors");
    for (const SafetensorsEntry& entry : b.tensors()) second.push_back({entry.name});
    first = a.tensors()[0].name;
  }
  second.push_back({first});
  write_shard("b.safetensors", second);
  EXPECT_EQ(refusal(), "accepted");
  second.back().spoiled = true;
  write_shard("b.safetensors", second);
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("'" + first + "' is in two files"),
                                        HasSubstr("a.safetensors' applies"),
                                        HasSubstr("b.safetensors' contains another")));
}

TEST_F(HuggingFaceFolder, AnIndexThatNamesTheWrongShardIsToldWhichHasIt) {
  split("b.safetensors", "a.safetensors");
  EXPECT_THAT(refusal(),
              testing::AllOf(HasSubstr("safetensors' contains '"), HasSubstr("safetensors' does")));
}

TEST_F(HuggingFaceFolder, WhatStandsInForAFileIsNamed) {
  write_text("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:" +
                                      std::string(64, 'a') + "\nsize 1234\n");
  EXPECT_THAT(refusal(), HasSubstr("git lfs pull"));
  write_text("model.safetensors",
             "<!doctype html>\n<html><head><title>Sign in</title></head></html>");
  EXPECT_THAT(refusal(), HasSubstr("web page"));
  fs::rename(folder_ / "model.safetensors", folder_ / "pytorch_model.bin");
  EXPECT_THAT(refusal(), HasSubstr("web page"));
}

TEST_F(HuggingFaceFolder, BadIndicesAreRefused) {
  split("../a.safetensors", "b.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("'../a.safetensors' is not the name"));
  write_text("model.safetensors.index.json", R"({"weight_map":{"no.such":"a.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("contains 'no.such', but it does not"));
  write_text("model.safetensors.index.json", R"({"weight_map":{"x":"missing.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("missing.safetensors"));
  write_text("model.safetensors.index.json", R"({"weight_map":[1]})");
  EXPECT_THAT(refusal(), HasSubstr("not a weight index"));
}

TEST_F(HuggingFaceFolder, MissingFilesAreNamed) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("has neither model.safetensors nor"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("has no config.json"));
}

TEST_F(HuggingFaceFolder, ShapesThatDoNotFitAreNamed) {
  auto json = nlohmann::json::parse(read_file(folder_ / "config.json"));
  json["vocab_size"] = 62;
  write_text("config.json", json.dump());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("transformer.wte.weight"), HasSubstr("[61,16]"),
                               HasSubstr("[62, 16]")));
  json["vocab_size"] = 61;
  json["n_layer"] = 3;
  write_text("config.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("has no tensor 'transformer.h.2."));
  json["n_layer"] = 1;
  write_text("config.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("a model with this config.json does not have"));
}

}  // namespace
}  // namespace trireme
