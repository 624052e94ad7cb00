// Tests of BPE training against its simple definition, and of its output files.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "tokenizer/bpe/bpe_trainer.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/random_text.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

using Pair = std::pair<std::string, std::string>;

// The order of GPT-2's byte tokens; later tokens follow in order of creation.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  tokens.reserve(256);
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::sort(tokens.begin(), tokens.end(),
            [](const auto& a, const auto& b) { return spell_bytes(a) < spell_bytes(b); });
  return tokens;
}

// Recounts all pairs before each merge.
std::vector<Pair> train_plainly(const PieceCounts& counts, std::size_t size) {
  std::vector<std::string> tokens = byte_tokens();
  std::vector<std::pair<std::vector<std::string>, std::uint64_t>> words;
  for (const auto& [piece, count] : counts.sorted()) {
    words.push_back({{}, count});
    for (const char byte : piece) words.back().first.emplace_back(1, byte);
  }
  const auto id = [&](const std::string& token) {
    return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
  };
  std::vector<Pair> merges;
  while (tokens.size() + 1 < size) {
    std::map<Pair, std::uint64_t> pairs;
    for (const auto& [word, count] : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
    }
    std::uint64_t most = 1;
    Pair best;
    for (const auto& [pair, count] : pairs) {
      const bool earlier =
          std::pair(id(pair.first), id(pair.second)) < std::pair(id(best.first), id(best.second));
      if (count > most || (count == most && most > 1 && earlier)) most = count, best = pair;
    }
    if (most < 2) break;
    merges.push_back(best);
    const std::string merged = best.first + best.second;
    if (id(merged) == std::ssize(tokens)) tokens.push_back(merged);
    for (auto& [word, count] : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != best.first || word[i + 1] != best.second) continue;
        word[i] = merged;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

std::vector<Pair> merges_of(const TrainedBpe& trained) {
  std::vector<Pair> out;
  for (const auto& [left, right] : trained.merges) {
    out.emplace_back(trained.tokens[static_cast<std::size_t>(left)],
                     trained.tokens[static_cast<std::size_t>(right)]);
  }
  return out;
}

TEST(BpeTrainer, EqualsThePlainDefinition) {
  RandomText random(11);
  for (int round = 0; round < 40; ++round) {
    PieceCounts counts;
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (std::size_t left = random.below(60); left > 0; --left) {
        text.push_back("aab bc\ned"[random.below(9)]);
      }
      counts.add(text);
    }
    EXPECT_EQ(merges_of(train_bpe(counts, 300)), train_plainly(counts, 300));
  }
}

// A folder that exists for one test.
class TrainerFiles : public testing::Test {
 protected:
  TrainerFiles() : folder_(fs::temp_directory_path() / "trireme_trainer_test") {
    make_folders(folder_);
  }
  ~TrainerFiles() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(TrainerFiles, CountsDoNotDependOnBlocksAndThreads) {
  RandomText random(12);
  std::string text;
  while (text.size() < 3 << 20) {
    text += random.next(80) + (random.below(2) ? "\n" : " row the boat\nashore\n\n");
  }
  write_file_durably(folder_ / "text", text);
  PieceCounts whole;
  whole.add(text);
  const int threads = ThreadPool::global().size();
  for (const int size : {1, 3}) {
    ThreadPool::set_global_size(size);
    const PieceCounts counted = count_text_file(folder_ / "text");
    EXPECT_EQ(counted.sorted(), whole.sorted());
    EXPECT_EQ(counted.total(), whole.total());
  }
  ThreadPool::set_global_size(threads);
}

TEST_F(TrainerFiles, JsonLinesAreDocuments) {
  write_file_durably(folder_ / "a.jsonl",
                     "{\"text\": \"row the\"}\n\n{\"text\": \" boat\", \"x\": 1}\r\n");
  PieceCounts expected;
  expected.add("row the");
  expected.add(" boat");
  EXPECT_EQ(count_jsonl_file(folder_ / "a.jsonl", "text").sorted(), expected.sorted());
  write_file_durably(folder_ / "b.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
  try {
    count_jsonl_file(folder_ / "b.jsonl", "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("b.jsonl' line 2"), std::string::npos) << error.what();
  }
}

TEST_F(TrainerFiles, FilesReadBack) {
  PieceCounts counts;
  for (int i = 0; i < 3; ++i)
    counts.add("row, row, row the boat \"gently\" down the stream\n\\o/ \\o/");
  const TrainedBpe trained = train_bpe(counts, 290);
  write_gpt2_files(trained, folder_ / "new" / "folder");
  const auto tokenizer =
      make_tokenizer({.type = "gpt2", .model_file = (folder_ / "new" / "folder").string()});
  EXPECT_EQ(static_cast<std::size_t>(tokenizer->vocab_size()), trained.tokens.size() + 1);
  EXPECT_EQ(tokenizer->eod_id() + 1, tokenizer->vocab_size());
  for (std::size_t id = 0; id < trained.tokens.size(); ++id) {
    EXPECT_EQ(tokenizer->token_bytes(static_cast<std::int32_t>(id)), trained.tokens[id]);
  }
}

TEST(BpeTrainer, StopsWhereNoPairOccursTwice) {
  PieceCounts counts;
  counts.add("abcdefg");
  EXPECT_EQ(train_bpe(counts, 5000).tokens.size(), 256u);
  EXPECT_EQ(train_bpe(PieceCounts(), 5000).tokens.size(), 256u);
}

TEST(BpeTrainer, RefusesSizesThatCannotBe) {
  for (const std::int64_t size : {0, 256, -5, 1 << 30}) {
    EXPECT_THROW(train_bpe(PieceCounts(), size), Error);
  }
}

}  // namespace
}  // namespace trireme
