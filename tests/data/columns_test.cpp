// Tests of Parquet and Arrow files written by tests/data/data/make_columns.py.
#include <gmock/gmock.h>

#include "data/byte_tokenizer.h"
#include "data/documents/arrow_file.h"
#include "data/documents/document_chunks.h"
#include "data/indexed_dataset.h"
#include "data/preprocess.h"
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

std::string column_file(const std::string& name) {
  return std::string(TRIREME_TEST_DATA) + "/columns/" + name;
}

// Returns the texts of a column, by row group; nulls are "null".
std::vector<Strings> groups_of(const std::string& file, const std::string& column) {
  const ArrowFile columns(file, {column});
  std::vector<Strings> groups;
  for (std::int64_t g = 0; g < columns.groups(); ++g) {
    Strings& texts = groups.emplace_back();
    ArrowFile::Cursor cursor(columns, g);
    while (const auto rows = cursor.next()) {
      for (std::int64_t r = 0; r < rows->size(); ++r) {
        texts.emplace_back(rows->text(0, r).value_or("null"));
      }
    }
  }
  return groups;
}

class Columns : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_arrow_plugin()) {
      GTEST_SKIP() << "needs the plug-in for Arrow: pip install pyarrow and configure again";
    }
  }
  TempFolder folder_;
};

TEST_F(Columns, OfParquetAreReadGroupByGroup) {
  EXPECT_THAT(groups_of(column_file("plain.parquet"), "text"),
              ElementsAre(ElementsAre("one", "t\xc3\xa9xt two"), ElementsAre("", "four\nlines"),
                          ElementsAre("five")));
  EXPECT_THAT(groups_of(column_file("nulls.parquet"), "text"),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("null", "d")));
  const ArrowFile nulls(column_file("nulls.parquet"), {"text"});
  EXPECT_EQ(nulls.nulls(0, 0), 0);
  EXPECT_EQ(nulls.nulls(1, 0), 1);
}

TEST_F(Columns, OfArrowAreReadBatchByBatch) {
  for (const char* const column : {"text", "large", "view"}) {
    EXPECT_THAT(
        groups_of(column_file("file.arrow"), column),
        ElementsAre(ElementsAre("one", "t\xc3\xa9xt two", ""), ElementsAre("four\nlines", "five")));
    EXPECT_THAT(groups_of(column_file("stream.arrow"), column),
                ElementsAre(ElementsAre("one", "t\xc3\xa9xt two"), ElementsAre("", "four\nlines"),
                            ElementsAre("five")));
  }
  EXPECT_THAT(groups_of(column_file("file.arrow"), "words"),
              ElementsAre(ElementsAre("b", "a", "b"), ElementsAre("b", "a")));
  EXPECT_THAT(groups_of(column_file("stream.arrow"), "words"),
              ElementsAre(ElementsAre("b", "a"), ElementsAre("b", "b"), ElementsAre("a")));
}

TEST_F(Columns, ThatAreMissingOrOfOtherTypesAreRefused) {
  const auto refusal = [](const std::string& file, const std::string& column) {
    return refusal_of([&] { ArrowFile(column_file(file), {column}); });
  };
  EXPECT_THAT(refusal("plain.parquet", "body"),
              AllOf(HasSubstr("plain.parquet': no column \"body\""),
                    HasSubstr("\"id\" (int64), \"text\" (string), \"title\" (string)")));
  EXPECT_THAT(refusal("plain.parquet", "id"),
              HasSubstr("the column \"id\" has the type int64; expected texts"));
  EXPECT_THAT(refusal("lists.parquet", "numbers"), HasSubstr("has the type list<"));
  EXPECT_THAT(refusal("lists.parquet", "deep"), HasSubstr("has the type list<"));
}

// The texts of a row are joined by '|' here, and a null among them is "null".
TEST_F(Columns, OfListsOfTextsHaveTheTextsOfEachRow) {
  for (const std::string name : {"lists.parquet", "lists.arrow"}) {
    for (const std::string column : {"text", "large", "fixed", "view"}) {
      if (column == "view" && name == "lists.parquet") continue;  // Parquet has none
      const ArrowFile columns(column_file(name), {column});
      EXPECT_EQ(columns.nulls(0, 0), std::nullopt);
      Strings rows_found;
      for (std::int64_t g = 0; g < columns.groups(); ++g) {
        ArrowFile::Cursor cursor(columns, g);
        while (const auto rows = cursor.next()) {
          for (std::int64_t r = 0; r < rows->size(); ++r) {
            std::string& row = rows_found.emplace_back();
            for (std::int64_t i = 0; i < rows->texts(0, r); ++i) {
              row += std::string(rows->text(0, r, i).value_or("null")) + "|";
            }
          }
        }
      }
      if (column == "fixed") {
        EXPECT_THAT(rows_found, ElementsAre("a|b|", "c|d|", "null|", "e|f|")) << name;
      } else {
        EXPECT_THAT(rows_found, ElementsAre("one|two|", "", "null|", "t\xc3\xa9xt|null|"))
            << name << column;
      }
    }
  }
}

// Truncation at any point gives an error that names the file, never a crash.
TEST_F(Columns, OfTruncatedFilesAreRefused) {
  for (const char* const name : {"plain.parquet", "file.arrow", "stream.arrow"}) {
    const std::string whole = read_file(column_file(name));
    const std::string cut = folder_ / name;
    for (std::size_t size = 6; size < whole.size(); size += 61) {
      write_bytes(cut, std::string_view(whole).substr(0, size));
      const std::string refusal = refusal_of([&] { groups_of(cut, "text"); });
      // A stream may end between two batches without an end marker.
      if (std::string(name) == "stream.arrow" && refusal == "accepted") continue;
      EXPECT_THAT(refusal, HasSubstr(cut)) << size;
    }
  }
  write_bytes(folder_ / "empty.parquet", "");
  EXPECT_THAT(refusal_of([&] { form_of(folder_ / "empty.parquet", DocumentForm::file, false); }),
              HasSubstr("its contents do not match"));
}

// Flipped bytes give different texts or an error.
TEST_F(Columns, OfDamagedFilesAreReadOrRefused) {
  for (const char* const name : {"plain.parquet", "file.arrow", "stream.arrow"}) {
    const std::string whole = read_file(column_file(name));
    const std::string damaged = folder_ / name;
    for (std::size_t at = 6; at < whole.size(); at += 23) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x5a);
      write_bytes(damaged, bytes);
      refusal_of([&] { groups_of(damaged, "text"); });
    }
  }
}

class PreprocessColumns : public Columns {
 protected:
  PreprocessResult run(const std::string& input, const Strings& keys, bool skip = false) {
    PreprocessOptions options;
    options.inputs = {input};
    options.json_keys = keys;
    options.output_prefix = folder_ / "out";
    options.skip_bad_lines = skip;
    options.workers = 2;
    return preprocess(ByteTokenizer(), options, {});
  }
  Strings texts(const std::string& key) {
    const IndexedDataset data(folder_ / ("out_" + key + "_document"));
    Strings result;
    for (std::int64_t i = 0; i < data.sequences(); ++i) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(i)));
      data.read(i, 0, data.length(i), ids.data());
      result.emplace_back(ids.begin(), ids.end());
    }
    return result;
  }
};

TEST_F(PreprocessColumns, WritesEachColumnInTheFilesOrder) {
  EXPECT_EQ(run(column_file("plain.parquet"), {"text", "title"}).documents, 5);
  EXPECT_THAT(texts("text"), ElementsAre("one", "t\xc3\xa9xt two", "four\nlines", "five"));
  EXPECT_THAT(texts("title"), ElementsAre("ONE", "T\xc3\x89XT TWO", "FOUR\nLINES", "FIVE"));
  run(column_file("bytes.parquet"), {"text"});
  EXPECT_THAT(texts("text"), ElementsAre("good", "bad \xef\xbf\xbd byte"));
}

TEST_F(PreprocessColumns, RefusesOrSkipsNulls) {
  EXPECT_THAT(refusal_of([&] { run(column_file("nulls.parquet"), {"text"}); }),
              HasSubstr("nulls.parquet' row group 1, row 0: the value of \"text\" is null"));
  EXPECT_EQ(run(column_file("nulls.parquet"), {"text"}, true).bad_lines, 1);
  EXPECT_THAT(texts("text"), ElementsAre("a", "b", "d"));
}

TEST_F(PreprocessColumns, ListsOfTextsAreDocumentsOfSeveralSequences) {
  EXPECT_THAT(refusal_of([&] { run(column_file("lists.parquet"), {"text"}); }),
              HasSubstr("row group 1, row 0: the value of \"text\" is null"));
  const PreprocessResult result = run(column_file("lists.parquet"), {"text"}, true);
  EXPECT_EQ(result.bad_lines, 2);
  EXPECT_EQ(result.documents, 2);
  EXPECT_THAT(texts("text"), ElementsAre("one", "two"));
  EXPECT_THAT(refusal_of([&] { run(column_file("plain.parquet"), {"body"}); }),
              HasSubstr("(--json-keys or data.source_keys chooses)"));
}

TEST_F(PreprocessColumns, ReadsFolders) {
  fs::create_directories(folder_ / "corpus/below");
  fs::copy_file(column_file("bytes.parquet"), folder_ / "corpus/below/b.parquet");
  write_bytes(folder_ / "corpus/a.jsonl", "{\"text\": \"first\"}\n");
  write_bytes(folder_ / "corpus/state.json", "{}");
  run(folder_ / "corpus", {"text"});
  EXPECT_THAT(texts("text"), ElementsAre("first", "good", "bad \xef\xbf\xbd byte"));
  fs::create_directories(folder_ / "bare");
  EXPECT_THAT(refusal_of([&] { expand_inputs({folder_ / "bare"}); }),
              HasSubstr("bare' contains no documents: expected .parquet"));
}

}  // namespace
}  // namespace trireme
