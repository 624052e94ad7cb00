// Units to windows.
#include "data/documents/window_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/keyed_permutation.h"

namespace trireme {
namespace {

constexpr std::uint64_t site_of_units = 1, site_of_rows = 2;

}  // namespace

WindowReader::WindowReader(const Corpus& corpus, const WindowOptions& options,
                           const CorpusPlace& place)
    : corpus_(corpus),
      options_(options),
      place_(place),
      documents_({corpus.options().key}),
      // Whether an epoch that is in progress has documents is unknown here; another one follows.
      epoch_has_documents_(place.position > 0 || place.row > 0) {}

std::uint64_t WindowReader::key_of(std::uint64_t site, std::uint64_t a, std::uint64_t b) const {
  const std::uint64_t numbers[] = {options_.seed, site, a, b};
  return hash64(numbers, sizeof(numbers));
}

Window WindowReader::next() {
  Window window;
  window.place = place_;
  const std::int64_t most = options_.shuffle_buffer > 0 ? options_.shuffle_buffer : plain_window;
  while (static_cast<std::int64_t>(window.documents.size()) < most &&
         window.bytes.size() < most_bytes) {
    if (taken_ == pending_.size() && !fill_pending()) {
      if (!window.documents.empty()) break;
      window.place = place_;  // of the next epoch
      continue;
    }
    const Pending& document = pending_[taken_++];
    window.documents.push_back({window.texts.size(), document.texts.size(), unit_, document.row});
    for (const std::string& text : document.texts) {
      window.texts.push_back({window.bytes.size(), text.size()});
      window.bytes += text;
    }
    place_.row = document.row + 1;
    epoch_has_documents_ = true;
  }
  shuffle(window);
  return window;
}

// Reads the next documents; false where an epoch ends before there are any.
bool WindowReader::fill_pending() {
  pending_.clear();
  taken_ = 0;
  Chunk chunk;
  while (pending_.empty()) {
    if (!source_) {
      if (place_.position == corpus_.units()) {
        if (!epoch_has_documents_) {
          fail_input("'{}' and the other files of its source contain no documents",
                     corpus_.file_of(0));
        }
        place_ = {place_.epoch + 1, 0, 0};
        epoch_has_documents_ = false;
        return false;
      }
      open_unit();
    }
    if (!source_->next(chunk)) {
      source_.reset();
      ++place_.position;
      place_.row = 0;
      continue;
    }
    documents_.for_each(
        chunk,
        [&](const ChunkDocuments::Texts& texts) {
          if (next_row_ >= place_.row) {
            pending_.push_back({{texts[0].begin(), texts[0].end()}, next_row_});
          }
          ++next_row_;
        },
        [&](const Error& error) {
          if (!corpus_.options().skip_bad_rows) throw error;
          ++next_row_;
        });
  }
  return true;
}

void WindowReader::open_unit() {
  const auto position = static_cast<std::uint64_t>(place_.position);
  const auto units = static_cast<std::uint64_t>(corpus_.units());
  const KeyedPermutation order(key_of(site_of_units, static_cast<std::uint64_t>(place_.epoch), 0),
                               units);
  unit_ = static_cast<std::int64_t>(options_.shuffle_buffer > 0 ? order(position) : position);
  source_ = corpus_.open(unit_, opened_);
  next_row_ = 0;
}

void WindowReader::shuffle(Window& window) const {
  if (options_.shuffle_buffer == 0) return;
  const CorpusPlace& place = window.place;
  const std::uint64_t key =
      key_of(site_of_rows + static_cast<std::uint64_t>(place.epoch),
             static_cast<std::uint64_t>(place.position), static_cast<std::uint64_t>(place.row));
  const KeyedPermutation order(key, window.documents.size());
  std::vector<Window::Document> shuffled;
  shuffled.reserve(window.documents.size());
  for (std::size_t i = 0; i < window.documents.size(); ++i) {
    shuffled.push_back(window.documents[order(i)]);
  }
  window.documents = std::move(shuffled);
}

}  // namespace trireme
