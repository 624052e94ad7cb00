// Places in a corpus of the tokens of its endless stream, kept in a file of the run, so that a
// resumed run does not tokenize again what it has seen. They follow from corpus, tokenizer and seed
// only: any run may use the file, and losing it costs nothing but time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/file.h"
#include "data/documents/window_reader.h"

namespace trireme {

class StreamPlaces {
 public:
  struct Place {
    std::int64_t tokens = 0;  // of the stream before the window
    CorpusPlace window;
  };

  // The places in `file`, which was made for this key: lines that are damaged or of another key are
  // ignored. With an empty path, or if nothing can be written, they are kept in memory only. One
  // process of a run writes.
  StreamPlaces(const fs::path& file, std::uint64_t key, bool writes);

  // The last known window that begins with this token or before it; the beginning of all at worst.
  Place before(std::int64_t token) const;
  // Notes a window; not every one is worth a line.
  void add(const Place& place);

 private:
  std::uint64_t check_of(const Place& place) const;
  void read();
  void write(const Place& place);

  fs::path path_;
  std::uint64_t key_;
  bool writes_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, CorpusPlace> places_;  // by tokens
  File file_;
};

}  // namespace trireme
