// Tests of byte-level BPE: merging, round trips, special tokens, long pieces, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/file.h"
#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/bpe_trainer.h"
#include "tokenizer/bpe/byte_level.h"
#include "tokenizer/random_text.h"

namespace trireme {
namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

const char* const kText =
    "In the beginning was the word, and the word was with us; and the words we've had since were "
    "many: 1234 of them, 5678 more. Some say they're good, others that the word's the thing. \n\n"
    "  And so the story begins, with a beginning, as all stories do.\n";

// A small vocabulary, trained and read back.
class ByteBpeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    PieceCounts counts;
    for (int i = 0; i < 2; ++i) counts.add(kText);
    folder_ = fs::temp_directory_path() / "trireme_byte_bpe_test";
    write_gpt2_files(train_bpe(counts, 320), folder_);
    tokenizer_ = load(true);
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    fs::remove_all(folder_);
  }
  static std::unique_ptr<Tokenizer> load(bool special_text) {
    return load_gpt2(folder_ / "vocab.json", folder_ / "merges.txt", special_text);
  }

  static inline fs::path folder_;
  static inline std::unique_ptr<Tokenizer> tokenizer_;
};

// Applies all merges one by one, repeatedly: the reference for apply_merges.
Ids merge_plainly(const MergeTable& merges, Ids ids) {
  while (true) {
    std::size_t best = 0;
    Merge merge{MergeTable::kNoRank, -1};
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge found = merges.find(ids[i], ids[i + 1]);
      if (found.rank < merge.rank) best = i, merge = found;
    }
    if (merge.rank == MergeTable::kNoRank) return ids;
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(ApplyMerges, EqualsThePlainDefinitionAtEveryLength) {
  RandomText random(3);
  for (int round = 0; round < 200; ++round) {
    MergeTable merges;
    std::uint32_t rank = 0;
    // The table keeps pairs of ids below 256 apart from others.
    const std::int32_t first = round % 3 == 0 ? 0 : round % 3 == 1 ? 240 : 1000;
    // Merges in random order, so that a later token may have a lower rank.
    std::vector<std::uint32_t> ranks(60);
    std::iota(ranks.begin(), ranks.end(), 0);
    for (std::size_t i = ranks.size() - 1; i > 0; --i)
      std::swap(ranks[i], ranks[random.below(i + 1)]);
    for (std::int32_t id = 4; id < 64; ++id) {
      const auto any = [&] {
        return static_cast<std::int32_t>(random.below(static_cast<std::size_t>(id)));
      };
      merges.add(first + any(), first + any(), {ranks[rank++], first + id});
    }
    Ids ids(1 + random.below(round % 2 ? 90 : 400));
    for (std::int32_t& id : ids) id = first + static_cast<std::int32_t>(random.below(4));
    const Ids expected = merge_plainly(merges, ids);
    ids.resize(apply_merges(merges, ids.data(), ids.size()));
    ASSERT_EQ(ids, expected);
  }
}

TEST_F(ByteBpeTest, RandomBytesComeBack) {
  RandomText random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string text = random.bytes(random.below(600));
    ASSERT_EQ(tokenizer_->decode(encode(*tokenizer_, text)), text);
  }
}

TEST_F(ByteBpeTest, RandomTextComesBack) {
  RandomText random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random.next(200);
    ASSERT_EQ(tokenizer_->decode(encode(*tokenizer_, text)), text);
  }
}

// The cache forgets long pieces when its memory is full; ids stay the same.
TEST_F(ByteBpeTest, ManyLongPiecesHaveTheSameIdsAgain) {
  const auto piece = [](RandomText& random) {
    std::string text(" ");
    for (std::size_t left = 16 + random.below(400); left > 0; --left) {
      text.push_back(static_cast<char>('a' + random.below(26)));
    }
    return text;
  };
  RandomText random(7);
  std::vector<Ids> first;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = piece(random);
    first.push_back(encode(*tokenizer_, text));
    ASSERT_EQ(first.back(), encode(*tokenizer_, text));  // remembered
    ASSERT_EQ(tokenizer_->decode(first.back()), text);
  }
  RandomText again(7);
  for (const Ids& ids : first) ASSERT_EQ(encode(*tokenizer_, piece(again)), ids);
}

// Pieces of every length, short ones with many ids too, at the end of the text and before its end.
TEST_F(ByteBpeTest, PiecesHaveTheSameIdsWhereverTheyStand) {
  for (std::size_t length = 1; length < 40; ++length) {
    for (const char* letter : {"a", "q", "\u4e00"}) {
      std::string piece;
      while (piece.size() < length) piece += letter;
      const Ids alone = encode(*tokenizer_, piece);
      const Ids before = encode(*tokenizer_, piece + "\n12345678901234567890");
      ASSERT_LE(alone.size(), before.size());
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), before.begin())) << piece;
      EXPECT_EQ(tokenizer_->decode(alone), piece);
    }
  }
}

TEST_F(ByteBpeTest, LearnsFromItsText) {
  const Ids ids = encode(*tokenizer_, kText);
  EXPECT_LT(ids.size(), std::string_view(kText).size() * 2 / 3);
  EXPECT_EQ(tokenizer_->vocab_size(), 320);
  EXPECT_EQ(tokenizer_->eod_id(), 319);
}

TEST_F(ByteBpeTest, SpecialTextIsOneIdOrPlainText) {
  const std::int32_t eod = tokenizer_->eod_id();
  const Ids parsed = encode(*tokenizer_, "a<|endoftext|>b");
  EXPECT_EQ(parsed, (Ids{encode(*tokenizer_, "a")[0], eod, encode(*tokenizer_, "b")[0]}));
  const auto plain = load(false);
  const Ids text = encode(*plain, "a<|endoftext|>b");
  EXPECT_EQ(std::count(text.begin(), text.end(), eod), 0);
  EXPECT_EQ(plain->decode(text), "a<|endoftext|>b");
  EXPECT_NE(plain->fingerprint(), tokenizer_->fingerprint());
}

TEST_F(ByteBpeTest, DecodeSkipsSpecialTokens) {
  Ids ids = encode(*tokenizer_, "a<|endoftext|>b");
  EXPECT_EQ(tokenizer_->decode(ids), "a<|endoftext|>b");
  EXPECT_EQ(tokenizer_->decode(ids, true), "ab");
}

TEST_F(ByteBpeTest, TokensByIdAndBack) {
  for (std::int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    EXPECT_EQ(tokenizer_->token_id(tokenizer_->token_bytes(id)), id);
  }
  EXPECT_EQ(tokenizer_->token_id("no such token"), -1);
}

TEST_F(ByteBpeTest, AppendsToWhatIsThere) {
  Ids ids{7};
  tokenizer_->encode("word", ids);
  EXPECT_EQ(ids[0], 7);
  EXPECT_EQ(Ids(ids.begin() + 1, ids.end()), encode(*tokenizer_, "word"));
}

TEST_F(ByteBpeTest, ThreadsAgree) {
  RandomText random(4);
  std::string text;
  for (int i = 0; i < 300; ++i) text += kText + random.next(100);
  const Ids expected = encode(*tokenizer_, text);
  std::vector<Ids> found(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& ids : found) threads.emplace_back([&] { ids = encode(*tokenizer_, text); });
  }
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

// Ten times the text may take somewhat more than ten times the work, but not a hundred times.
TEST_F(ByteBpeTest, LongPiecesAreNotQuadratic) {
  const auto time = [&](std::size_t length) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      timespec start, stop;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
      encode(*tokenizer_, std::string(length, 't'));
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &stop);
      best = std::min(best, static_cast<double>(stop.tv_sec - start.tv_sec) +
                                1e-9 * static_cast<double>(stop.tv_nsec - start.tv_nsec));
    }
    return best;
  };
  EXPECT_LT(time(300'000), 40 * time(30'000));
}

}  // namespace
}  // namespace trireme
