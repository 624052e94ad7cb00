// Tests of preprocessing text files into indexed token files.
#include "data/preprocess.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <zlib.h>

#include <csignal>

#include "data/byte_tokenizer.h"
#include "data/indexed_dataset.h"
#include "data/temp_folder.h"
#include "few_threads.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using testing_data::ByteTokenizer;
using testing_data::expect_error;
using testing_data::TempFolder;
using testing_data::write_bytes;
using Ids = std::vector<std::int32_t>;

class Preprocess : public ::testing::Test {
 protected:
  PreprocessOptions options_of(const std::string& input) {
    PreprocessOptions options;
    options.inputs = {folder_ / input};
    options.output_prefix = folder_ / "out";
    options.workers = 2;
    return options;
  }
  PreprocessResult run(const PreprocessOptions& options) {
    return preprocess(ByteTokenizer(), options, {});
  }
  // Returns the texts of all sequences of an output.
  std::vector<std::string> texts(const std::string& name = "out_text_document") {
    const IndexedDataset data(folder_ / name);
    std::vector<std::string> result;
    for (std::int64_t i = 0; i < data.sequences(); ++i) {
      Ids ids(static_cast<std::size_t>(data.length(i)));
      data.read(i, 0, data.length(i), ids.data());
      std::string& text = result.emplace_back();
      for (const std::int32_t id : ids) text += id == 256 ? '$' : static_cast<char>(id);
    }
    return result;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  TempFolder folder_;
};

TEST_F(Preprocess, LinesOfJsonBecomeDocuments) {
  write_bytes(folder_ / "a.jsonl",
              "\xef\xbb\xbf{\"text\": \"one\", \"id\": 1}\r\n\n"
              "{\"id\": 123456789012345678901234567890, \"text\": \"t\\u0077o\\n\"}\n"
              "{\"text\": \"\"}\n"
              "{\"text\": \"x\", \"text\": \"last\"}\n"
              "{\"text\": [\"two \", \"\", \"sequences\"]}\n"
              "{\"text\": \"bad \xff byte and \\ud800 alone\"}");
  PreprocessOptions options = options_of("a.jsonl");
  options.append_eod = true;
  const PreprocessResult result = run(options);
  EXPECT_EQ(result.documents, 6);
  EXPECT_THAT(texts(), ElementsAre("one$", "two\n$", "last$", "two ", "sequences$",
                                   "bad \xef\xbf\xbd byte and \xef\xbf\xbd alone$"));
  // An empty text becomes a document without sequences and end-of-document token, as upstream.
  const IndexedDataset data(folder_ / "out_text_document");
  EXPECT_EQ(data.documents(), 6);
  EXPECT_EQ(data.document_start(2), 2);
  EXPECT_EQ(data.document_start(3), 2);
  EXPECT_EQ(result.outputs[0].sequences, 6);
  EXPECT_EQ(result.outputs[0].tokens, data.tokens());
  EXPECT_EQ(files(), 3u);
}

TEST_F(Preprocess, SeveralKeysGiveSeveralOutputs) {
  write_bytes(folder_ / "a.jsonl", "{\"a\": \"1\", \"b\": \"2\"}\n{\"b\": \"4\", \"a\": \"3\"}\n");
  PreprocessOptions options = options_of("a.jsonl");
  options.json_keys = {"b", "a"};
  run(options);
  EXPECT_THAT(texts("out_a_document"), ElementsAre("1", "3"));
  EXPECT_THAT(texts("out_b_document"), ElementsAre("2", "4"));
  options.json_keys = {"a", "a"};
  expect_error(ExitCode::bad_input, {"'a'", "duplicate"}, [&] { run(options); });
}

TEST_F(Preprocess, TheFilesOfAllKeysAppearTogether) {
  write_bytes(folder_ / "a.jsonl", "{\"a\": \"1\", \"b\": \"2\"}\n");
  fs::create_directory(folder_ / "out_b_document.idx.tmp");  // the last file to be written
  PreprocessOptions options = options_of("a.jsonl");
  options.json_keys = {"a", "b"};
  expect_error(ExitCode::bad_input, {"out_b_document.idx.tmp"}, [&] { run(options); });
  EXPECT_EQ(files(), 2u);
  fs::remove(folder_ / "out_b_document.idx.tmp");
  run(options);
  EXPECT_THAT(texts("out_b_document"), ElementsAre("2"));
}

TEST_F(Preprocess, BadLinesAreNamedOrCounted) {
  const std::pair<std::string, std::string> bad[] = {
      {"{\"text\": \"cut", "not JSON"},
      {"{\"text\": \"a\"} x", "not JSON"},
      {"[1, 2]", "not a JSON object but a list"},
      {"{\"txt\": \"a\"}", "no key \"text\""},
      {"{\"text\": 5}", "is the number 5, not a string"},
      {"{\"text\": null}", "is null"},
      {"{\"text\": [\"a\", 1]}", "holds the number 1"},
      {std::string("\0\0", 2), "not JSON"}};
  for (const auto& [line, reason] : bad) {
    write_bytes(folder_ / "a.jsonl",
                fmt::format("{{\"text\": \"ok\"}}\n\n{0}\n{0}\n{{\"text\": \"end\"}}\n", line));
    PreprocessOptions options = options_of("a.jsonl");
    expect_error(ExitCode::bad_input, {"a.jsonl' line 3: ", reason}, [&] { run(options); });
    EXPECT_EQ(files(), 1u);
    options.skip_bad_lines = true;
    const PreprocessResult result = run(options);
    EXPECT_EQ(result.bad_lines, 2);
    EXPECT_THAT(result.first_bad_line, ::testing::HasSubstr("line 3"));
    EXPECT_THAT(texts(), ElementsAre("ok", "end"));
    fs::remove(folder_ / "out_text_document.bin");
    fs::remove(folder_ / "out_text_document.idx");
  }
}

TEST_F(Preprocess, FirstBadLineIsNamedWhateverTheNumberOfWorkers) {
  std::string lines;
  for (int i = 1; i <= 60'000; ++i) {
    lines += i % 20'000 == 0 ? "{broken}\n" : "{\"text\": \"" + std::string(60, 'x') + "\"}\n";
  }
  write_bytes(folder_ / "a.jsonl", lines);
  for (const int workers : {1, 2, 5}) {
    PreprocessOptions options = options_of("a.jsonl");
    options.workers = workers;
    expect_error(ExitCode::bad_input, {"line 20000"}, [&] { run(options); });
    options.skip_bad_lines = true;
    EXPECT_EQ(run(options).bad_lines, 3);
  }
}

TEST_F(Preprocess, BytesDoNotDependOnWorkers) {
  std::string lines;
  for (int i = 0; i < 30'000; ++i) {
    lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(i * 7919 % 211), 'a' + i % 26) +
             "\"}\n";
  }
  write_bytes(folder_ / "a.jsonl", lines + "{\"text\": \"" + std::string(3 << 20, 'z') + "\"}\n");
  std::string bin, idx;
  for (const int workers : {1, 2, 3, 8}) {
    PreprocessOptions options = options_of("a.jsonl");
    options.workers = workers;
    EXPECT_EQ(run(options).documents, 30'001);
    const std::string bin_now = read_file(folder_ / "out_text_document.bin");
    const std::string idx_now = read_file(folder_ / "out_text_document.idx");
    if (workers > 1) {
      EXPECT_TRUE(bin_now == bin && idx_now == idx) << workers;
    }
    bin = bin_now;
    idx = idx_now;
  }
}

TEST_F(Preprocess, PlainTextInItsThreeForms) {
  const std::string text = "\n \nfirst line\nsecond line\n\n  \t\nthird\r\n\r\nfourth \xff";
  write_bytes(folder_ / "a.txt", text);
  PreprocessOptions options = options_of("a.txt");
  run(options);
  EXPECT_THAT(
      texts(),
      ElementsAre("\n \nfirst line\nsecond line\n\n  \t\nthird\r\n\r\nfourth \xef\xbf\xbd"));
  options.text_documents = DocumentForm::paragraphs;
  run(options);
  EXPECT_THAT(texts(), ElementsAre("first line\nsecond line", "third", "fourth \xef\xbf\xbd"));
  options.text_documents = DocumentForm::line;
  run(options);
  EXPECT_THAT(texts(), ElementsAre("first line", "second line", "third", "fourth \xef\xbf\xbd"));
  fs::rename(folder_ / "a.txt", folder_ / "a.md");
  options.inputs = {folder_ / "a.md"};
  expect_error(ExitCode::bad_input, {"line 3", "not JSON"}, [&] { run(options); });
  options.all_text = true;
  EXPECT_EQ(run(options).documents, 4);
}

TEST_F(Preprocess, LargeTextsThatAreOneDocumentAreSaid) {
  std::string text;
  while (text.size() < 1 << 20) text += "a line of a long text\n";
  write_bytes(folder_ / "a.txt", text);
  write_bytes(folder_ / "b.txt", "a short text");
  PreprocessOptions options = options_of("a.txt");
  options.inputs.push_back(folder_ / "b.txt");
  EXPECT_THAT(run(options).large_documents, ElementsAre(::testing::EndsWith("a.txt")));
  options.text_documents = DocumentForm::line;
  EXPECT_THAT(run(options).large_documents, ElementsAre());
}

TEST_F(Preprocess, BytesThatAreNotUtf8AreCounted) {
  write_bytes(
      folder_ / "a.jsonl",
      "{\"text\": \"one\"}\n{\"text\": \"tw\xe9\", \"b\": 1}\n{\"b\": \"\xff\", \"text\": \"x\"}\n");
  const PreprocessResult lines = run(options_of("a.jsonl"));
  EXPECT_EQ(lines.repaired_documents, 1);
  EXPECT_THAT(lines.first_repaired, ::testing::EndsWith("a.jsonl' line 2"));
  write_bytes(folder_ / "a.jsonl", R"({"text": "a \ud83d\ude00", "b": "\ud83d"}
{"text": "\ufffd"}
{"text": "a \ud83d b"}
)");
  const PreprocessResult surrogates = run(options_of("a.jsonl"));
  EXPECT_EQ(surrogates.repaired_documents, 1);
  EXPECT_THAT(surrogates.first_repaired, ::testing::EndsWith("a.jsonl' line 3"));
  write_bytes(folder_ / "a.txt", "one\ntw\xe9\n\nth\xffree\n");
  PreprocessOptions options = options_of("a.txt");
  options.text_documents = DocumentForm::line;
  const PreprocessResult text = run(options);
  EXPECT_EQ(text.repaired_documents, 2);
  EXPECT_THAT(text.first_repaired, ::testing::EndsWith("a.txt' line 2"));
}

TEST_F(Preprocess, NulsInTextAreRefusedWhereverTheyAre) {
  const std::string long_text(9000, 'a');
  write_bytes(folder_ / "a.txt", "one\n" + long_text + "\nthree" + std::string(512, '\0'));
  expect_error(ExitCode::bad_input, {"a.txt' line 3 contains NUL bytes", "tr -d"},
               [&] { run(options_of("a.txt")); });
  PreprocessOptions options = options_of("a.txt");
  options.text_documents = DocumentForm::line;
  options.skip_bad_lines = true;
  EXPECT_EQ(run(options).documents, 2);
}

TEST_F(Preprocess, TextNamedTxtIsToldFromJsonByItsContent) {
  const std::string lines = "\n {\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  write_bytes(folder_ / "a.txt", "\xef\xbb\xbf" + lines);
  write_bytes(folder_ / "b.txt", "{ not JSON }");
  PreprocessOptions options = options_of("a.txt");
  options.inputs.push_back(folder_ / "b.txt");
  const PreprocessResult result = run(options);
  EXPECT_THAT(texts(), ElementsAre("one", "two", "{ not JSON }"));
  EXPECT_THAT(result.json_lines_in_txt, ElementsAre(folder_ / "a.txt"));
  options.all_text = true;
  EXPECT_THAT(run(options).json_lines_in_txt, ::testing::IsEmpty());
  EXPECT_THAT(texts(), ElementsAre(lines, "{ not JSON }"));
  // The files contain JSON, but not JSON lines: an explicit choice of the format is required.
  for (const char* other : {"{\n  \"text\": \"one\"\n}", "[\n{\"text\": \"one\"}]", "[\"one\"]"}) {
    write_bytes(folder_ / "c.txt", other);
    options = options_of("c.txt");
    expect_error(ExitCode::bad_input, {"c.txt", "not one object per line", "--text-mode"},
                 [&] { run(options); });
    options.all_text = true;
    EXPECT_EQ(run(options).documents, 1);
  }
}

TEST_F(Preprocess, ReadsTheNumbersThatPythonWrites) {
  write_bytes(folder_ / "a.jsonl",
              "{\"score\": NaN, \"text\": \"one NaN\", \"more\": [Infinity, -Infinity]}\n"
              "{\"text\": \"\\\"NaN\", \"NaN\": -Infinity}\n");
  run(options_of("a.jsonl"));
  EXPECT_THAT(texts(), ElementsAre("one NaN", "\"NaN"));
  write_bytes(folder_ / "a.jsonl", "{\"text\": NaN}\n");
  expect_error(ExitCode::bad_input, {"line 1", "\"text\"", "not a string"},
               [&] { run(options_of("a.jsonl")); });
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"a\", \"score\": nan}\n");
  expect_error(ExitCode::bad_input, {"line 1", "not JSON"}, [&] { run(options_of("a.jsonl")); });
}

TEST_F(Preprocess, NamesTheKeysThatALineHas) {
  write_bytes(folder_ / "a.jsonl", "{\"content\": \"a\", \"id\": 1}\n");
  expect_error(ExitCode::bad_input, {"line 1", "no key \"text\"; its keys are \"content\", \"id\""},
               [&] { run(options_of("a.jsonl")); });
}

TEST_F(Preprocess, ParagraphsAreNotCutByChunks) {
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back(std::string(static_cast<std::size_t>(i % 1700 + 1), 'a' + i % 26) + "\nx");
    text += expected.back() + (i % 3 ? "\n\n" : "\n \t\r\n\n\n");
  }
  write_bytes(folder_ / "a.txt", text);
  PreprocessOptions options = options_of("a.txt");
  options.text_documents = DocumentForm::paragraphs;
  run(options);
  EXPECT_EQ(texts(), expected);
}

TEST_F(Preprocess, SeveralFilesPatternsAndCompressionInOrder) {
  write_bytes(folder_ / "b.jsonl", "{\"text\": \"b\"}");
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"a\"}\n");
  write_bytes(folder_ / "c.txt", "c");
  gzFile zipped = gzopen((folder_ / "d.jsonl.gz").c_str(), "wb");
  gzputs(zipped, "{\"text\": \"d\"}\n");
  gzclose(zipped);
  PreprocessOptions options = options_of("c.txt");
  options.inputs.push_back(folder_ / "*.jsonl");
  options.inputs.push_back(folder_ / "d.*.gz");
  run(options);
  EXPECT_THAT(texts(), ElementsAre("c", "a", "b", "d"));
  options.inputs = {folder_ / "nothing*"};
  expect_error(ExitCode::bad_input, {"nothing*"}, [&] { run(options); });
  fs::create_directories(folder_ / "bare");
  options.inputs = {folder_ / "bare"};
  expect_error(ExitCode::bad_input, {"bare' contains no documents"}, [&] { run(options); });
}

TEST_F(Preprocess, SentencesBecomeSequences) {
  write_bytes(folder_ / "a.jsonl",
              "{\"text\": \"One. Two!\\n\\nThree\"}\n{\"text\": \" \"}\n{\"text\": \"Four\"}\n");
  PreprocessOptions options = options_of("a.jsonl");
  options.split_sentences = true;
  options.append_eod = true;
  run(options);
  EXPECT_THAT(texts("out_text_sentence"), ElementsAre("One.", "Two!", "Three$", "Four$"));
  const IndexedDataset data(folder_ / "out_text_sentence");
  EXPECT_EQ(data.documents(), 3);
  EXPECT_EQ(data.document_start(2), 3);
  options.keep_newlines = true;
  run(options);
  EXPECT_THAT(texts("out_text_sentence"), ElementsAre("One. ", "Two!\n\n", "Three$", "Four$"));
}

TEST_F(Preprocess, SaysWhenThreadsCannotStart) {
  write_bytes(folder_ / "a.txt", "text");
  fs::permissions(folder_.path(), fs::perms::all);  // the child drops root privileges
  PreprocessOptions options = options_of("a.txt");
  options.workers = 64;
  EXPECT_EXIT(exit_with_few_threads([&] { run(options); }), testing::ExitedWithCode(1),
              "cannot start another thread: .*; use fewer --workers than 64");
  EXPECT_EQ(files(), 1u);
}

TEST_F(Preprocess, TokenTypeFollowsTheVocabulary) {
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"abc\"}\n");
  const PreprocessOptions options = options_of("a.jsonl");
  preprocess(ByteTokenizer(65'499), options, {});
  EXPECT_EQ(IndexedDataset(folder_ / "out_text_document").token_type(), TokenType::u16);
  preprocess(ByteTokenizer(65'500), options, {});
  EXPECT_EQ(IndexedDataset(folder_ / "out_text_document").token_type(), TokenType::i32);
}

TEST_F(Preprocess, NothingToReadOrNowhereToWriteIsSaid) {
  write_bytes(folder_ / "a.jsonl", "\n\n");
  PreprocessOptions options = options_of("a.jsonl");
  expect_error(ExitCode::bad_input, {"no document"}, [&] { run(options); });
  options.output_prefix = folder_ / "a.jsonl/out";
  expect_error(ExitCode::bad_input, {"cannot create folder", "a.jsonl"}, [&] { run(options); });
  EXPECT_EQ(files(), 1u);
}

TEST_F(Preprocess, FullDiskIsOneClearMessageAndKeepsTheOldFiles) {
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"old\"}\n");
  const PreprocessOptions options = options_of("a.jsonl");
  run(options);
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"" + std::string(8 << 20, 'x') + "\"}\n");
  // A file size limit simulates a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ExitCode::failed, {"cannot write", "out_text_document.bin"}, [&] { run(options); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(files(), 3u);
  EXPECT_THAT(texts(), ElementsAre("old"));
}

}  // namespace
}  // namespace trireme
