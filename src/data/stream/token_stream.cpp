// Blocks to tokens.
#include "data/stream/token_stream.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

// Requests that come a little out of order, from threads of a loader, are served without going
// back.
constexpr std::int64_t requests_kept = 16;

std::uint64_t stream_key(const Corpus& corpus, const Tokenizer& tokenizer,
                         const WindowOptions& options) {
  constexpr std::uint64_t version = 1;  // of the order
  const std::uint64_t numbers[] = {version, corpus.key(), tokenizer.fingerprint(), options.seed,
                                   static_cast<std::uint64_t>(options.shuffle_buffer)};
  return hash64(numbers, sizeof(numbers));
}

fs::path places_file(const fs::path& folder, std::uint64_t key) {
  return folder.empty() ? fs::path() : folder / (hash_to_text(key) + ".txt");
}

}  // namespace

TokenStream::TokenStream(std::shared_ptr<const Corpus> corpus,
                         std::shared_ptr<const Tokenizer> tokenizer, const StreamOptions& options)
    : corpus_(std::move(corpus)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      key_(stream_key(*corpus_, *tokenizer_, options.window)),
      places_(places_file(options.places, key_), key_, options.writes) {
  if (tokenizer_->eod_id() < 0) {
    fail_input(
        "data.sources: the tokenizer has no end-of-document token, which is required to separate "
        "documents in training");
  }
}

void TokenStream::read(std::int64_t first, std::int64_t count, std::int32_t* out) {
  const std::lock_guard lock(mutex_);
  hold(first, count);
  for (const Held& held : held_) {
    const std::int64_t from = std::max(first, held.first), to = std::min(first + count, held.end());
    if (from < to) {
      std::copy_n(held.block.tokens.data() + (from - held.first), to - from, out + (from - first));
    }
  }
}

std::vector<TokenStream::Part> TokenStream::parts(std::int64_t first, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  hold(first, count);
  std::vector<Part> parts;
  for (const Held& held : held_) {
    std::int64_t at = held.first;
    for (const TokenBlock::Document& document : held.block.documents) {
      const std::int64_t from = std::max(first, at),
                         to = std::min(first + count, at + document.tokens);
      if (from < to) parts.push_back({document.unit, document.row, from - at, to - at - 1});
      at += document.tokens;
    }
  }
  return parts;
}

void TokenStream::hold(std::int64_t first, std::int64_t count) {
  const bool behind = held_.empty() || first < held_.front().first;
  if (!producer_ || behind || places_.before(first).tokens > end_) go_to(first);
  while (end_ < first + count) {
    take_block();
    while (held_.size() > 1 && held_.front().end() <= first - requests_kept * count) {
      held_.pop_front();
    }
  }
}

void TokenStream::go_to(std::int64_t token) {
  const StreamPlaces::Place place = places_.before(token);
  producer_.reset();
  held_.clear();
  end_ = place.tokens;
  epoch_ = epoch_of_tokens_ = place.window.epoch;
  producer_ = std::make_unique<BlockProducer>(*corpus_, *tokenizer_, options_.window, place.window,
                                              options_.threads);
}

void TokenStream::take_block() {
  TokenBlock block = producer_->next();
  if (block.window) {
    epoch_ = block.window->epoch;
    // Keys missing in an epoch are missing in all.
    if (epoch_ > epoch_of_tokens_ + 1) {
      fail_input("'{}' and the other files of its source contain no tokens", corpus_->file_of(0));
    }
    places_.add({end_, *block.window});
  }
  if (!block.tokens.empty()) epoch_of_tokens_ = epoch_;
  held_.push_back({end_, std::move(block)});
  end_ = held_.back().end();
}

}  // namespace trireme
