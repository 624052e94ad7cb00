// A corpus's tokens as one endless stream, epoch after epoch.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "data/stream/block_producer.h"
#include "data/stream/stream_places.h"

namespace trireme {

struct StreamOptions {
  WindowOptions window;
  int threads = 1;      // that tokenise
  fs::path places;      // folder for StreamPlaces; empty: none are kept
  bool writes = false;  // the places, for the other processes of the run
};

// A pure function of corpus, tokenizer and window options: the tokens at a place depend on nothing
// else, and reading places in about their order does no work twice. All methods are thread-safe.
class TokenStream {
 public:
  // Throws bad_input for a tokenizer without an id that ends documents. No thread runs before the
  // first call of read().
  TokenStream(std::shared_ptr<const Corpus> corpus, std::shared_ptr<const Tokenizer> tokenizer,
              const StreamOptions& options);

  // Writes tokens [first, first + count) to `out`.
  void read(std::int64_t first, std::int64_t count, std::int32_t* out);

  // The documents of these tokens: of each the tokens [first, last] that are among them.
  struct Part {
    std::int64_t unit, row, first, last;
  };
  std::vector<Part> parts(std::int64_t first, std::int64_t count);

  const Corpus& corpus() const { return *corpus_; }
  std::uint64_t key() const { return key_; }

 private:
  struct Held {
    std::int64_t first;  // token of the stream
    TokenBlock block;
    std::int64_t end() const { return first + static_cast<std::int64_t>(block.tokens.size()); }
  };

  // Makes the blocks of these tokens be held.
  void hold(std::int64_t first, std::int64_t count);
  void go_to(std::int64_t token);
  void take_block();

  std::shared_ptr<const Corpus> corpus_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  StreamOptions options_;
  std::uint64_t key_;
  std::mutex mutex_;
  StreamPlaces places_;
  std::unique_ptr<BlockProducer> producer_;
  std::deque<Held> held_;
  std::int64_t end_ = 0;              // token behind the last block
  std::int64_t epoch_ = 0;            // of the last block
  std::int64_t epoch_of_tokens_ = 0;  // of the last block that had any
};

}  // namespace trireme
