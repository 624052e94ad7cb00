// The documents of a corpus in the order of training: units by a keyed permutation for each epoch,
// and by another one inside windows of documents.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/documents/chunk_documents.h"
#include "data/documents/corpus.h"

namespace trireme {

// Start of a window: row `row` of the unit at `position` in the order of its epoch. A row is a
// document or what was skipped in its place.
struct CorpusPlace {
  std::int64_t epoch = 0, position = 0, row = 0;
  bool operator==(const CorpusPlace&) const = default;
};

struct Window {
  struct Document {
    std::size_t first_text, texts;  // in `texts`
    std::int64_t unit, row;
  };
  struct Text {
    std::size_t begin, size;  // in `bytes`
  };
  CorpusPlace place;
  std::string bytes;
  std::vector<Text> texts;
  std::vector<Document> documents;  // in the order of training

  std::string_view text(std::size_t i) const {
    return std::string_view(bytes).substr(texts[i].begin, texts[i].size);
  }
};

struct WindowOptions {
  std::uint64_t seed = 0;
  // Documents that are shuffled among each other; 0: they keep the order of the files.
  std::int64_t shuffle_buffer = 10000;
};

// Memory: a window, of at most shuffle_buffer documents, and no more of them after 64 MiB; and the
// chunk of a file that is being read.
class WindowReader {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;
  static constexpr std::int64_t plain_window = 1024;  // documents, where none are shuffled

  // Continues at `place`. The corpus outlives the reader.
  WindowReader(const Corpus& corpus, const WindowOptions& options, const CorpusPlace& place);

  // The next window; there is always one, since epochs follow each other. A window ends with its
  // epoch. Throws bad_input for what cannot be read, and where an epoch has no document.
  Window next();

 private:
  struct Pending {
    std::vector<std::string> texts;
    std::int64_t row;
  };

  bool fill_pending();
  void open_unit();
  void shuffle(Window& window) const;
  std::uint64_t key_of(std::uint64_t site, std::uint64_t a, std::uint64_t b) const;

  const Corpus& corpus_;
  WindowOptions options_;
  CorpusPlace place_;  // of the next document
  ChunkDocuments documents_;
  Corpus::Opened opened_;
  std::int64_t unit_ = -1;  // that is open
  std::unique_ptr<ChunkSource> source_;
  std::int64_t next_row_ = 0;     // that the source gives
  std::vector<Pending> pending_;  // documents of the last chunk
  std::size_t taken_ = 0;         // of them
  bool epoch_has_documents_ = false;
};

}  // namespace trireme
