// BERT's normalization: ASCII by table, all else by Unicode's properties.
#include "tokenizer/wordpiece/bert_text.h"

#include <array>

namespace trireme {
namespace {

// The form of each ASCII character; 0: it is dropped.
std::array<char, 128> ascii_map(const BertNormalizer& normalizer) {
  std::array<char, 128> map;
  for (int i = 0; i < 128; ++i) {
    const char c = static_cast<char>(i);
    const bool space = c == '\t' || c == '\n' || c == '\r';
    const bool control = c < ' ' || c == 0x7F;
    const bool upper = c >= 'A' && c <= 'Z';
    map[static_cast<std::size_t>(i)] = normalizer.clean_text && space     ? ' '
                                       : normalizer.clean_text && control ? '\0'
                                       : normalizer.lowercase && upper ? static_cast<char>(c | 0x20)
                                                                       : c;
  }
  return map;
}

// Characters beyond ASCII are collected up to the next ASCII character, which no normal form joins
// with them, and then normalized together.
class Collector {
 public:
  Collector(const BertNormalizer& normalizer, std::string& out)
      : normalizer_(normalizer),
        unicode_(*normalizer.unicode),
        strip_(normalizer.strip_accents.value_or(normalizer.lowercase)),
        out_(out) {}

  void add(char32_t c) {
    if (normalizer_.clean_text) {
      if (is_white_space(c) && !unicode_.is_control(c)) {
        flush();
        out_.push_back(' ');
        return;
      }
      if (c == kReplacement || unicode_.is_control(c)) return;
    }
    const bool spaced = normalizer_.space_ideographs && unicode_.is_ideograph(c);
    if (spaced) pending_.push_back(' ');
    append_utf8(c, pending_);
    if (spaced) pending_.push_back(' ');
  }

  void flush() {
    if (pending_.empty()) return;
    if (strip_) {
      std::string decomposed;
      unicode_.append_normal_form(NormalForm::nfd, pending_, decomposed);
      pending_.swap(decomposed);
    }
    const char* end = pending_.data() + pending_.size();
    for (const char* p = pending_.data(); p < end;) {
      const DecodedChar c = decode_utf8(p, end);
      p += c.length;
      if (strip_ && unicode_.is_nonspacing_mark(c.value)) continue;
      if (normalizer_.lowercase) {
        unicode_.append_lower(c.value, out_);
      } else {
        append_utf8(c.value, out_);
      }
    }
    pending_.clear();
  }

 private:
  const BertNormalizer& normalizer_;
  const UnicodeRules& unicode_;
  bool strip_;
  std::string& out_;
  std::string pending_;
};

}  // namespace

std::string BertNormalizer::apply(std::string_view text) const {
  const std::array<char, 128> ascii = ascii_map(*this);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  Collector collector(*this, out);
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 0x80) {
      ++p;
      const char mapped = ascii[byte];
      if (mapped == '\0' && (clean_text || byte != 0)) continue;
      collector.flush();
      out.push_back(mapped);
    } else {
      const DecodedChar c = decode_utf8(p, end);
      p += c.length;
      collector.add(c.value);
    }
  }
  collector.flush();
  return out;
}

}  // namespace trireme
