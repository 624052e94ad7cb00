// Each normalizer of a tokenizer.json as a small class.
#include "tokenizer/huggingface/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/huggingface/pattern.h"
#include "tokenizer/huggingface/unicode.h"
#include "tokenizer/unicode.h"
#include "tokenizer/wordpiece/bert_text.h"

namespace trireme {
namespace {

using Made = std::unique_ptr<Normalizer>;

class Sequence : public Normalizer {
 public:
  explicit Sequence(const JsonPlace& place) {
    const JsonPlace parts = place.at("normalizers");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (Made part = make_normalizer(parts.at(i))) parts_.push_back(std::move(part));
    }
  }
  void apply(HfText& text) const override {
    for (const Made& part : parts_) part->apply(text);
  }
  bool mixes_characters() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const Made& part) { return part->mixes_characters(); });
  }

 private:
  std::vector<Made> parts_;
};

// A normalizer whose result for the start of a text does not depend on what follows, so that it can
// be tried on the start only.
class ByPart : public Normalizer {
 public:
  void apply(HfText& text) const final {
    check_can_rewrite(text);
    const std::string first = rewrite(std::string_view(text.text).substr(0, text.from_first));
    text.text = rewrite(text.text);
    text.from_first = std::min(first.size(), text.text.size());
    // The following text may have joined the last character of the start.
    while (text.from_first < text.text.size() && (text.text[text.from_first] & 0xC0) == 0x80) {
      ++text.from_first;
    }
  }

 private:
  virtual std::string rewrite(std::string_view text) const = 0;
};

class Bert : public ByPart {
 public:
  explicit Bert(const JsonPlace& place)
      : normalizer_{.clean_text = place.flag_or("clean_text", true),
                    .space_ideographs = place.flag_or("handle_chinese_chars", true),
                    .lowercase = place.flag_or("lowercase", true),
                    .unicode = &hf_unicode} {
    if (place.has("strip_accents")) {
      normalizer_.strip_accents = place.flag_or("strip_accents", false);
    }
  }

 private:
  std::string rewrite(std::string_view text) const override { return normalizer_.apply(text); }

  BertNormalizer normalizer_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(const JsonPlace& place) : what_(place.at("prepend").text()) {}
  void apply(HfText& text) const override {
    if (text.text.empty()) return;
    text.text.insert(0, what_);
    if (text.from_first > 0) text.from_first += what_.size();
  }

 private:
  std::string what_;
};

class Replace : public Normalizer {
 public:
  explicit Replace(const JsonPlace& place)
      : pattern_(place.at("pattern")), content_(place.at("content").text()) {}
  void apply(HfText& text) const override { pattern_.replace(text, content_); }

 private:
  HfPattern pattern_;
  std::string content_;
};

// Rewrites a text character by character.
class ByCharacter : public ByPart {
 public:
  using Rewrite = void (*)(char32_t, std::string&);
  explicit ByCharacter(Rewrite function) : rewrite_(function) {}

 private:
  std::string rewrite(std::string_view text) const override {
    std::string out;
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const DecodedChar c = decode_utf8(p, end);
      rewrite_(c.value, out);
      p += c.length;
    }
    return out;
  }

  Rewrite rewrite_;
};

class ByteLevel : public ByPart {
 private:
  std::string rewrite(std::string_view text) const override { return spell_bytes(text); }
};

void keep_unless_mark(char32_t c, std::string& out) {
  if (!is_hf_mark(c)) append_utf8(c, out);
}

class Strip : public Normalizer {
 public:
  explicit Strip(const JsonPlace& place)
      : left_(place.flag_or("strip_left", true)), right_(place.flag_or("strip_right", true)) {}
  void apply(HfText& what) const override {
    check_can_rewrite(what);
    std::string& text = what.text;
    std::size_t first = text.size(), last = 0;
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const DecodedChar c = decode_utf8(p, end);
      const auto at = static_cast<std::size_t>(p - text.data());
      if (!is_white_space(c.value)) {
        first = std::min(first, at);
        last = at + c.length;
      }
      p += c.length;
    }
    if (right_) text.resize(left_ ? std::max(first, last) : last);
    const std::size_t cut = left_ ? std::min(first, text.size()) : 0;
    text.erase(0, cut);
    what.from_first = std::min(from_first_after(cut, what.from_first), text.size());
  }

 private:
  bool left_;
  bool right_;
};

class Form : public ByPart {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  bool mixes_characters() const override { return true; }

 private:
  std::string rewrite(std::string_view text) const override {
    std::string out;
    hf_unicode.append_normal_form(form_, text, out);
    return out;
  }

  NormalForm form_;
};

}  // namespace

void check_can_rewrite(const HfText& text) {
  if (!text.inserted_first) return;
  fail_input(
      "the normalizer's Replace inserts something before the text, where its pattern matches "
      "nothing, and a later part rewrites it, which Hugging Face's library does wrongly; insert it "
      "with Prepend");
}

Made make_normalizer(const JsonPlace& place) {
  if (place.is_null()) return nullptr;
  const std::string& type = place.at("type").text();
  if (type == "Sequence") return std::make_unique<Sequence>(place);
  if (type == "BertNormalizer") return std::make_unique<Bert>(place);
  if (type == "Prepend") return std::make_unique<Prepend>(place);
  if (type == "Replace") return std::make_unique<Replace>(place);
  if (type == "Lowercase") return std::make_unique<ByCharacter>(hf_unicode.append_lower);
  if (type == "StripAccents") return std::make_unique<ByCharacter>(keep_unless_mark);
  if (type == "Strip") return std::make_unique<Strip>(place);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "NFC") return std::make_unique<Form>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<Form>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<Form>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<Form>(NormalForm::nfkd);
  place.refuse(
      fmt::format("is of type '{}', which is not supported; supported are Sequence, "
                  "BertNormalizer, Prepend, Replace, Lowercase, StripAccents, Strip, ByteLevel, "
                  "NFC, NFD, NFKC and NFKD",
                  type));
}

bool spells_bytes(const JsonPlace& place) {
  const std::string type = place.text_or("type", "");
  if (type != "Sequence") return type == "ByteLevel";
  const JsonPlace parts = place.at("normalizers");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (spells_bytes(parts.at(i))) return true;
  }
  return false;
}

}  // namespace trireme
