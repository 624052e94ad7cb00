// Tests of training directly on text: units, windows, streams and samples.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>

#include "base/hash.h"
#include "data/blend/blended_dataset.h"
#include "data/byte_tokenizer.h"
#include "data/documents/corpus.h"
#include "data/keyed_permutation.h"
#include "data/loader.h"
#include "data/stream/source_dataset.h"
#include "data/temp_folder.h"
#include "refusal.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_data::ByteTokenizer;
using testing_data::TempFolder;
using testing_data::write_bytes;
using Strings = std::vector<std::string>;

// A tokenizer with one ID per byte, which counts the documents that it encoded.
class CountingTokenizer final : public Tokenizer {
 public:
  CountingTokenizer() {
    vocab_size_ = 257;
    special_.eod = 256;
  }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ++documents;
    bytes_.encode(text, ids);
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip) const override {
    return bytes_.decode(ids, skip);
  }
  std::string token_bytes(std::int32_t) const override { return {}; }
  std::int32_t token_id(std::string_view) const override { return -1; }
  mutable std::atomic<std::int64_t> documents = 0;

 private:
  ByteTokenizer bytes_;
};

TEST(KeyedPermutation, TakesEveryPlaceOnce) {
  for (const std::uint64_t size : {1, 2, 3, 5, 16, 17, 100, 1000}) {
    std::set<std::uint64_t> places;
    const KeyedPermutation order(7, size);
    for (std::uint64_t i = 0; i < size; ++i) {
      ASSERT_LT(order(i), size);
      places.insert(order(i));
    }
    EXPECT_EQ(places.size(), size);
  }
  std::int64_t equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    equal += KeyedPermutation(1, 1000)(i) == KeyedPermutation(2, 1000)(i);
  }
  EXPECT_LT(equal, 20);
}

class Sources : public ::testing::Test {
 protected:
  // Writes `documents` JSON lines, each with a text of its number between other characters.
  std::string write_lines(const std::string& name, int documents, int length = 20) {
    std::string lines;
    for (int d = 0; d < documents; ++d) {
      const std::string text = name.substr(0, 1) + std::to_string(d) + "." +
                               std::string(static_cast<std::size_t>(d * 7 % length), 'x');
      lines += "{\"text\": \"" + text + "\"}\n";
    }
    write_bytes(folder_ / name, lines);
    return folder_ / name;
  }

  std::unique_ptr<TokenStream> stream(const Strings& patterns, StreamOptions options = {},
                                      CorpusOptions corpus = {}) {
    return std::make_unique<TokenStream>(std::make_shared<const Corpus>(patterns, corpus),
                                         tokenizer_, options);
  }

  static std::string text_of(TokenStream& stream, std::int64_t first, std::int64_t count) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    stream.read(first, count, ids.data());
    std::string text;
    for (const std::int32_t id : ids) text += id == 256 ? '$' : static_cast<char>(id);
    return text;
  }

  // Returns the documents of `count` tokens, including their end tokens.
  static Strings documents_of(TokenStream& stream, std::int64_t count) {
    Strings documents;
    std::string text = text_of(stream, 0, count);
    for (std::size_t end; (end = text.find('$')) != text.npos; text.erase(0, end + 1)) {
      documents.push_back(text.substr(0, end));
    }
    return documents;
  }

  TempFolder folder_;
  std::shared_ptr<CountingTokenizer> tokenizer_ = std::make_shared<CountingTokenizer>();
};

TEST_F(Sources, UnshuffledGiveTheFilesInOrderAgainAndAgain) {
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"one\"}\n\n{\"text\": [\"t\", \"wo\"]}\n");
  write_bytes(folder_ / "b.txt", "three");
  const auto plain = stream({folder_.path().string()}, {.window = {.shuffle_buffer = 0}});
  EXPECT_EQ(text_of(*plain, 0, 30), "one$two$three$one$two$three$on");
  EXPECT_EQ(text_of(*plain, 10, 6), "ree$on");
}

// Every document occurs once, whatever the blocks of a plain file are.
TEST_F(Sources, BlocksHoldEveryDocumentOnce) {
  std::mt19937 random(3);
  const Strings pieces = {"a", "bc", "\n", "\n", "\n\n", " \n", "\r\n", "d e", "\t"};
  for (int round = 0; round < 40; ++round) {
    std::string text;
    while (text.size() < 60) text += pieces[random() % pieces.size()];
    write_bytes(folder_ / "a.txt", text + "$");
    for (const DocumentForm form : {DocumentForm::line, DocumentForm::paragraphs}) {
      const auto documents = [&](std::uint64_t block) {
        const Corpus corpus({folder_ / "a.txt"}, {.text = form, .block_bytes = block});
        Strings all;
        Corpus::Opened opened;
        ChunkDocuments reader({"text"});
        for (std::int64_t unit = 0; unit < corpus.units(); ++unit) {
          const auto chunks = corpus.open(unit, opened);
          for (Chunk chunk; chunks->next(chunk);) {
            reader.for_each(
                chunk, [&](const auto& texts) { all.emplace_back(texts[0][0]); },
                [](const Error& error) { throw error; });
          }
        }
        return all;
      };
      const Strings whole = documents(1 << 20);
      for (std::uint64_t block = 1; block < 50; block = block * 3 / 2 + 1) {
        ASSERT_EQ(documents(block), whole) << block << " of: " << text;
      }
    }
  }
}

TEST_F(Sources, AnEpochHoldsEveryDocumentOnceInAnOrderOfItsOwn) {
  const Strings patterns = {write_lines("a.jsonl", 60), write_lines("b.jsonl", 40)};
  const auto files = stream(patterns, {.window = {.shuffle_buffer = 0}});
  const auto shuffled = stream(patterns, {.window = {.shuffle_buffer = 30}}, {.block_bytes = 200});
  Strings expected = documents_of(*files, 5000);
  expected.resize(100);
  Strings both = documents_of(*shuffled, 5000);
  both.resize(200);
  Strings first(both.begin(), both.begin() + 100), second(both.begin() + 100, both.end());
  EXPECT_NE(first, expected);
  EXPECT_NE(first, second);
  std::ranges::sort(expected);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_EQ(first, expected);
  EXPECT_EQ(second, expected);
  const auto other = stream(patterns, {.window = {.seed = 1, .shuffle_buffer = 30}});
  EXPECT_NE(text_of(*other, 0, 500), text_of(*shuffled, 0, 500));
}

TEST_F(Sources, AreTheSameForAnyThreadsAndPlacesOfReading) {
  const Strings patterns = {write_lines("a.jsonl", 2000, 900)};
  const auto once = stream(patterns);
  const std::string whole = text_of(*once, 0, 1500000);
  const auto threads = stream(patterns, {.threads = 3});
  EXPECT_EQ(text_of(*threads, 0, 1500000), whole);
  std::mt19937 random(5);
  for (int i = 0; i < 4; ++i) {
    const auto anywhere = stream(patterns);
    const std::int64_t first = random() % 1400000;
    EXPECT_EQ(text_of(*anywhere, first, 999), whole.substr(first, 999));
    EXPECT_EQ(text_of(*anywhere, first / 2, 999), whole.substr(first / 2, 999));
  }
}

TEST_F(Sources, GoOnWithoutTokenisingWhatWasSeen) {
  const Strings patterns = {write_lines("a.jsonl", 8000, 2000)};
  StreamOptions options{.window = {.shuffle_buffer = 100}, .places = folder_ / "places"};
  options.writes = true;
  const auto writer = stream(patterns, options);
  const std::int64_t far = 7000000;
  const std::string expected = text_of(*writer, far, 1000);
  text_of(*writer, far + 2000000, 1);
  options.writes = false;
  const std::int64_t before = tokenizer_->documents;
  EXPECT_EQ(text_of(*stream(patterns, options), far, 1000), expected);
  // One window, a million tokens between two saved positions, and read-ahead.
  EXPECT_LT(tokenizer_->documents - before, before / 2);

  // A damaged file only costs time.
  const fs::path file = fs::directory_iterator(folder_ / "places")->path();
  std::string bytes = read_file(file);
  for (std::size_t at = 0; at < bytes.size(); at += 9) bytes[at] ^= 1;
  write_bytes(file.string(), bytes + "1 2 3");
  EXPECT_EQ(text_of(*stream(patterns, options), far, 1000), expected);
}

// A weighted blend of three sources, whose documents each consist of their own letter.
class Blends : public Sources {
 protected:
  std::shared_ptr<const Dataset> blend(std::int64_t samples) {
    const std::vector<double> weights = {0.5, 0.3, 0.2};
    std::vector<std::shared_ptr<const Dataset>> datasets;
    for (const char* const name : {"a.jsonl", "b.jsonl", "c.jsonl"}) {
      std::string lines;
      for (int d = 0; d < 300; ++d) {
        lines += "{\"text\": \"" + std::string(1 + d % 13, name[0]) + "\"}\n";
      }
      write_bytes(folder_ / name, lines);
      datasets.push_back(std::make_shared<SourceDataset>(
          stream({folder_ / name}, {.window = {.shuffle_buffer = 64}}), 4, MaskOptions()));
    }
    return std::make_shared<BlendedDataset>(datasets, build_blend_order(weights, samples),
                                            blend_order_key(weights, 0));
  }
  // Returns a hash of each sample of a rank, by sample number.
  static std::map<std::int64_t, std::uint64_t> samples(std::shared_ptr<const Dataset> data,
                                                       std::int64_t rank, std::int64_t ranks,
                                                       std::int64_t from, std::int64_t to) {
    std::map<std::int64_t, std::uint64_t> seen;
    Loader loader(data, {.micro_batch_size = 2,
                         .dp_rank = rank,
                         .dp_size = ranks,
                         .consumed_samples = from,
                         .threads = 2});
    while (loader.consumed_samples() < to) {
      const Batch batch = loader.next();
      for (std::int64_t b = 0; b < 2; ++b) {
        seen[batch.sample_ids[b]] = hash64(batch.tokens.data() + 4 * b, 16,
                                           static_cast<std::uint64_t>(batch.targets[4 * b + 3]));
      }
    }
    return seen;
  }
};

TEST_F(Blends, GiveTheSameSamplesToAnyRanksFromAnyPointOn) {
  const auto expected = samples(blend(4096), 0, 1, 0, 4000);
  EXPECT_EQ(expected.size(), 4000u);
  for (const std::int64_t ranks : {1, 2, 4}) {
    for (const std::int64_t from : {0, 8, 1608, 3992}) {
      std::map<std::int64_t, std::uint64_t> together;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        together.merge(samples(blend(4096), rank, ranks, from, 4000));
      }
      const std::map rest(expected.lower_bound(from), expected.end());
      EXPECT_EQ(together, rest) << ranks << " ranks from sample " << from;
    }
  }
}

TEST_F(Blends, FollowTheirWeights) {
  const auto data = blend(100000);
  std::map<char, std::int64_t> count;
  Batch batch(1, 4);
  for (std::int64_t i = 0; i < 100000; ++i) {
    data->fill(i, batch.row(0));
    const auto* const letter = std::ranges::find_if(batch.tokens.data(), batch.tokens.data() + 4,
                                                    [](std::int32_t id) { return id < 256; });
    ++count[static_cast<char>(*letter)];
  }
  EXPECT_NEAR(count['a'], 50000, 500);
  EXPECT_NEAR(count['b'], 30000, 500);
  EXPECT_NEAR(count['c'], 20000, 500);
}

TEST_F(Sources, SayWhatIsBad) {
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"a\"}\n{\"body\": \"b\"}\n{\"text\": \"c\"}\n");
  const Strings patterns = {folder_ / "a.jsonl"};
  EXPECT_THAT(refusal_of([&] { text_of(*stream(patterns), 0, 4); }),
              AllOf(HasSubstr("a.jsonl' line 2: no key \"text\""), HasSubstr("\"body\"")));
  const auto patient = stream(patterns, {.window = {.shuffle_buffer = 0}}, {.skip_bad_rows = true});
  EXPECT_EQ(text_of(*patient, 0, 6), "a$c$a$");
  write_bytes(folder_ / "a.jsonl", "\n\n");
  EXPECT_THAT(refusal_of([&] { text_of(*stream(patterns), 0, 4); }),
              HasSubstr("a.jsonl' and the other files of its source contain no documents"));
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"\"}\n");
  EXPECT_THAT(refusal_of([&] { text_of(*stream(patterns), 0, 4); }),
              HasSubstr("contain no tokens"));
}

TEST_F(Sources, ReadParquetAndArrow) {
  if (!has_arrow_plugin()) GTEST_SKIP() << "needs the plug-in for Arrow";
  const std::string columns = std::string(TRIREME_TEST_DATA) + "/columns/";
  const StreamOptions plain{.window = {.shuffle_buffer = 0}};
  const std::string expected = "one$t\xc3\xa9xt two$four\nlines$five$one$";
  for (const char* const name : {"plain.parquet", "file.arrow", "stream.arrow"}) {
    EXPECT_EQ(text_of(*stream({columns + name}, plain), 0, 34), expected) << name;
  }
  EXPECT_THAT(refusal_of([&] { stream({columns + "nulls.parquet"}); }),
              HasSubstr("nulls.parquet' row group 1: the column \"text\" has 1 value of null"));
  EXPECT_EQ(text_of(*stream({columns + "nulls.parquet"}, plain, {.skip_bad_rows = true}), 0, 8),
            "a$b$d$a$");
}

}  // namespace
}  // namespace trireme
