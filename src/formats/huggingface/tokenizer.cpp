// Copies vocabularies; writes a tokenizer.json if there is only a vocabulary.
#include "formats/huggingface/tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "formats/huggingface/plain_tokenizer.h"

namespace trireme {
namespace {

// Not ordered_json, whose lookup is linear in the vocabulary's size.
using Json = nlohmann::json;

// Files that no tokenizer reads, but that chat programs use.
constexpr const char* companions[] = {"chat_template.jinja", "generation_config.json"};

// Files in which tokens beside those of tokenizer.json may stand.
constexpr const char* further_tokens[] = {"added_tokens.json", "special_tokens_map.json"};

constexpr std::uint64_t max_vocabulary_bytes = std::uint64_t{256} << 20;

void copy_to(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error) fail("cannot copy '{}' to '{}': {}", from.string(), to.string(), error.message());
}

Json parse_file(const fs::path& path) {
  return parse_json(read_file(path, max_vocabulary_bytes), path.string());
}

void write_json(const fs::path& path, const Json& json) {
  write_file_durably(path, json.dump(2) + "\n");
}

Json added_token(const std::string& content, const Json& id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json tokenizer_json(Json added, Json normalizer, Json pre_tokenizer, Json post_processor,
                    Json decoder, Json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", std::move(post_processor)},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

// Byte-level BPE as in GPT-2.
void write_gpt2_json(const fs::path& vocab_file, const fs::path& merge_file, const fs::path& folder,
                     std::int64_t max_positions) {
  const Json vocab = parse_file(vocab_file);
  const Json merges = merge_lines(merge_file);
  const char* end = "<|endoftext|>";
  Json added = Json::array();
  if (vocab.contains(end)) added.push_back(added_token(end, vocab[end]));
  const Json byte_level{{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", true}};
  write_json(folder / "tokenizer.json",
             tokenizer_json(added, nullptr, byte_level, byte_level, byte_level,
                            {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", ""},
                             {"end_of_word_suffix", ""},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"vocab", vocab},
                             {"merges", merges}}));
  write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"},
                                                {"add_prefix_space", false},
                                                {"model_max_length", max_positions},
                                                {"bos_token", end},
                                                {"eos_token", end},
                                                {"unk_token", end}});
}

// WordPiece as in BERT.
void write_bert_json(const fs::path& vocab_file, bool lowercase, const fs::path& folder,
                     std::int64_t max_positions) {
  const Json vocab = line_numbers(vocab_file);
  Json added = Json::array();
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    const auto it = vocab.find(token);
    if (it == vocab.end()) fail_input("'{}' lacks the token {}", vocab_file.string(), token);
    added.push_back(added_token(token, *it));
  }
  write_json(folder / "tokenizer.json",
             tokenizer_json(added,
                            {{"type", "BertNormalizer"},
                             {"clean_text", true},
                             {"handle_chinese_chars", true},
                             {"strip_accents", nullptr},
                             {"lowercase", lowercase}},
                            {{"type", "BertPreTokenizer"}},
                            bert_post_processor(vocab["[CLS]"], vocab["[SEP]"]),
                            {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
                            {{"type", "WordPiece"},
                             {"unk_token", "[UNK]"},
                             {"continuing_subword_prefix", "##"},
                             {"max_input_chars_per_word", 100},
                             {"vocab", vocab}}));
  write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "BertTokenizer"},
                                                {"do_lower_case", lowercase},
                                                {"model_max_length", max_positions},
                                                {"unk_token", "[UNK]"},
                                                {"sep_token", "[SEP]"},
                                                {"pad_token", "[PAD]"},
                                                {"cls_token", "[CLS]"},
                                                {"mask_token", "[MASK]"}});
}

// The path of tokenizer.json, given that file or its folder.
fs::path tokenizer_json_of(const std::string& model_file) {
  return fs::is_directory(model_file) ? fs::path(model_file) / "tokenizer.json"
                                      : fs::path(model_file);
}

// Folder of the tokenizer's files; "" if unknown.
fs::path folder_of(const TokenizerFiles& files) {
  const fs::path file = files.vocab_file.empty() ? files.model_file : files.vocab_file;
  if (file.empty() || fs::is_directory(file)) return file;
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

TokenizerFiles import_huggingface_tokenizer(const fs::path& folder, const fs::path& to,
                                            const HuggingFaceKind& kind) {
  const auto take = [&](const char* name) {
    make_folders(to);
    copy_to(folder / name, to / name);
    return (to / name).string();
  };
  const auto there = [&](const char* name) { return fs::exists(folder / name); };
  if (there("tokenizer_config.json")) take("tokenizer_config.json");
  for (const char* name : companions)
    if (there(name)) take(name);
  std::string beyond;
  if (kind.tokenizer == HuggingFaceTokenizer::gpt2 && there("vocab.json") && there("merges.txt")) {
    beyond = beyond_gpt2_vocabulary(folder);
    if (beyond.empty()) return {"gpt2", take("vocab.json"), take("merges.txt"), "", ""};
  }
  if (kind.tokenizer == HuggingFaceTokenizer::bert && there("vocab.txt")) {
    beyond = beyond_bert_vocabulary(folder);
    if (beyond.empty())
      return {lowers_case(folder) ? "bert" : "bert_cased", take("vocab.txt"), "", "", ""};
  }
  if (there("tokenizer.json")) {
    for (const char* name : further_tokens)
      if (there(name)) take(name);
    return {"hf", "", "", take("tokenizer.json"), ""};
  }
  if (beyond.empty() && there("tokenizer.model")) {
    beyond = beyond_llama2_model(folder);
    if (beyond.empty()) return {"llama2", "", "", take("tokenizer.model"), ""};
  }
  if (beyond.empty()) return {};
  return {"", "", "", "",
          fmt::format("the tokenizer is not imported, since a vocabulary alone does not describe "
                      "it: {}; save a tokenizer.json with save_pretrained() of transformers",
                      beyond)};
}

std::string export_huggingface_tokenizer(const TokenizerFiles& files, const fs::path& folder,
                                         std::int64_t max_positions) {
  const fs::path from = folder_of(files);
  for (const char* name : companions)
    if (!from.empty() && fs::exists(from / name)) copy_to(from / name, folder / name);
  if (files.type == "gpt2" || files.type == "GPT2BPETokenizer") {
    // data.tokenizer_model may be the folder of both files.
    const bool two = !files.vocab_file.empty();
    const fs::path vocab = two ? fs::path(files.vocab_file) : from / "vocab.json";
    const fs::path merges = two ? fs::path(files.merge_file) : from / "merges.txt";
    copy_to(vocab, folder / "vocab.json");
    copy_to(merges, folder / "merges.txt");
    write_gpt2_json(vocab, merges, folder, max_positions);
    return "";
  }
  if (files.type == "bert" || files.type == "BertWordPieceLowerCase" ||
      files.type == "bert_cased" || files.type == "BertWordPieceCase") {
    const bool lowercase = files.type == "bert" || files.type == "BertWordPieceLowerCase";
    copy_to(files.vocab_file, folder / "vocab.txt");
    write_bert_json(files.vocab_file, lowercase, folder, max_positions);
    return "";
  }
  if (files.type == "hf" || files.type == "HuggingFaceTokenizer") {
    const fs::path json = tokenizer_json_of(files.model_file);
    copy_to(json, folder / "tokenizer.json");
    for (const char* name : further_tokens)
      if (fs::exists(json.parent_path() / name)) copy_to(json.parent_path() / name, folder / name);
    const fs::path config = json.parent_path() / "tokenizer_config.json";
    if (fs::exists(config)) {
      copy_to(config, folder / "tokenizer_config.json");
    } else {
      write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                                    {"model_max_length", max_positions}});
    }
    return "";
  }
  if (files.type == "sentencepiece" || files.type == "llama2" || files.type == "Llama2Tokenizer" ||
      files.type == "GPTSentencePieceTokenizer") {
    copy_to(files.model_file, folder / "tokenizer.model");
    write_json(folder / "tokenizer_config.json",
               {{"tokenizer_class", "LlamaTokenizer"}, {"model_max_length", max_positions}});
    return "tokenizer.json is not written for SentencePiece models; loaders create it from "
           "tokenizer.model";
  }
  if (files.type == "tiktoken" || files.type == "TikTokenizer") {
    const std::string name = fs::path(files.model_file).filename().string();
    copy_to(files.model_file, folder / name);
    return fmt::format(
        "the tiktoken file '{}' was copied, but no tokenizer.json is written for it: add the "
        "tokenizer.json and tokenizer_config.json that were published with this vocabulary",
        name);
  }
  if (files.type.empty()) return "the run has no tokenizer: add its files manually";
  if (files.type == "null" || files.type == "NullTokenizer") {
    return "the run's tokenizer is null, which has no files";
  }
  return fmt::format("no tokenizer files are written for a tokenizer of type {}: add them manually",
                     files.type);
}

}  // namespace trireme
