// The fast path: hand-written splitter, cache of short pieces, look-up of whole tokens, merges.
#include "tokenizer/bpe/byte_bpe.h"

#include "base/error.h"
#include "tokenizer/bpe/piece_cache.h"

namespace trireme {
namespace {

// Collects ids in a small buffer and appends them to a vector in blocks, since a push_back per id
// would cost as much as finding it.
class IdSink {
 public:
  explicit IdSink(std::vector<std::int32_t>& out) : out_(out) {}

  // Makes room for this many entries.
  void reserve(std::size_t entries) {
    if (used_ + entries * ShortPieceCache::kMaxIds > kSize) flush();
  }
  void put(const ShortPieceCache::Entry& entry) {
    entry.write(buffer_ + used_);
    used_ += entry.count();
  }
  void put(std::span<const std::int32_t> ids) {
    flush();
    out_.insert(out_.end(), ids.begin(), ids.end());
  }
  // The vector itself, with all ids so far in it.
  std::vector<std::int32_t>& flush() {
    out_.insert(out_.end(), buffer_, buffer_ + used_);
    used_ = 0;
    return out_;
  }

 private:
  static constexpr std::size_t kSize = 1024;
  std::vector<std::int32_t>& out_;
  std::size_t used_ = 0;
  std::int32_t buffer_[kSize];
};

template <class Emit>
void cut_by(std::span<const Regex> cuts, const char* begin, const char* end, Emit& emit) {
  if (cuts.empty()) return emit(begin, end);
  const char* done = begin;
  const std::string_view text(begin, static_cast<std::size_t>(end - begin));
  cuts[0].for_each_match(text, [&](std::size_t from, std::size_t to) {
    if (done < begin + from) cut_by(cuts.subspan(1), done, begin + from, emit);
    if (from < to) cut_by(cuts.subspan(1), begin + from, begin + to, emit);
    done = begin + to;
  });
  if (done < end) cut_by(cuts.subspan(1), done, end, emit);
}

}  // namespace

ByteBpe::ByteBpe(Vocabulary vocabulary, MergeTable merges, bool whole_pieces)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      whole_(static_cast<std::size_t>(vocabulary_.size())),
      serial_(next_tokenizer_serial()) {
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    byte_ids_[static_cast<std::size_t>(byte)] = vocabulary_.find({&text, 1});
  }
  // A whole piece maps to its token without a look at the merges if they would make it.
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (!vocabulary_.has(id) || vocabulary_.bytes(id).empty()) continue;
    const std::string_view bytes = vocabulary_.bytes(id);
    bool whole = whole_pieces;
    if (!whole) {
      ids.resize(bytes.size());
      whole = merge_bytes(bytes, ids.data()) == 1 && ids[0] == id;
    }
    whole_[static_cast<std::size_t>(id)] = whole;
  }
}

// `ids` has room for one id per byte.
std::size_t ByteBpe::merge_bytes(std::string_view piece, std::int32_t* ids) const {
  std::size_t count = 0;
  for (const char byte : piece) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id >= 0) ids[count++] = id;
  }
  return apply_merges(merges_, ids, count);
}

void ByteBpe::encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  const std::int32_t whole = vocabulary_.find(piece);
  if (whole >= 0 && whole_[static_cast<std::size_t>(whole)]) {
    ids.push_back(whole);
    return;
  }
  const std::size_t before = ids.size();
  ids.resize(before + piece.size());
  ids.resize(before + merge_bytes(piece, ids.data() + before));
}

// `cut` calls its argument with the beginning and the end of each piece. Pieces are looked up in
// batches, so that the memory of the cache is there when it is needed.
template <class Cut>
void ByteBpe::encode_pieces(std::string_view text, std::vector<std::int32_t>& ids,
                            Cut&& cut) const {
  constexpr std::size_t kBatch = 32;
  PieceCache& cache = PieceCache::of_this_thread(serial_);
  IdSink sink(ids);
  const char* text_end = text.data() + text.size();
  PieceCache::Place batch[kBatch];
  std::size_t count = 0;
  const auto look_up = [&] {
    sink.reserve(kBatch);
    for (std::size_t i = 0; i < count; ++i) {
      const PieceCache::Place& place = batch[i];
      if (const ShortPieceCache::Entry* entry = cache.find_short(place)) {
        sink.put(*entry);
      } else {
        sink.put(cache.find_or_make(place, text_end, [&](std::vector<std::int32_t>& made) {
          encode_piece(place.piece, made);
        }));
      }
    }
    count = 0;
  };
  cut([&](const char* begin, const char* end) {
    const std::string_view piece(begin, static_cast<std::size_t>(end - begin));
    if (!PieceCache::takes(piece)) {
      look_up();
      return encode_piece(piece, sink.flush());
    }
    batch[count++] = cache.locate(piece, text_end);
    if (count == kBatch) look_up();
  });
  look_up();
  sink.flush();
}

void ByteBpe::encode(SplitPattern pattern, std::string_view text,
                     std::vector<std::int32_t>& ids) const {
  const char* end = text.data() + text.size();
  const auto by = [&]<SplitPattern known>() {
    encode_pieces(text, ids, [&](auto&& emit) { split<known>(text.data(), end, emit); });
  };
  switch (pattern) {
    case SplitPattern::gpt2:
      return by.operator()<SplitPattern::gpt2>();
    case SplitPattern::cl100k:
      return by.operator()<SplitPattern::cl100k>();
    case SplitPattern::qwen2:
      return by.operator()<SplitPattern::qwen2>();
  }
}

void ByteBpe::encode(std::span<const Regex> cuts, std::string_view text,
                     std::vector<std::int32_t>& ids) const {
  encode_pieces(text, ids,
                [&](auto&& emit) { cut_by(cuts, text.data(), text.data() + text.size(), emit); });
}

namespace {

// All ways to make a token of two others.
MergeTable all_splits(const Vocabulary& ranks) {
  MergeTable merges;
  for (std::int32_t id = 0; id < ranks.size(); ++id) {
    const std::string_view bytes = ranks.bytes(id);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const std::int32_t left = ranks.find(bytes.substr(0, cut));
      if (left < 0) continue;
      const std::int32_t right = ranks.find(bytes.substr(cut));
      if (right >= 0) merges.add(left, right, {static_cast<std::uint32_t>(id), id});
    }
  }
  return merges;
}

}  // namespace

MergeTable merges_of_ranks(const Vocabulary& ranks) {
  const MergeTable all = all_splits(ranks);
  MergeTable used;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < ranks.size(); ++id) {
    const std::string_view bytes = ranks.bytes(id);
    if (bytes.size() < 2) continue;
    ids.clear();
    for (const char& byte : bytes) ids.push_back(ranks.find({&byte, 1}));
    if (apply_merges_down_to(all, ids.data(), ids.size(), 2) != 2) continue;
    if (const Merge merge = all.find(ids[0], ids[1]); merge.id == id) {
      used.add(ids[0], ids[1], merge);
    }
  }
  return used;
}

}  // namespace trireme
