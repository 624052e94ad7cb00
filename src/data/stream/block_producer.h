// Produces tokens of a corpus ahead of time, on background threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/documents/window_reader.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Some documents of a window, one after the other, each with the id that ends it.
struct TokenBlock {
  struct Document {
    std::int64_t unit, row, tokens;
  };
  std::vector<std::int32_t> tokens;
  std::vector<Document> documents;
  std::optional<CorpusPlace> window;  // that begins with this block
};

// Blocks are in document order for any number of threads. Threads that are far ahead of the caller
// wait. Only one caller at a time.
class BlockProducer {
 public:
  // Continues at `place`. Corpus and tokenizer outlive it.
  BlockProducer(const Corpus& corpus, const Tokenizer& tokenizer, const WindowOptions& options,
                const CorpusPlace& place, int threads);
  // Stops the threads.
  ~BlockProducer();

  // Returns the next block. Rethrows the exception of reading it.
  TokenBlock next();

 private:
  // Approximate bytes of text per block, and the most blocks that are ready.
  static constexpr std::size_t block_bytes = 1 << 18;
  static constexpr std::int64_t most_ahead = 16;

  struct Work {
    std::shared_ptr<const Window> window;
    std::size_t first = 0, last = 0;  // documents of the window
  };
  struct Done {
    TokenBlock block;
    std::exception_ptr error;
  };

  void stop();
  void work();
  Work cut();
  TokenBlock encode(const Work& work) const;

  const Corpus& corpus_;
  const Tokenizer& tokenizer_;

  std::mutex read_mutex_;  // protects the following members
  WindowReader reader_;
  std::shared_ptr<const Window> window_;
  std::size_t next_document_ = 0;
  std::int64_t next_block_ = 0;

  std::mutex mutex_;  // protects the following members
  std::condition_variable changed_;
  std::map<std::int64_t, Done> done_;
  std::int64_t taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme
