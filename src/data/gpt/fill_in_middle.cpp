// Cutting and reordering of documents.
#include "data/gpt/fill_in_middle.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using Ids = std::vector<std::int32_t>;

// The numbers of one sample, one after the other.
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t sample)
      : seed_(seed), sample_(static_cast<std::uint64_t>(sample)) {}
  double next() { return uniform(seed_, sample_, drawn_++); }

 private:
  std::uint64_t seed_, sample_, drawn_ = 0;
};

// The byte where character number `n` of `text` begins.
std::size_t byte_of_character(std::string_view text, std::size_t n) {
  std::size_t at = 0;
  while (n-- > 0) at += decode_utf8(text.data() + at, text.data() + text.size()).length;
  return at;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    at += decode_utf8(text.data() + at, text.data() + text.size()).length;
  }
  return count;
}

void rewrite(std::span<const std::int32_t> document, const Tokenizer& tokenizer,
             const FillInMiddleOptions& options, Draws& draws, Ids& out) {
  const std::string decoded = tokenizer.decode(document, true);
  const std::string_view text = decoded;
  const auto places = static_cast<double>(count_characters(text) + 1);
  auto first = static_cast<std::size_t>(draws.next() * places);
  auto second = static_cast<std::size_t>(draws.next() * places);
  if (first > second) std::swap(first, second);
  const std::size_t begin = byte_of_character(text, first);
  const std::size_t end = begin + byte_of_character(text.substr(begin), second - first);
  const bool suffix_first = draws.next() < options.spm_rate;
  out.push_back(options.prefix_id);
  if (!suffix_first) tokenizer.encode(text.substr(0, begin), out);
  out.push_back(options.suffix_id);
  tokenizer.encode(text.substr(end), out);
  out.push_back(options.middle_id);
  if (suffix_first) tokenizer.encode(text.substr(0, begin), out);
  tokenizer.encode(text.substr(begin, end - begin), out);
}

}  // namespace

FillInMiddle::FillInMiddle(const FillInMiddleOptions& options,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : options_(options), tokenizer_(std::move(tokenizer)) {
  for (const double rate : {options.rate, options.spm_rate}) {
    if (!(rate >= 0 && rate <= 1))
      fail_input("fill in the middle: the rate {} is not in [0, 1]", rate);
  }
  for (const std::int32_t id : {options.prefix_id, options.middle_id, options.suffix_id}) {
    if (id < 0 || id >= tokenizer_->vocab_size()) {
      fail_input(
          "fill in the middle: the vocabulary of {} ids has no token {}: set the tokens for "
          "prefix, middle and suffix",
          tokenizer_->vocab_size(), id);
    }
  }
  if (tokenizer_->eod_id() < 0) {
    fail_input("fill in the middle requires a tokenizer with an end-of-document token");
  }
}

std::int64_t FillInMiddle::apply(std::uint64_t seed, std::int64_t sample, Ids& tokens) const {
  Draws draws(seed, sample);
  const std::int32_t eod = tokenizer_->eod_id();
  const std::size_t length = tokens.size();
  Ids out;
  for (auto begin = tokens.begin(); begin != tokens.end();) {
    const auto end = std::find(begin, tokens.end(), eod);
    const std::span<const std::int32_t> document(begin, end);
    if (!document.empty() && draws.next() < options_.rate) {
      rewrite(document, *tokenizer_, options_, draws, out);
    } else {
      out.insert(out.end(), begin, end);
    }
    if (end != tokens.end()) out.push_back(eod);
    begin = end == tokens.end() ? end : end + 1;
  }
  const std::size_t filled = std::min(out.size(), length);
  out.resize(length, eod);
  tokens = std::move(out);
  return static_cast<std::int64_t>(filled);
}

}  // namespace trireme
