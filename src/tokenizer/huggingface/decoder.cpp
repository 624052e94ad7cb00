// Each decoder of a tokenizer.json as a small class.
#include "tokenizer/huggingface/decoder.h"

#include <fmt/format.h>

#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/huggingface/pattern.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece/wordpiece.h"

namespace trireme {
namespace {

using Made = std::unique_ptr<Decoder>;
using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

class Sequence : public Decoder {
 public:
  Sequence(const JsonPlace& place, bool byte_level) {
    const JsonPlace parts = place.at("decoders");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts_.push_back(make_decoder(parts.at(i), byte_level));
    }
  }
  void apply(Tokens& tokens) const override {
    for (const Made& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<Made> parts_;
};

class JoinWithSpaces : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
  }
};

class Fuse : public Decoder {
 public:
  void apply(Tokens& tokens) const override { tokens = {joined(tokens)}; }
};

class ByteLevel : public Decoder {
 public:
  explicit ByteLevel(bool spelled) : spelled_(spelled) {}
  void apply(Tokens& tokens) const override {
    if (spelled_) {
      for (std::string& token : tokens) token = unspell_bytes(token).value_or(token);
    }
    tokens = {joined(tokens)};
  }

 private:
  bool spelled_;
};

// Tokens <0x00> .. <0xFF> in a row are the bytes of characters; where they are not, each becomes
// one replacement character.
class ByteFallback : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (is_valid_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        for (std::size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens.swap(out);
  }

 private:
  static int byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    int value = 0;
    for (const char c : {token[3], token[4]}) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    return value;
  }
};

class Replace : public Decoder {
 public:
  explicit Replace(const JsonPlace& place)
      : pattern_(place.at("pattern")), content_(place.at("content").text()) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      HfText text{.text = std::move(token)};
      pattern_.replace(text, content_);
      token = std::move(text.text);
    }
  }

 private:
  HfPattern pattern_;
  std::string content_;
};

// Takes up to `start` and `stop` occurrences of one character from the ends of each token.
class Strip : public Decoder {
 public:
  explicit Strip(const JsonPlace& place)
      : content_(place.text_or("content", " ")),
        start_(place.count_or("start", 0)),
        stop_(place.count_or("stop", 0)) {
    if (content_.empty()) place.refuse("has an empty content");
  }
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::uint64_t i = 0; i < start_ && rest.starts_with(content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (std::uint64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  std::uint64_t start_;
  std::uint64_t stop_;
};

// The tokens of words that end in a suffix.
class BpeWords : public Decoder {
 public:
  explicit BpeWords(const JsonPlace& place) : suffix_(place.text_or("suffix", "</w>")) {
    if (suffix_.empty()) place.refuse("has an empty suffix");
  }
  void apply(Tokens& tokens) const override {
    const HfPattern suffix = HfPattern::literal(suffix_);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      HfText text{.text = std::move(tokens[i])};
      suffix.replace(text, i + 1 < tokens.size() ? " " : "");
      tokens[i] = std::move(text.text);
    }
  }

 private:
  std::string suffix_;
};

class Metaspace : public Decoder {
 public:
  explicit Metaspace(const JsonPlace& place)
      : mark_(place.text_or("replacement", "\u2581")),
        prepends_(place.text_or("prepend_scheme",
                                place.flag_or("add_prefix_space", true) ? "always" : "never") !=
                  "never") {
    if (mark_.empty()) place.refuse("has an empty replacement");
  }
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      // Marks in the first token are the space that encoding prepended.
      const std::string_view space = i == 0 && prepends_ ? "" : " ";
      std::string out;
      std::string_view rest = tokens[i];
      while (!rest.empty()) {
        if (rest.starts_with(mark_)) {
          out += space;
          rest.remove_prefix(mark_.size());
        } else {
          out.push_back(rest.front());
          rest.remove_prefix(1);
        }
      }
      tokens[i].swap(out);
    }
  }

 private:
  std::string mark_;
  bool prepends_;
};

class WordPieces : public Decoder {
 public:
  explicit WordPieces(const JsonPlace& place)
      : prefix_(place.text_or("prefix", "##")), clean_up_(place.flag_or("cleanup", true)) {}
  void apply(Tokens& tokens) const override {
    tokens = {join_wordpieces(tokens, prefix_, clean_up_)};
  }

 private:
  std::string prefix_;
  bool clean_up_;
};

}  // namespace

Made make_decoder(const JsonPlace& place, bool byte_level) {
  if (place.is_null()) return std::make_unique<JoinWithSpaces>();
  const std::string& type = place.at("type").text();
  if (type == "Sequence") return std::make_unique<Sequence>(place, byte_level);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(!byte_level);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Metaspace") return std::make_unique<Metaspace>(place);
  if (type == "Replace") return std::make_unique<Replace>(place);
  if (type == "Strip") return std::make_unique<Strip>(place);
  if (type == "BPEDecoder") return std::make_unique<BpeWords>(place);
  if (type == "WordPiece") return std::make_unique<WordPieces>(place);
  place.refuse(
      fmt::format("is of type '{}', which is not supported; supported are Sequence, ByteLevel, "
                  "ByteFallback, Fuse, Metaspace, Replace, Strip, BPEDecoder and WordPiece",
                  type));
}

}  // namespace trireme
