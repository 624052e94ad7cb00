// Patterns, literal or regular.
#include "tokenizer/hf_pattern.h"

#include "tokenizer/utf8.h"

namespace trireme {

HfPattern::HfPattern(const JsonPlace& place) {
  if (place.has("String")) {
    literal_ = place.at("String").text();
    if (literal_.empty()) place.refuse("is an empty string, which is found everywhere");
  } else if (place.has("Regex")) {
    regex_.emplace(place.at("Regex").text(), place.name());
  } else {
    place.refuse("is neither {\"String\": ...} nor {\"Regex\": ...}");
  }
}

std::optional<Regex::Match> HfPattern::find(std::string_view text, std::size_t from) const {
  if (!regex_) {
    const std::size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return std::nullopt;
    return Regex::Match{at, at + literal_.size()};
  }
  while (from <= text.size()) {
    const auto match = regex_->find(text, from);
    if (!match || match->end > match->begin) return match;
    if (match->end == text.size()) break;
    from = match->end + decode_utf8(text.data() + match->end, text.data() + text.size()).length;
  }
  return std::nullopt;
}

void HfPattern::cut(std::string_view text,
                    const std::function<void(std::size_t, std::size_t, bool)>& emit) const {
  std::size_t done = 0;
  while (const auto match = find(text, done)) {
    if (done < match->begin) emit(done, match->begin, false);
    emit(match->begin, match->end, true);
    done = match->end;
  }
  if (done < text.size()) emit(done, text.size(), false);
}

std::string HfPattern::replace(std::string_view text, std::string_view content) const {
  std::string out;
  cut(text, [&](std::size_t begin, std::size_t end, bool matches) {
    out += matches ? content : text.substr(begin, end - begin);
  });
  return out;
}

}  // namespace trireme
