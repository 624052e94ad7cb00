// Where in a corpus the tokens of its endless stream lie, kept in a file of the run: what lets a
// run go on without tokenising again what it has seen. It follows from corpus, tokenizer and seed
// alone, so that any run may use it, and a file that is lost costs time and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/file.h"
#include "data/window_reader.h"

namespace trireme {

class StreamPlaces {
 public:
  struct Place {
    std::int64_t tokens = 0;  // of the stream before the window
    CorpusPlace window;
  };

  // The places in `file`, which was made for this key: lines that are damaged or of another key do
  // not count. With an empty path, or where nothing can be written, they are kept in memory alone.
  // Among the processes of a run one writes.
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
