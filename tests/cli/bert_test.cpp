// Tests that a tiny BERT on real text learns more than word frequencies.
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "data/indexed_dataset.h"
#include "program.h"

namespace trireme::testing_cli {
namespace {

// Returns the output of a shell command; empty if it fails.
std::string output_of(const char* command) {
  std::string text;
  std::FILE* pipe = ::popen(command, "r");
  if (!pipe) return text;
  std::array<char, 1 << 16> buffer;
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), n);
  return ::pclose(pipe) == 0 ? text : "";
}

// Turns verses with references ("gen1:1 In the beginning ...") into one chapter per paragraph.
std::string chapters(const std::string& verses) {
  std::istringstream lines(verses);
  std::string text, line, last;
  while (std::getline(lines, line)) {
    const std::size_t colon = line.find(':'), space = line.find(' ');
    if (colon == std::string::npos || space == std::string::npos) continue;
    const std::string chapter = line.substr(0, colon);
    if (!last.empty() && chapter != last) text += "\n";
    last = chapter;
    text += line.substr(space + 1) + "\n";
  }
  return text;
}

// Builds a WordPiece vocabulary: letters, so that every word can be spelled, some suffixes, and the
// most common words.
std::string vocabulary_of(const std::string& text) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
  for (const char* ending : {"ed", "eth", "est", "ing", "er", "ly", "ness", "es", "ites", "en"})
    vocabulary += std::string("##") + ending + "\n";
  std::map<std::string, int> counts;
  std::string word;
  for (const char raw : text + " ") {
    const auto c = static_cast<char>(std::tolower(static_cast<unsigned char>(raw)));
    if (c >= 'a' && c <= 'z') {
      word += c;
      continue;
    }
    if (word.size() > 1) ++counts[word];
    word.clear();
    if (std::ispunct(static_cast<unsigned char>(c))) ++counts[std::string(1, c)];
  }
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [w, count] : counts) ranked.emplace_back(-count, w);
  std::sort(ranked.begin(), ranked.end());
  for (std::size_t i = 0; i < std::min<std::size_t>(1500, ranked.size()); ++i)
    vocabulary += ranked[i].second + "\n";
  return vocabulary;
}

// Returns the unigram entropy in nats.
double unigram_entropy(const std::string& prefix) {
  const IndexedDataset data(prefix);
  std::map<std::int32_t, double> counts;
  double total = 0;
  for (std::int64_t s = 0; s < data.sequences(); ++s) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(s)));
    data.read(s, 0, data.length(s), ids.data());
    for (const std::int32_t id : ids) ++counts[id];
    total += static_cast<double>(ids.size());
  }
  double entropy = 0;
  for (const auto& [id, count] : counts) entropy -= count / total * std::log(count / total);
  return entropy;
}

class LongBert : public Workspace {};

TEST_F(LongBert, PredictsMaskedWordsFromTheirContext) {
  const std::string verses = output_of("bible -f 'gen1:1-rev22:21' 2>/dev/null");
  if (verses.empty()) GTEST_SKIP() << "needs Debian's packages bible-kjv and bible-kjv-text";
  const std::string text = chapters(verses);
  write("all.txt", text);
  write("vocab.txt", vocabulary_of(text));
  const Outcome made = run({"preprocess", "--input", path("all.txt"), "--documents", "paragraph",
                            "--split-sentences", "--tokenizer-type", "bert", "--vocab-file",
                            path("vocab.txt"), "--output-prefix", path("kjv")});
  ASSERT_EQ(made.code, 0) << made.out;
  const fs::path recipe = fs::path(TRIREME_TESTS) / "../recipes/bert_tiny.toml";
  const Outcome trained =
      run({"train", recipe.lexically_normal().string(), "run.dir=" + path("run"),
           "data.path=" + path("kjv_text_sentence"), "data.vocab_file=" + path("vocab.txt")});
  ASSERT_EQ(trained.code, 0) << trained.out;
  double loss = 0;
  std::ifstream lines(path("run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("valid_lm_loss")) loss = json["valid_lm_loss"];
  }
  const double entropy = unigram_entropy(path("kjv_text_sentence"));
  RecordProperty("masked_lm_loss", std::to_string(loss));
  RecordProperty("unigram_entropy", std::to_string(entropy));
  EXPECT_GT(loss, 1);
  EXPECT_LT(loss, 0.85 * entropy) << entropy;
}

}  // namespace
}  // namespace trireme::testing_cli
