// Patterns: literal, regular, or by character.
#include "tokenizer/huggingface/pattern.h"

#include "tokenizer/utf8.h"

namespace trireme {

HfPattern::HfPattern(const JsonPlace& place) {
  if (place.has("String")) {
    literal_ = place.at("String").text();
    // The reference reads a string as a regular expression, and the empty one matches everywhere.
    if (literal_.empty()) regex_.emplace("", place.name());
  } else if (place.has("Regex")) {
    regex_.emplace(place.at("Regex").text(), place.name());
  } else {
    place.refuse("is neither {\"String\": ...} nor {\"Regex\": ...}");
  }
}

HfPattern HfPattern::literal(std::string text) {
  HfPattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

void HfPattern::for_each_match(std::string_view text, const Regex::OnMatch& on_match) const {
  if (regex_) return regex_->for_each_match(text, on_match);
  if (character_) {
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const DecodedChar c = decode_utf8(p, end);
      const auto at = static_cast<std::size_t>(p - text.data());
      if (character_(c.value)) on_match(at, at + c.length);
      p += c.length;
    }
    return;
  }
  for (std::size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    on_match(at, at + literal_.size());
  }
}

void HfPattern::cut(std::string_view text,
                    const std::function<void(std::size_t, std::size_t, bool)>& emit) const {
  if (text.empty()) return;
  std::size_t done = 0;
  for_each_match(text, [&](std::size_t begin, std::size_t end) {
    if (done < begin) emit(done, begin, false);
    emit(begin, end, true);
    done = end;
  });
  if (done < text.size()) emit(done, text.size(), false);
}

void HfPattern::replace(HfText& text, std::string_view content) const {
  HfText out;
  out.inserted_first = text.inserted_first;
  cut(text.text, [&](std::size_t begin, std::size_t end, bool matches) {
    const std::string_view part = std::string_view(text.text).substr(begin, end - begin);
    out.text += matches ? content : part;
    // The content counts as made of the last character that it replaces.
    if (!matches) {
      out.from_first += std::min(from_first_after(begin, text.from_first), part.size());
    } else if (end == 0 || end <= text.from_first) {
      out.from_first += content.size();
    }
    if (matches && end == 0 && !content.empty()) out.inserted_first = true;
  });
  text = std::move(out);
}

}  // namespace trireme
