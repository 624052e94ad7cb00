// Tests that weights survive Hugging Face folder -> checkpoint -> Hugging Face folder bit for bit.
#include "formats/huggingface/export.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/world.h"
#include "tensors/safetensors.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

using testing::HasSubstr;

fs::path reference(const std::string& name) {
  return fs::path(TRIREME_TESTS) / "formats/data/hf" / name;
}

const std::vector<std::string> reference_models{
    "gpt2",    "llama",  "llama_tied",     "llama3_rope", "linear_rope", "phi3_longrope",
    "qwen3_5", "llama4", "granite_hybrid", "nemotron_h",  "bert",        "megatron_bert"};

// Returns all tensors of a folder's safetensors files by name: type, shape and bytes.
std::map<std::string, std::string> tensors_of(const fs::path& folder) {
  std::map<std::string, std::string> tensors;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (item.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(item.path());
    EXPECT_EQ(file.header().metadata.at("format"), "pt");
    for (const SafetensorsEntry& entry : file.tensors()) {
      const auto bytes = file.bytes(entry);
      tensors[entry.name] =
          fmt::format("{} {} {}", entry.type, nlohmann::json(entry.shape).dump(),
                      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
  }
  return tensors;
}

TEST(HuggingFace, RoundTripKeepsEveryByte) {
  for (const std::string& name : reference_models) {
    const ScratchFolder folder;
    const ConversionReport in =
        import_huggingface(reference(name), folder / "run", "trireme", &ThreadPool::global());
    EXPECT_THAT(in.note, HasSubstr("no tokenizer"));
    CheckpointReader(folder / "run").verify();
    const ConversionReport out = export_huggingface(folder / "run", folder / "hf", {});
    EXPECT_EQ(out.kind, in.kind) << name;
    EXPECT_EQ(out.elements, in.elements);
    EXPECT_EQ(read_huggingface_config(folder / "hf").tokens.eos,
              read_huggingface_config(reference(name)).tokens.eos);
    EXPECT_EQ(tensors_of(folder / "hf"), tensors_of(reference(name))) << name;
  }
}

TEST(HuggingFace, ShardsHaveAnIndexAndComeBack) {
  const ScratchFolder folder;
  import_huggingface(reference("llama"), folder / "run", "trireme", nullptr);
  export_huggingface(folder / "run", folder / "hf", {.max_file_bytes = 6000});
  EXPECT_TRUE(fs::exists(folder / "hf/model-00001-of-00006.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "hf/model-00006-of-00006.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "hf/model.safetensors"));
  const auto index = nlohmann::json::parse(read_file(folder / "hf/model.safetensors.index.json"));
  EXPECT_EQ(index.at("weight_map").size(), tensors_of(reference("llama")).size());
  EXPECT_EQ(index.at("metadata").at("total_size"),
            4 * index.at("metadata").at("total_parameters").get<int>());
  EXPECT_EQ(tensors_of(folder / "hf"), tensors_of(reference("llama")));
  import_huggingface(folder / "hf", folder / "again", "trireme", nullptr);
  export_huggingface(folder / "again", folder / "once more", {});
  EXPECT_EQ(tensors_of(folder / "once more"), tensors_of(reference("llama")));
}

TEST(HuggingFace, NamesWhatIsWrongInAnIndex) {
  const ScratchFolder folder;
  const fs::path hf = folder / "hf";
  fs::create_directory(hf);
  fs::copy_file(reference("llama") / "config.json", hf / "config.json");
  const std::pair<const char*, const char*> cases[] = {
      {"{\"weight_map\": {\"a\": \"b\",}}", "index.json' is not JSON: line 1, column 26"},
      {"[]", "has no object 'weight_map'"},
      {"{\"weight_map\": 3}", "has no object 'weight_map'"},
      {"{\"weight_map\": {\"a\": 3}}", "'a' is the number 3, not the name of a file"},
      {"{\"weight_map\": {\"a\": \"../b.safetensors\"}}", "'../b.safetensors' is not the name"},
  };
  for (const auto& [text, message] : cases) {
    write_file_durably(hf / "model.safetensors.index.json", text);
    EXPECT_THAT([&] { import_huggingface(hf, folder / "run", "trireme", nullptr); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(message)));
  }
}

TEST(HuggingFace, ExportConvertsTheType) {
  const ScratchFolder folder;
  import_huggingface(reference("gpt2"), folder / "run", "trireme", nullptr);
  export_huggingface(folder / "run", folder / "hf", {.dtype = DType::bf16});
  const SafetensorsFile file(folder / "hf/model.safetensors");
  for (const SafetensorsEntry& entry : file.tensors()) EXPECT_EQ(entry.type, "BF16");
  const auto config = nlohmann::json::parse(read_file(folder / "hf/config.json"));
  EXPECT_EQ(config.at("torch_dtype"), "bfloat16");
  // bf16 stays bf16 in the checkpoint, and is exported as such.
  import_huggingface(folder / "hf", folder / "narrow", "trireme", nullptr);
  EXPECT_EQ(CheckpointReader(folder / "narrow").find("embedding.word.weight")->dtype, DType::bf16);
  export_huggingface(folder / "narrow", folder / "back", {});
  EXPECT_EQ(tensors_of(folder / "back"), tensors_of(folder / "hf"));
}

// Norms in f32 and matrices in bf16, as some models are published.
TEST(HuggingFace, EachTensorKeepsItsType) {
  const ScratchFolder folder;
  import_huggingface(reference("llama"), folder / "run", "trireme", nullptr);
  export_huggingface(folder / "run", folder / "narrow", {.dtype = DType::bf16});
  fs::create_directory(folder / "mixed");
  fs::copy(folder / "narrow/config.json", folder / "mixed/config.json");
  {
    const SafetensorsFile wide(reference("llama") / "model.safetensors");
    const SafetensorsFile narrow(folder / "narrow/model.safetensors");
    const auto source = [&](const SafetensorsEntry& entry) -> const SafetensorsFile& {
      return entry.shape.size() == 1 ? wide : narrow;
    };
    std::vector<SafetensorsTensor> tensors;
    for (const SafetensorsEntry& entry : narrow.tensors()) {
      tensors.push_back({entry.name, *source(entry).at(entry.name).dtype, entry.shape});
    }
    SafetensorsWriter writer(folder / "mixed/model.safetensors", tensors, {{"format", "pt"}});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const SafetensorsFile& file = source(narrow.at(tensors[i].name));
      const auto bytes = file.bytes(file.at(tensors[i].name));
      writer.write(i, 0, bytes.data(), bytes.size());
    }
    writer.finish();
  }
  import_huggingface(folder / "mixed", folder / "mixed run", "trireme", nullptr);
  export_huggingface(folder / "mixed run", folder / "back", {.max_file_bytes = 6000});
  EXPECT_EQ(tensors_of(folder / "back"), tensors_of(folder / "mixed"));
  const auto config = nlohmann::json::parse(read_file(folder / "back/config.json"));
  EXPECT_EQ(config.at("torch_dtype"), "bfloat16");
}

TEST(HuggingFace, SeveralEndsOfTextComeBack) {
  const ScratchFolder folder;
  fs::copy(reference("llama"), folder / "hf");
  auto config = nlohmann::json::parse(read_file(folder / "hf/config.json"));
  config["eos_token_id"] = {2, 5, 7};
  std::ofstream(folder / "hf/config.json") << config.dump();
  import_huggingface(folder / "hf", folder / "run", "trireme", nullptr);
  const auto exported_ends = [&](const char* name, const SpecialTokens& tokens) {
    export_huggingface(folder / "run", folder / name, {.tokens = tokens});
    return nlohmann::json::parse(read_file(folder / name / "generation_config.json"))
        .at("eos_token_id")
        .dump();
  };
  EXPECT_EQ(exported_ends("same", {}), "[2,5,7]");
  EXPECT_EQ(exported_ends("known", {.eos = 5}), "[2,5,7]");
  EXPECT_EQ(exported_ends("other", {.eos = 3}), "3");
}

TEST(HuggingFace, TokenizersTravelAlong) {
  const ScratchFolder folder;
  fs::copy(reference("gpt2"), folder / "hf");
  std::ofstream(folder / "hf/vocab.json") << R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})";
  std::ofstream(folder / "hf/merges.txt") << "#version: 0.2\na b\n";
  EXPECT_EQ(import_huggingface(folder / "hf", folder / "run", "trireme", nullptr).note, "");
  const Config config = checkpoint_config(folder / "run");
  EXPECT_EQ(config.data.tokenizer, "gpt2");
  EXPECT_EQ(config.data.merge_file, (folder / "run/tokenizer/merges.txt").string());
  const ExportOptions options{
      .tokens = {3, 3}, .tokenizer = {"gpt2", config.data.vocab_file, config.data.merge_file, ""}};
  EXPECT_EQ(export_huggingface(folder / "run", folder / "out", options).note, "");
  EXPECT_EQ(read_file(folder / "out/vocab.json"), read_file(folder / "hf/vocab.json"));
  EXPECT_EQ(read_file(folder / "out/merges.txt"), read_file(folder / "hf/merges.txt"));
  // data.tokenizer_model is the folder of both files.
  const ExportOptions by_folder{.tokens = {3, 3},
                                .tokenizer = {"gpt2", "", "", (folder / "run/tokenizer").string()}};
  EXPECT_EQ(export_huggingface(folder / "run", folder / "by_folder", by_folder).note, "");
  for (const char* const name : {"vocab.json", "merges.txt", "tokenizer.json"})
    EXPECT_EQ(read_file(folder / "by_folder" / name), read_file(folder / "out" / name));
  const auto tokenizer = nlohmann::json::parse(read_file(folder / "out/tokenizer.json"));
  EXPECT_EQ(tokenizer.at("model").at("merges"), nlohmann::json::parse(R"(["a b"])"));
  EXPECT_EQ(tokenizer.at("added_tokens").at(0).at("id"), 3);
  EXPECT_TRUE(fs::exists(folder / "out/tokenizer_config.json"));
  const auto generation = nlohmann::json::parse(read_file(folder / "out/generation_config.json"));
  EXPECT_EQ(generation.at("eos_token_id"), 3);
}

// Copies a reference model's folder with an extra tensor: a copy of `original` with one byte
// changed if `differs`.
void add_copy(const std::string& model, const std::string& original, const std::string& name,
              bool differs, const fs::path& to) {
  fs::create_directory(to);
  fs::copy(reference(model) / "config.json", to / "config.json");
  const SafetensorsFile from(reference(model) / "model.safetensors");
  std::vector<SafetensorsTensor> tensors;
  for (const SafetensorsEntry& entry : from.tensors())
    tensors.push_back({entry.name, *entry.dtype, entry.shape});
  const SafetensorsEntry& source = from.at(original);
  tensors.push_back({name, *source.dtype, source.shape});
  SafetensorsWriter writer(to / "model.safetensors", tensors, {{"format", "pt"}});
  for (std::size_t i = 0; i + 1 < tensors.size(); ++i) {
    const auto bytes = from.bytes(from.at(tensors[i].name));
    writer.write(i, 0, bytes.data(), bytes.size());
  }
  const auto bytes = from.bytes(source);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  if (differs) copy.back() ^= std::byte{1};
  writer.write(tensors.size() - 1, 0, copy.data(), copy.size());
  writer.finish();
}

TEST(HuggingFace, CopiesOfTiedWeightsMustBeCopies) {
  struct Case {
    const char *model, *original, *copy;
  };
  for (const Case& c :
       {Case{"gpt2", "transformer.wte.weight", "lm_head.weight"},
        Case{"llama_tied", "model.embed_tokens.weight", "lm_head.weight"},
        Case{"bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
        Case{"bert", "cls.predictions.bias", "cls.predictions.decoder.bias"}}) {
    const ScratchFolder folder;
    add_copy(c.model, c.original, c.copy, false, folder / "same");
    import_huggingface(folder / "same", folder / "run", "trireme", nullptr);
    add_copy(c.model, c.original, c.copy, true, folder / "other");
    EXPECT_THAT([&] { import_huggingface(folder / "other", folder / "no", "trireme", nullptr); },
                testing::ThrowsMessage<Error>(testing::AllOf(
                    HasSubstr(fmt::format("'{}' differs from '{}'", c.copy, c.original)),
                    HasSubstr("tie_word_embeddings"))))
        << c.model;
  }
}

TEST(HuggingFace, NoTensorIsLeftOutWithoutAWord) {
  const ScratchFolder folder;
  add_copy("llama", "model.norm.weight", "model.layers.0.self_attn.q_norm.weight", false,
           folder / "hf");
  EXPECT_THAT([&] { import_huggingface(folder / "hf", folder / "run", "trireme", nullptr); },
              testing::ThrowsMessage<Error>(HasSubstr("model.layers.0.self_attn.q_norm.weight")));
}

TEST(HuggingFace, AnUntiedBertKeepsItsHead) {
  const ScratchFolder folder;
  add_copy("bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", true,
           folder / "hf");
  auto json = nlohmann::json::parse(read_file(folder / "hf/config.json"));
  json["tie_word_embeddings"] = false;
  std::ofstream(folder / "hf/config.json") << json.dump();
  import_huggingface(folder / "hf", folder / "run", "trireme", nullptr);
  EXPECT_TRUE(CheckpointReader(folder / "run").find("head.weight"));
  export_huggingface(folder / "run", folder / "back", {});
  auto want = tensors_of(folder / "hf"), got = tensors_of(folder / "back");
  EXPECT_EQ(got["cls.predictions.decoder.weight"], want["cls.predictions.decoder.weight"]);
  EXPECT_EQ(got["cls.predictions.decoder.bias"], want["cls.predictions.bias"]);
}

TEST(HuggingFace, DamagedFilesOfPyTorchAreNamed) {
  const ScratchFolder folder;
  fs::create_directory(folder / "hf");
  fs::copy(reference("llama") / "config.json", folder / "hf/config.json");
  std::ofstream(folder / "hf/pytorch_model.bin") << "x";
  EXPECT_THAT([&] { import_huggingface(folder / "hf", folder / "run", "trireme", nullptr); },
              testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("pytorch_model.bin"),
                                                           HasSubstr("not a torch.save file"))));
}

TEST(HuggingFace, NothingIsOverwritten) {
  const ScratchFolder folder;
  import_huggingface(reference("gpt2"), folder / "run", "trireme", nullptr);
  EXPECT_THAT([&] { import_huggingface(reference("llama"), folder / "run", "trireme", nullptr); },
              testing::ThrowsMessage<Error>(HasSubstr("already contains a checkpoint")));
  EXPECT_THAT([&] { export_huggingface(folder / "run", folder / "run", {}); },
              testing::ThrowsMessage<Error>(HasSubstr("not an empty folder")));
  EXPECT_THAT([&] { export_huggingface(folder / "nowhere", folder / "out", {}); },
              testing::ThrowsMessage<Error>(HasSubstr("nowhere' does not exist")));
}

}  // namespace
}  // namespace trireme
