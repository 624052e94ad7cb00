// Random folders: the documents of a plain reader, or a refusal that names the file.
#include <gmock/gmock.h>

#include <cstdlib>

#include "data/byte_tokenizer.h"
#include "data/documents/arrow_file.h"
#include "data/documents/corpus.h"
#include "data/indexed_dataset.h"
#include "data/preprocess.h"
#include "data/random_corpus.h"
#include "data/stream/token_stream.h"
#include "refusal.h"
#include "sample.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using testing_data::ByteTokenizer;
using testing_data::RandomCorpus;
using testing_data::TempFolder;
using Strings = std::vector<std::string>;

unsigned first_seed() {
  const char* const given = std::getenv("TRIREME_SEED");
  return given ? static_cast<unsigned>(std::atoi(given)) : 1;
}

// The documents as `preprocess` writes them.
Strings preprocessed(const fs::path& root, const std::string& prefix, PreprocessResult& result) {
  PreprocessOptions options;
  options.inputs = {root.string()};
  options.output_prefix = prefix;
  options.workers = 2;
  result = preprocess(ByteTokenizer(), options, {});
  const IndexedDataset data(prefix + "_text_document");
  Strings documents;
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    std::string text;
    for (std::int64_t i = data.document_start(d); i < data.document_start(d + 1); ++i) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(i)));
      data.read(i, 0, data.length(i), ids.data());
      for (const std::int32_t id : ids) text += static_cast<char>(id);
    }
    if (!text.empty()) documents.push_back(text);
  }
  return documents;
}

// The documents of one epoch as training reads them.
Strings streamed(const fs::path& root, std::size_t count) {
  const auto corpus = std::make_shared<const Corpus>(Strings{root.string()}, CorpusOptions{});
  TokenStream stream(corpus, std::make_shared<ByteTokenizer>(), {.window = {.shuffle_buffer = 0}});
  Strings documents;
  std::string text;
  for (std::int64_t at = 0; documents.size() < count; ++at) {
    std::int32_t id = 0;
    stream.read(at, 1, &id);
    if (id < 256) {
      text += static_cast<char>(id);
    } else {
      documents.push_back(std::move(text));
      text.clear();
    }
  }
  return documents;
}

void try_corpus(unsigned seed) {
  SCOPED_TRACE(fmt::format("TRIREME_SEED={}", seed));
  const TempFolder folder;
  const fs::path root = folder.path() / "corpus";
  const RandomCorpus corpus(root, seed, has_arrow_plugin());
  PreprocessResult result;
  if (!corpus.refused().empty()) {
    const std::string name = (root / corpus.refused()).string();
    EXPECT_THAT(refusal_of([&] { preprocessed(root, folder / "out", result); }), HasSubstr(name));
    EXPECT_THAT(refusal_of([&] { streamed(root, corpus.documents().size() + 2); }),
                HasSubstr(name));
    return;
  }
  const Strings expected = corpus.documents();
  EXPECT_EQ(preprocessed(root, folder / "out", result), expected);
  EXPECT_EQ(streamed(root, expected.size()), expected);
  std::set<std::string> passed_over;
  for (const PassedOver& one : result.passed_over) {
    passed_over.insert(fs::path(one.path).lexically_relative(root).string());
  }
  EXPECT_EQ(passed_over, corpus.passed_over());
}

TEST(Corpora, AreReadAsAPlainReaderDoesOrRefusedByName) {
  for (int i = 0; i < 12; ++i) try_corpus(first_seed() + static_cast<unsigned>(i));
}

TEST(LongCorpora, AreReadAsAPlainReaderDoesOrRefusedByName) {
  for (int i = 0; i < 200; ++i) try_corpus(first_seed() + static_cast<unsigned>(i));
}

}  // namespace
}  // namespace trireme
