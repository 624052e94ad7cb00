// Names of tokenizers, and what all of them share.
#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "tokenizer/bpe/byte_level.h"
#include "tokenizer/huggingface/tokenizer.h"
#include "tokenizer/null_tokenizer.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/wordpiece/bert.h"

namespace trireme {
namespace {

using Config = TokenizerConfig;

// A file that a tokenizer is made from: by its flag and by its key in a configuration.
struct FileFlag {
  std::string_view flag, key;
  std::string Config::*file;
};
constexpr FileFlag kVocabFile{"--vocab-file", "data.vocab_file", &Config::vocab_file};
constexpr FileFlag kMergeFile{"--merge-file", "data.merge_file", &Config::merge_file};
constexpr FileFlag kModelFile{"--tokenizer-model", "data.tokenizer_model", &Config::model_file};

void need(const Config& config, const FileFlag& which) {
  if ((config.*which.file).empty())
    fail_input("the tokenizer '{}' needs {} ({})", config.type, which.flag, which.key);
}

const std::string& existing(const Config& config, const FileFlag& which) {
  need(config, which);
  const std::string& file = config.*which.file;
  if (fs::exists(file)) return file;
  // Whether it looks like the name of a model on a hub: "gpt2", "org/model".
  const bool name = which.file == &Config::model_file && !fs::path(file).has_extension();
  fail_input("{} ({}): '{}' does not exist{}", which.flag, which.key, file,
             name ? "; models are not downloaded: give the file, tokenizer.json for hf, or the "
                    "folder that holds it"
                  : "");
}

const std::string& vocab(const Config& c) {
  return existing(c, kVocabFile);
}
const std::string& model(const Config& c) {
  return existing(c, kModelFile);
}

using Made = std::unique_ptr<Tokenizer>;

struct Maker {
  std::string_view name;
  Made (*make)(const Config&);
};

Made make_gpt2(const Config& c) {
  // A folder as `tokenizer train` writes it means both of its files.
  if (c.vocab_file.empty() && c.merge_file.empty() && !c.model_file.empty()) {
    const std::string& folder = model(c);
    return load_gpt2(folder + "/vocab.json", folder + "/merges.txt", c.special_text);
  }
  need(c, kVocabFile);
  need(c, kMergeFile);
  return load_gpt2(vocab(c), existing(c, kMergeFile), c.special_text);
}
Made make_tiktoken(const Config& c) {
  return load_tiktoken(model(c), c.pattern, c.special_text);
}
Made make_bert(const Config& c) {
  return load_bert(vocab(c), true, c.special_text);
}
Made make_bert_cased(const Config& c) {
  return load_bert(vocab(c), false, c.special_text);
}
Made make_hf(const Config& c) {
  return load_hf(model(c), c.special_text);
}
Made make_sentencepiece(const Config& c) {
  return load_sentencepiece(model(c), SentencePieceStyle::plain, c.special_text);
}
Made make_llama2(const Config& c) {
  return load_sentencepiece(model(c), SentencePieceStyle::llama2, c.special_text);
}
Made make_megatron_sentencepiece(const Config& c) {
  return load_sentencepiece(model(c), SentencePieceStyle::megatron, c.special_text);
}
Made make_null(const Config& c) {
  return std::make_unique<NullTokenizer>(c.vocab_size);
}

constexpr Maker kMakers[] = {
    {"gpt2", make_gpt2},
    {"tiktoken", make_tiktoken},
    {"hf", make_hf},
    {"bert", make_bert},
    {"bert_cased", make_bert_cased},
    {"sentencepiece", make_sentencepiece},
    {"llama2", make_llama2},
    {"null", make_null},
    {"GPT2BPETokenizer", make_gpt2},
    {"TikTokenizer", make_tiktoken},
    {"BertWordPieceLowerCase", make_bert},
    {"BertWordPieceCase", make_bert_cased},
    {"HuggingFaceTokenizer", make_hf},
    {"GPTSentencePieceTokenizer", make_sentencepiece},
    {"Llama2Tokenizer", make_llama2},
    {"SentencePieceTokenizer", make_megatron_sentencepiece},
    {"NullTokenizer", make_null},
};

// Names in other programs by what they contain, in lower case, and the type and file that do the
// same here. A class of a tokenizer, or a name on the Hub, is one of transformers unless an earlier
// row says otherwise.
struct ForeignName {
  std::string_view part, ours, file;
};
constexpr ForeignName kForeignNames[] = {
    {"sentencepiece", "sentencepiece", "its .model file"},
    {"spm", "sentencepiece", "its .model file"},
    {"tiktoken", "tiktoken", "its file of ranks"},
    {"llama2", "llama2", "tokenizer.model"},
    {"hf", "hf", "tokenizer.json or its folder"},
    {"huggingface", "hf", "tokenizer.json or its folder"},
    {"pretrained", "hf", "tokenizer.json or its folder"},
    {"tokenizer", "hf", "tokenizer.json or its folder"},
    {"/", "hf", "tokenizer.json or its folder"},
};

const ForeignName* find_foreign_name(std::string type) {
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find_if(
      kForeignNames, [&](const ForeignName& name) { return type.find(name.part) != type.npos; });
  return found == std::end(kForeignNames) ? nullptr : found;
}

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kMakers)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kMakers[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> tokenizer_type_names() {
  return kNames;
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config) {
  for (const Maker& maker : kMakers) {
    if (maker.name != config.type) continue;
    if (!config.pattern.empty() && maker.make != make_tiktoken) {
      fail_input(
          "--tokenizer-pattern (data.tokenizer_pattern) applies only to tiktoken files, not to {}",
          config.type);
    }
    return maker.make(config);
  }
  if (const ForeignName* name = find_foreign_name(config.type)) {
    fail_input(
        "'{}' is not a tokenizer type of Trireme: use --tokenizer-type {} with --tokenizer-model "
        "and {}; models are not downloaded",
        config.type, name->ours, name->file);
  }
  fail_input("'{}' is not a tokenizer type: use one of {}", config.type, fmt::join(kNames, ", "));
}

void Tokenizer::check_id(std::int32_t id) const {
  if (id < 0 || id >= vocab_size_) {
    fail_input("token id {} is outside the vocabulary of {}", id, counted(vocab_size_, "token"));
  }
}

Encoding Tokenizer::encode_with_special(std::string_view text,
                                        std::optional<std::string_view> pair) const {
  Encoding out;
  encode(text, out.ids);
  out.type_ids.assign(out.ids.size(), 0);
  if (pair) encode(*pair, out.ids);
  out.type_ids.resize(out.ids.size(), 1);
  return out;
}

}  // namespace trireme
