// Puts the parts of a tokenizer.json together.
#include "tokenizer/huggingface/tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/fingerprint.h"
#include "tokenizer/huggingface/companions.h"
#include "tokenizer/huggingface/decoder.h"
#include "tokenizer/huggingface/model.h"
#include "tokenizer/huggingface/normalizer.h"
#include "tokenizer/huggingface/pre_tokenizer.h"
#include "tokenizer/huggingface/template.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;

// A key that may be absent as well as null.
JsonPlace part(const JsonPlace& root, const std::string& key) {
  static const nlohmann::json kNull;
  return root.has(key) ? root.at(key) : JsonPlace(kNull, root.file());
}

std::vector<PlacedToken> read_added_tokens(const JsonPlace& place) {
  std::vector<PlacedToken> tokens;
  if (place.is_null()) return tokens;
  for (std::size_t i = 0; i < place.size(); ++i)
    tokens.push_back(read_added_token(place.at(i), place.at(i).at("id").id()));
  return tokens;
}

// The added tokens of the file and of those next to it, as transformers puts them together.
std::vector<PlacedToken> join_added_tokens(const JsonPlace& root,
                                           const TokenizerCompanions& companions) {
  std::vector<PlacedToken> tokens = read_added_tokens(part(root, "added_tokens"));
  std::unordered_map<std::string, std::size_t> place_of;
  for (std::size_t i = 0; i < tokens.size(); ++i) place_of.emplace(tokens[i].token.content, i);
  const auto join = [&](const PlacedToken& one, bool replaces) {
    const auto [at, is_new] = place_of.emplace(one.token.content, tokens.size());
    if (is_new && !one.doubt.empty()) {
      one.place.refuse(fmt::format(
          "names the token '{}', which {} does not have as an added token, and {}: save both files "
          "with save_pretrained(), or remove the name",
          one.token.content, root.name(), one.doubt));
    }
    if (is_new) return tokens.push_back(one);
    PlacedToken& known = tokens[at->second];
    if (one.token.id >= 0 && one.token.id != known.token.id) {
      one.place.refuse(fmt::format("gives '{}' the id {}, but {} gives it {}", one.token.content,
                                   one.token.id, known.place.name(), known.token.id));
    }
    if (replaces) known.token = one.token;
  };
  for (const PlacedToken& one : companions.listed()) join(one, true);
  for (const PlacedToken& one : companions.older()) join(one, false);
  for (const PlacedToken& one : companions.special()) join(one, false);
  const JsonPlace padding = part(root, "padding");
  if (!companions.special("pad_token") && padding.has("pad_token"))
    join(read_special_token(padding.at("pad_token")), false);
  return tokens;
}

// Settings of tokenizer_config.json that some versions of transformers, or some of its classes, put
// in the place of those in tokenizer.json.
void refuse_contradictions(const JsonPlace& root, const JsonPlace& config) {
  const auto compare = [&](const JsonPlace& place, const char* ours, const char* theirs,
                           bool absent) {
    if (config.flag_or(theirs, absent) == place.flag_or(ours, absent)) return;
    config.at(theirs).refuse(fmt::format(
        "is {}, but {} has {} = {}, and programs differ in which of the two they use: "
        "make them equal",
        config.at(theirs).value().dump(), place.name(), ours, place.flag_or(ours, absent)));
  };
  const auto names = [&](const char* key) { return !config.is_null() && config.has(key); };
  const JsonPlace splitter = part(root, "pre_tokenizer"), normalizer = part(root, "normalizer");
  if (splitter.text_or("type", "") == "ByteLevel" && names("add_prefix_space"))
    compare(splitter, "add_prefix_space", "add_prefix_space", true);
  if (normalizer.text_or("type", "") != "BertNormalizer") return;
  if (names("do_lower_case")) compare(normalizer, "lowercase", "do_lower_case", true);
  if (names("tokenize_chinese_chars"))
    compare(normalizer, "handle_chinese_chars", "tokenize_chinese_chars", true);
  // null: as for the case of letters.
  if (!config.is_null() && config.value().contains("strip_accents"))
    compare(normalizer, "strip_accents", "strip_accents", normalizer.flag_or("lowercase", true));
}

// Form in which pieces of text reach the model.
enum class Form {
  characters,
  spelled,  // as the spelling of their bytes, in characters
  bytes     // as bytes: the same ids as `spelled`, faster
};

Form form_of(const JsonPlace& root) {
  if (spells_bytes(part(root, "normalizer"))) return Form::spelled;
  switch (place_of_byte_level(part(root, "pre_tokenizer"))) {
    case ByteLevelPlace::nowhere:
      return Form::characters;
    case ByteLevelPlace::earlier:
      return Form::spelled;
    case ByteLevelPlace::last:
      break;
  }
  return can_work_on_bytes(root.at("model")) ? Form::bytes : Form::spelled;
}

class HfTokenizer : public Tokenizer {
 public:
  HfTokenizer(const JsonPlace& root, const TokenizerCompanions& companions, bool special_text)
      : form_(form_of(root)),
        normalizer_(make_normalizer(part(root, "normalizer"))),
        pre_tokenizer_(make_pre_tokenizer(part(root, "pre_tokenizer"), form_ == Form::spelled)),
        model_(make_hf_model(root.at("model"), form_ == Form::bytes)),
        decoder_(make_decoder(part(root, "decoder"), form_ == Form::bytes)),
        template_(part(root, "post_processor")) {
    const JsonPlace pre_tokenizer = part(root, "pre_tokenizer");
    if (form_ == Form::bytes) {
      known_split_ = known_split(pre_tokenizer);
      if (!known_split_) cuts_ = isolating_cuts(pre_tokenizer);
    }
    rewrites_ = place_of_byte_level(pre_tokenizer) != ByteLevelPlace::nowhere;
    if (normalizer_ && normalizer_->mixes_characters() &&
        cuts_before_first_metaspace(pre_tokenizer)) {
      pre_tokenizer.refuse(
          "has a Metaspace with prepend_scheme 'first' after another part, which is not supported "
          "after a normalizer that composes or decomposes characters");
    }
    std::vector<PlacedToken> tokens = join_added_tokens(root, companions);
    has_older_ = std::ranges::any_of(
        tokens, [&](const PlacedToken& one) { return companions.is_older(one.place); });
    take_added_tokens(std::move(tokens), special_text);
    special_.unk = model_->unknown();
  }

  // Whether some token stands only in the older files next to the tokenizer.json.
  bool has_token_of_older_files() const { return has_older_; }
  bool adds(std::int32_t id) const { return added_by_id_.at(static_cast<std::size_t>(id)) >= 0; }
  void set_special(const SpecialIds& ids) { special_ = ids; }
  void set_fingerprint(std::uint64_t fingerprint) { fingerprint_ = fingerprint; }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    std::string valid;
    if ((!known_split_ || normalizer_) && !is_valid_utf8(text)) {
      valid = to_valid_utf8(text);
      text = valid;
    }
    raw_.cut(
        text,
        [&](std::string_view stretch) { encode_raw(stretch, stretch.data() == text.data(), ids); },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  void encode_document(std::string_view text, std::vector<std::int32_t>& ids) const override {
    const Encoding encoding = encode_with_special(text, {});
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
  }

  void encode_prompt(std::string_view text, std::vector<std::int32_t>& ids) const override {
    const std::vector<std::int32_t> opening = template_.before_text();
    ids.insert(ids.end(), opening.begin(), opening.end());
    encode(text, ids);
  }

  Encoding encode_with_special(std::string_view text,
                               std::optional<std::string_view> pair) const override {
    return template_.apply(
        text, pair,
        [this](std::string_view one, std::vector<std::int32_t>& ids) { encode(one, ids); });
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::vector<std::string> tokens;
    for (const std::int32_t id : ids) {
      std::string token = token_text(id);
      if (!skip_special || !is_special_[static_cast<std::size_t>(id)]) {
        tokens.push_back(std::move(token));
      }
    }
    decoder_->apply(tokens);
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  }

  std::string token_bytes(std::int32_t id) const override {
    const std::string token = token_text(id);
    return form_ == Form::spelled ? unspell_bytes(token).value_or(token) : token;
  }

  std::int32_t token_id(std::string_view bytes) const override {
    for (const AddedToken& token : all_added_) {
      if (token.content == bytes) return token.id;
    }
    return model_->vocabulary().find(form_ == Form::spelled ? spell_bytes(bytes) : bytes);
  }

 private:
  // Added tokens that are not normalized are searched in the raw text, the others after them in the
  // normalized stretches between.
  void take_added_tokens(std::vector<PlacedToken> tokens, bool special_text) {
    std::vector<AddedToken> raw, normalized;
    std::set<std::string> forms;
    vocab_size_ = model_->vocabulary().size();
    check_ids(tokens);
    for (const auto& [token, place, doubt] : tokens) {
      vocab_size_ = std::max(vocab_size_, token.id + 1);
      (token.normalized ? normalized : raw).push_back(token);
      if (!token.normalized || !normalizer_) continue;
      HfText form{.text = token.content};
      normalizer_->apply(form);
      if (form.text.empty() || !forms.insert(form.text).second) {
        place.refuse(fmt::format("has the content '{}', of which the normalizer makes {}",
                                 token.content,
                                 form.text.empty() ? "nothing" : "another token's form"));
      }
      normalized.back().content = form.text;
    }
    added_by_id_.assign(static_cast<std::size_t>(vocab_size_), -1);
    is_special_.assign(static_cast<std::size_t>(vocab_size_), false);
    for (const auto& [token, place, doubt] : tokens) {
      const auto id = static_cast<std::size_t>(token.id);
      added_by_id_[id] = static_cast<std::int32_t>(all_added_.size());
      is_special_[id] = token.special;
      all_added_.push_back(token);
    }
    raw_ = AddedTokens(std::move(raw), special_text);
    normalized_ = AddedTokens(std::move(normalized), special_text);
  }

  // The reference gives an added token the id that the vocabulary has for it, or the next one that
  // is free, whatever the file says.
  void check_ids(std::vector<PlacedToken>& tokens) const {
    const std::size_t limit =
        most_ids(tokens.size() + static_cast<std::size_t>(model_->vocabulary().count()));
    std::unordered_map<std::int32_t, std::string> content_of_id;
    std::set<std::string> contents;
    std::int32_t next = model_->vocabulary().count();
    for (auto& [token, place, doubt] : tokens) {
      const std::string& content = token.content;
      if (content.empty()) place.refuse("has an empty content");
      const std::int32_t known = model_->id_of_spelling(content);
      if (token.id < 0) token.id = known >= 0 ? known : next;
      const std::int32_t id = token.id;
      if (static_cast<std::size_t>(id) >= limit) {
        place.refuse(
            fmt::format("gives '{}' the id {}, too large for the number of tokens", content, id));
      }
      const auto [first, is_new] = content_of_id.emplace(id, content);
      if (!is_new)
        place.refuse(fmt::format("gives '{}' the id {} of '{}'", content, id, first->second));
      if (!contents.insert(content).second)
        place.refuse(fmt::format("repeats the content '{}'", content));
      if (known >= 0 && known != id) {
        place.refuse(fmt::format("gives '{}' the id {}, but the vocabulary gives it {}", content,
                                 id, known));
      }
      if (known >= 0) continue;
      if (id != next) {
        place.refuse(
            fmt::format("gives '{}' the id {}, but the next free one, which Hugging Face's library "
                        "takes, is {}",
                        content, id, next));
      }
      ++next;
    }
  }

  // The token as the decoder takes it. A byte-level decoder reads every token in the alphabet of
  // bytes, added ones too.
  std::string token_text(std::int32_t id) const {
    check_id(id);
    if (const AddedToken* token = added_token(id)) {
      return form_ == Form::bytes ? unspell_bytes(token->content).value_or(token->content)
                                  : token->content;
    }
    if (!model_->vocabulary().has(id)) {
      fail_input("token id {} is not assigned in the vocabulary", id);
    }
    return std::string(model_->vocabulary().bytes(id));
  }

  const AddedToken* added_token(std::int32_t id) const {
    const std::int32_t index = added_by_id_[static_cast<std::size_t>(id)];
    return index < 0 ? nullptr : &all_added_[static_cast<std::size_t>(index)];
  }

  // A stretch of the text between raw added tokens; `first`: the text begins with it.
  void encode_raw(std::string_view text, bool first, std::vector<std::int32_t>& ids) const {
    HfText normal;
    normal.from_first =
        first && !text.empty() ? decode_utf8(text.data(), text.data() + text.size()).length : 0;
    if (normalizer_) {
      normal.text = text;
      normalizer_->apply(normal);
      if (rewrites_) check_can_rewrite(normal);
      text = normal.text;
    }
    normalized_.cut(
        text,
        [&](std::string_view stretch) {
          const auto at = static_cast<std::size_t>(stretch.data() - text.data());
          encode_normal(stretch, from_first_after(at, normal.from_first), ids);
        },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  void encode_normal(std::string_view text, std::size_t from_first,
                     std::vector<std::int32_t>& ids) const {
    if (known_split_) return model_->byte_bpe()->encode(*known_split_, text, ids);
    if (text.empty()) return;
    if (!cuts_.empty()) return model_->byte_bpe()->encode(cuts_, text, ids);
    if (!pre_tokenizer_) return model_->encode(text, ids);
    pre_tokenizer_->cut(text, from_first, [&](std::string_view piece, std::size_t) {
      if (!piece.empty()) model_->encode(piece, ids);
    });
  }

  Form form_;
  bool has_older_ = false;
  bool rewrites_ = false;  // the pre-tokenizer has a ByteLevel
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<HfModel> model_;
  std::unique_ptr<Decoder> decoder_;
  PairTemplate template_;
  // Fast paths for byte-level BPE, instead of pre_tokenizer_.
  std::optional<SplitPattern> known_split_;
  std::vector<Regex> cuts_;  // in valid UTF-8
  std::vector<AddedToken> all_added_;
  AddedTokens raw_;
  AddedTokens normalized_;
  std::vector<std::int32_t> added_by_id_;  // index into all_added_, -1: an ordinary token
  std::vector<bool> is_special_;
};

// "eos_token" is a string or {"content": ...}; absent or null: the first usual spelling that
// exists.
std::int32_t special_id(const Tokenizer& tokenizer, const TokenizerCompanions& companions,
                        const std::string& key, std::initializer_list<std::string_view> usual) {
  if (const auto name = companions.special(key))
    return tokenizer.token_id(name->is_text() ? name->text() : name->at("content").text());
  if (!companions.config().is_null()) return -1;
  for (const std::string_view name : usual) {
    if (const std::int32_t id = tokenizer.token_id(name); id >= 0) return id;
  }
  return -1;
}

SpecialIds special_ids(const Tokenizer& tokenizer, const TokenizerCompanions& companions) {
  const auto id = [&](const std::string& key, std::initializer_list<std::string_view> usual) {
    return special_id(tokenizer, companions, key, usual);
  };
  SpecialIds ids;
  ids.eos = id("eos_token", {"<|end_of_text|>", "</s>", "<|endoftext|>", "[SEP]"});
  ids.bos = id("bos_token", {"<|begin_of_text|>", "<s>", "<|endoftext|>", "[CLS]"});
  ids.pad = id("pad_token", {"[PAD]", "<pad>"});
  ids.unk = id("unk_token", {"[UNK]", "<unk>"});
  ids.cls = id("cls_token", {"[CLS]"});
  ids.sep = id("sep_token", {"[SEP]"});
  ids.mask = id("mask_token", {"[MASK]", "<mask>"});
  if (ids.unk < 0) ids.unk = tokenizer.special().unk;
  // A tokenizer with [SEP] and no EOS, such as BERT's, ends documents with [SEP].
  if (ids.eos < 0) ids.eos = ids.sep;
  ids.eod = ids.eos;
  return ids;
}

}  // namespace

bool is_added_token(const Tokenizer& tokenizer, std::int32_t id) {
  const auto* hf = dynamic_cast<const HfTokenizer*>(&tokenizer);
  return hf && hf->adds(id);
}

std::unique_ptr<Tokenizer> load_hf(const std::string& model, bool special_text) {
  const std::string file = fs::is_directory(model) ? model + "/tokenizer.json" : model;
  const std::string content = read_file(file, kMaxFile);
  const auto root = parse_json_file(file, content);
  const JsonPlace place(*root, file);
  const TokenizerCompanions companions(fs::path(file).parent_path());
  const JsonPlace config = companions.config();
  refuse_contradictions(place, config);
  const bool split_special = !config.is_null() && config.flag_or("split_special_tokens", false);
  auto tokenizer = std::make_unique<HfTokenizer>(place, companions, special_text && !split_special);
  tokenizer->set_special(special_ids(*tokenizer, companions));
  Fingerprint fingerprint("hf");
  fingerprint.add(content).add(special_text);
  if (!config.is_null()) fingerprint.add(companions.config_content());
  if (tokenizer->has_token_of_older_files() || companions.older_files_name_eos())
    fingerprint.add(companions.older_contents());
  tokenizer->set_fingerprint(fingerprint.digest());
  return tokenizer;
}

}  // namespace trireme
