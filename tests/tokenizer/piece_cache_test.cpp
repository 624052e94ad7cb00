// The cache of pieces returns the ids that were made for a piece, whatever else was cached.
#include "tokenizer/bpe/piece_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace trireme {
namespace {

using Ids = std::vector<std::int32_t>;

Ids ids_of(PieceCache& cache, std::string_view text, std::string_view piece, const Ids& made) {
  const auto ids = cache.ids_of(piece, text.data() + text.size(), [&](Ids& out) { out = made; });
  return {ids.begin(), ids.end()};
}

// Pieces of all lengths, of few different bytes with zeros among them, with ids of all sizes.
TEST(PieceCache, ReturnsWhatWasMade) {
  std::mt19937 random(3);
  std::map<std::string, Ids> known;
  PieceCache cache;
  for (int i = 0; i < 400'000; ++i) {
    std::string text(random() % 24, '\0');
    for (char& byte : text) byte = "\0\0ab\xE4"[random() % 5];
    const std::string piece = text.substr(0, random() % (text.size() + 1));
    if (piece.empty()) continue;
    const auto [at, is_new] = known.try_emplace(piece);
    if (is_new) {
      at->second.resize(1 + random() % 6);
      for (std::int32_t& id : at->second) {
        id = static_cast<std::int32_t>(random() >> (1 + random() % 31));
      }
    }
    ASSERT_EQ(ids_of(cache, text, piece, at->second), at->second) << testing::PrintToString(piece);
  }
}

// What was cached is not made again.
TEST(PieceCache, MakesTheIdsOfAPieceOnce) {
  PieceCache cache;
  const std::string longest(LongPieceCache::kMaxLength, 'x');
  for (const std::string& piece :
       {std::string("a"), std::string("a\0", 2), std::string("eight by"), std::string("nine byte"),
        std::string("fifteen letters"), std::string("sixteen letters!"), longest}) {
    for (const Ids& ids : {Ids{0}, Ids{1, 2, 3}, Ids{(1 << 19) - 1}, Ids{1 << 19, 5},
                           Ids{1, 2, 3, 4}, Ids{5, 4, 3, 2, 1}}) {
      cache = PieceCache();
      EXPECT_EQ(ids_of(cache, piece, piece, ids), ids);
      EXPECT_EQ(ids_of(cache, piece, piece, {7, 7}), ids) << piece;
    }
  }
}

// Four short pieces of one line are all cached, and a fifth replaces the first.
TEST(ShortPieceCache, KeepsTheLatestOfALine) {
  ShortPieceCache cache;
  std::vector<std::uint64_t> pieces;
  const std::size_t line = ShortPieceCache::line_of(1);
  for (std::uint64_t bytes = 1; pieces.size() < 5; ++bytes) {
    if (ShortPieceCache::line_of(bytes) == line) pieces.push_back(bytes);
  }
  const auto id_of = [&](std::size_t i) {
    const ShortPieceCache::Entry* entry = cache.find(pieces[i], 8, line);
    if (!entry) return -1;
    std::int32_t ids[ShortPieceCache::kMaxIds];
    entry->write(ids);
    return ids[0];
  };
  const auto put = [&](std::int32_t i) {
    cache.put({pieces[static_cast<std::size_t>(i)], 8, std::array{i}}, line);
  };
  for (int i = 0; i < 4; ++i) put(i);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(id_of(static_cast<std::size_t>(i)), i);
  put(4);
  EXPECT_EQ(id_of(0), -1);
  for (int i = 1; i < 5; ++i) EXPECT_EQ(id_of(static_cast<std::size_t>(i)), i);
  EXPECT_EQ(cache.find(pieces[4], 7, line), nullptr);
}

}  // namespace
}  // namespace trireme
