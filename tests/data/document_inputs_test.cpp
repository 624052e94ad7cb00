// Tests of which files of a folder belong to a corpus, and of the messages about the others.
#include "data/documents/document_inputs.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "data/compress.h"
#include "data/documents/document_names.h"
#include "data/temp_folder.h"
#include "refusal.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using testing_data::gzip;
using testing_data::TempFolder;
using testing_data::write_bytes;
using Strings = std::vector<std::string>;

constexpr const char* line = "{\"text\": \"one\"}\n";

class DocumentInputs : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::string& bytes = line) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_bytes(folder_ / name, bytes);
  }
  std::string relative(const std::string& path) const {
    return fs::path(path).lexically_relative(folder_.path()).string();
  }
  Strings files(const Strings& patterns = {""}) {
    Strings full;
    for (const std::string& pattern : patterns) full.push_back(folder_ / pattern);
    inputs_ = expand_inputs(full);
    Strings names;
    for (const std::string& file : inputs_.files) names.push_back(relative(file));
    return names;
  }
  Strings passed_over() const {
    Strings names;
    for (const PassedOver& one : inputs_.passed_over) names.push_back(relative(one.path));
    return names;
  }
  std::string refusal(const std::string& name, bool all_text = false) {
    return refusal_of([&] { form_of(folder_ / name, DocumentForm::file, all_text); });
  }

  TempFolder folder_;
  Inputs inputs_;
};

TEST_F(DocumentInputs, OfFoldersHaveManyNames) {
  for (const char* const name :
       {"a.jsonl", "b.JSON", "c.ndjson", "d.txt", "e", "f.7", "g/h.data"}) {
    add(name);
  }
  add("c4.json.gz", gzip(line));
  add("w.GZ", gzip(line));
  EXPECT_THAT(files(), ElementsAre("a.jsonl", "b.JSON", "c.ndjson", "c4.json.gz", "d.txt", "e",
                                   "f.7", "g/h.data", "w.GZ"));
  EXPECT_THAT(passed_over(), ElementsAre());
}

TEST_F(DocumentInputs, WhatIsPassedOverIsSaidWithItsReason) {
  add("a.jsonl");
  add("a.jsonl~");
  add(".ipynb_checkpoints/a-checkpoint.jsonl");
  add("README.txt", "About the corpus.\n");
  add("table.csv", "1,2\n");
  add("b/_SUCCESS", "");
  add("b/_temporary/0/part.json");
  EXPECT_THAT(files(), ElementsAre("a.jsonl"));
  EXPECT_THAT(passed_over(), UnorderedElementsAre("a.jsonl~", ".ipynb_checkpoints", "README.txt",
                                                  "table.csv", "b/_SUCCESS", "b/_temporary"));
  const Strings lines = lines_about(inputs_.passed_over);
  EXPECT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines, ::testing::Contains(AllOf(HasSubstr("skipped 1 entry (hidden folders): '"),
                                               HasSubstr(".ipynb_checkpoints'"))));
}

TEST_F(DocumentInputs, AFolderWithNothingButOtherThingsNamesThem) {
  add("notes.md", "# notes\n");
  EXPECT_THAT(refusal_of([&] { files(); }),
              AllOf(HasSubstr("contains no documents"), HasSubstr("notes.md")));
}

TEST_F(DocumentInputs, NamesThatAUserGivesAreRead) {
  add("README.txt", "text");
  add("copy.jsonl~");
  EXPECT_THAT(files({"README.txt", "copy.jsonl~"}), ElementsAre("README.txt", "copy.jsonl~"));
}

TEST_F(DocumentInputs, PatternsPassOverCopiesAndMarksToo) {
  add("a.jsonl");
  add("a.jsonl~");
  add("_SUCCESS", "");
  add("cache-0123456789abcdef.arrow");
  add("sub/b.jsonl");
  EXPECT_THAT(files({"*"}), ElementsAre("a.jsonl"));
  EXPECT_THAT(passed_over(),
              UnorderedElementsAre("a.jsonl~", "_SUCCESS", "cache-0123456789abcdef.arrow", "sub"));
}

TEST_F(DocumentInputs, StateOfASavedDatasetDecides) {
  add("d/train/state.json",
      "{\"_data_files\": [{\"filename\": \"data-1.arrow\"}, {\"filename\": \"data-0.arrow\"}]}");
  for (const char* const name :
       {"data-0.arrow", "data-1.arrow", "data-2.arrow", "cache-1.arrow", "tmpab"}) {
    add(std::string("d/train/") + name, "ARROW1");
  }
  add("d/dataset_dict.json", "{\"splits\": [\"train\"]}");
  for (const char* const pattern : {"d", "d/train", "d/train/*"}) {
    EXPECT_THAT(files({pattern}), ElementsAre("d/train/data-1.arrow", "d/train/data-0.arrow"))
        << pattern;
    EXPECT_THAT(passed_over(),
                ::testing::IsSupersetOf({"d/train/data-2.arrow", "d/train/cache-1.arrow"}));
  }
  add("d/train/state.json", "{\"_data_files\": [{\"filename\": \"data-9.arrow\"}]}");
  EXPECT_THAT(refusal_of([&] { files({"d"}); }),
              HasSubstr("lists 'data-9.arrow', which does not exist"));
  add("d/train/state.json",
      "{\"_data_files\": [], \"_indices_data_files\": [{\"filename\": \"i.arrow\"}]}");
  EXPECT_THAT(refusal_of([&] { files({"d"}); }), HasSubstr("flatten_indices()"));
  add("d/train/state.json", "{\"_data_files\": 5}");
  EXPECT_THAT(refusal_of([&] { files({"d"}); }), HasSubstr("state.json': expected a list"));
}

TEST_F(DocumentInputs, CachesOfTheHubAreReadOnce) {
  add("datasets--a/blobs/0123456789");
  add("datasets--a/refs/main", "abc");
  fs::create_directories(folder_ / "datasets--a/snapshots/abc");
  fs::create_symlink("../../blobs/0123456789", folder_ / "datasets--a/snapshots/abc/a.jsonl");
  EXPECT_THAT(files(), ElementsAre("datasets--a/snapshots/abc/a.jsonl"));
  EXPECT_THAT(passed_over(), UnorderedElementsAre("datasets--a/blobs", "datasets--a/refs"));
}

TEST_F(DocumentInputs, OfSeveralRevisionsInACacheOfTheHubRefsMainCounts) {
  for (const char* const revision : {"abc", "def"})
    add(std::string("datasets--a/snapshots/") + revision + "/a.jsonl");
  add("datasets--a/refs/main", "def\n");
  EXPECT_THAT(files(), ElementsAre("datasets--a/snapshots/def/a.jsonl"));
  EXPECT_THAT(files({"datasets--a/snapshots"}), ElementsAre("datasets--a/snapshots/def/a.jsonl"));
  EXPECT_THAT(passed_over(), ElementsAre("datasets--a/snapshots/abc"));
  add("datasets--a/refs/main", "");
  EXPECT_THAT(refusal_of([&] { files(); }), AllOf(HasSubstr("snapshots' contains 2 revisions"),
                                                  HasSubstr("give the folder of one")));
}

TEST_F(DocumentInputs, SplitsOfASavedDatasetAreNotMixed) {
  add("d/train/a.jsonl");
  add("d/dataset_dict.json", "{\"splits\": [\"train\"]}");
  EXPECT_THAT(files({"d"}), ElementsAre("d/train/a.jsonl"));
  add("d/test/a.jsonl");
  add("d/dataset_dict.json", "{\"splits\": [\"train\", \"test\"]}");
  EXPECT_THAT(refusal_of([&] { files(); }),
              AllOf(HasSubstr("/d' is a saved dataset with the splits train, test"),
                    HasSubstr("/d/train'")));
  EXPECT_THAT(files({"d/train"}), ElementsAre("d/train/a.jsonl"));
}

TEST_F(DocumentInputs, TablesWithALogAreRefused) {
  for (const char* const log : {"_delta_log", "_spark_metadata", ".hoodie"}) {
    const std::string table = std::string("t") + log;
    add(table + "/part-0.jsonl");
    fs::create_directories(folder_ / (table + "/" + log));
    EXPECT_THAT(refusal_of([&] { files({table}); }),
                AllOf(HasSubstr(table), HasSubstr(log), HasSubstr("*.parquet")));
    EXPECT_THAT(files({table + "/*.jsonl"}), ElementsAre(table + "/part-0.jsonl"));
  }
}

TEST_F(DocumentInputs, SayWhatMayNotBeMeant) {
  add("a.jsonl");
  EXPECT_THAT(files(), ElementsAre("a.jsonl"));
  EXPECT_THAT(inputs_.doubts, ElementsAre());
  add("b.jsonl._x", "{\"text\": \"two\"}\n");
  add("a (1).jsonl");
  add("list.txt", "http://a\n");
  add("lines.txt", "{\"text\": \"three\"}\n");
  add("c-train-0.jsonl", "{\"text\": \"four\"}\n");
  add("c-valid-0.jsonl", "{\"text\": \"five\"}\n");
  EXPECT_EQ(files().size(), 7u);
  EXPECT_THAT(inputs_.doubts,
              ElementsAre(HasSubstr("1 file is read because of its contents, not its name: '"),
                          AllOf(HasSubstr("1 text is read among 6 files"), HasSubstr("list.txt")),
                          AllOf(HasSubstr("1 file looks like a copy of another"),
                                HasSubstr("a.jsonl' of '"), HasSubstr("a (1).jsonl'")),
                          HasSubstr("read together: train (1 file), validation (1 file)")));
}

TEST_F(DocumentInputs, SayThatAFileMayBeThereWithAndWithoutCompression) {
  add("a.jsonl");
  add("a.jsonl.gz", gzip("{\"text\": \"one\"}\n"));
  add("b/a.jsonl.xz", testing_data::xz("{\"text\": \"one\"}\n"));
  add("c.txt.gz", gzip("one"));
  add("C.TXT.zst", testing_data::zstd("one"));
  EXPECT_EQ(files().size(), 5u);
  EXPECT_THAT(
      inputs_.doubts,
      testing::Contains(AllOf(HasSubstr("3 compressed files lie next to others of the same name"),
                              HasSubstr("a.jsonl.gz'"), HasSubstr("c.txt.gz'"),
                              HasSubstr("C.TXT.zst'"), Not(HasSubstr("a.jsonl.xz'")))));
}

TEST_F(DocumentInputs, InOtherEncodingsAreRefused) {
  std::string latin, shift_jis, cyrillic_wide;
  for (int i = 0; i < 30; ++i) {
    latin += "d\xe9j\xe0 vu ";
    shift_jis += "\x93\xfa\x96\x7b\x8c\xea ";
    cyrillic_wide += "\x3f\x04\x40\x04\x38\x04";
  }
  for (const std::string& text : {latin, shift_jis}) {
    for (const std::string name : {"a.txt", "a.jsonl", "a.txt.gz"}) {
      const std::string bytes = name == "a.jsonl" ? "{\"text\": \"" + text + "\"}\n" : text;
      add(name, name == "a.txt.gz" ? gzip(bytes) : bytes);
      EXPECT_THAT(refusal(name), AllOf(HasSubstr(name), HasSubstr("iconv -f ENCODING")));
    }
  }
  add("a.txt", cyrillic_wide);
  EXPECT_THAT(refusal("a.txt"), HasSubstr("is not text"));
  add("a.txt", latin.substr(0, 20) + " \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82");
  EXPECT_EQ(refusal("a.txt"), "accepted");  // a few stray bytes
  std::string surrogates;
  for (int i = 0; i < 30; ++i) surrogates += "smile \xed\xa0\xbd\xed\xb8\x80 ";
  add("a.txt", surrogates);
  EXPECT_EQ(refusal("a.txt"), "accepted");  // Java writes characters beyond 16 bits this way
}

TEST_F(DocumentInputs, LinksAreFollowedOnceAndMustLeadSomewhere) {
  add("a/b.jsonl");
  fs::create_directory_symlink("..", folder_ / "a/loop");
  EXPECT_THAT(files(), ElementsAre("a/b.jsonl"));
  EXPECT_THAT(passed_over(), ElementsAre("a/loop"));
  fs::create_symlink("nowhere", folder_ / "a/c.jsonl");
  EXPECT_THAT(refusal_of([&] { files(); }), AllOf(HasSubstr("a/c.jsonl' is a link to 'nowhere'")));
}

TEST_F(DocumentInputs, PipesAreNotWaitedFor) {
  add("a.jsonl");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(files(), ElementsAre("a.jsonl"));
  EXPECT_THAT(passed_over(), ElementsAre("pipe.jsonl"));
  EXPECT_THAT(refusal_of([&] { files({"pipe.jsonl"}); }), HasSubstr("neither a file nor a folder"));
}

TEST_F(DocumentInputs, UnknownCompressionInAFolderIsRefusedWhateverItsName) {
  for (const char* const name : {"a.jsonl.bz2", "b.dat", "c", "d.txt"}) {
    TempFolder folder;
    write_bytes(folder / "good.jsonl", line);
    write_bytes(folder / name, "BZh91AY&SY]\xf2");
    const std::string refusal = refusal_of([&] {
      for (const std::string& file : expand_inputs({folder.path().string()}).files) {
        form_of(file, DocumentForm::file, false);
      }
    });
    EXPECT_THAT(refusal, AllOf(HasSubstr(name), HasSubstr("bzip2 -d")));
  }
}

TEST_F(DocumentInputs, TextModeAcceptsPagesAloneOfWhatIsNoText) {
  add("page.txt", "<!DOCTYPE html><p>a");
  EXPECT_THAT(refusal("page.txt"), AllOf(HasSubstr("a web page"), HasSubstr("--text-mode")));
  EXPECT_EQ(refusal("page.txt", true), "accepted");
  const std::pair<std::string, std::string> others[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n", "git lfs pull"},
      {std::string("\xff\xfe") + std::string("h\0i\0", 4), "UTF-16"},
      {std::string("h\0i\0", 4), "UTF-16"},
      {"PAR1....", "Parquet"},
      {gzip("PAR1...."), "Parquet"},
      {gzip(gzip(line)), "gzip"},
      {"\x8b\x01\x02\x03\xff binary", "is not text"},
      {std::string("one\0NUL", 7), "is not text"}};
  for (const auto& [bytes, what] : others) {
    add("a.txt", bytes);
    for (const bool all_text : {false, true}) {
      if (!all_text && bytes.starts_with("PAR1")) continue;  // a columnar file, by its first bytes
      EXPECT_THAT(refusal("a.txt", all_text), AllOf(HasSubstr("a.txt"), HasSubstr(what))) << what;
    }
  }
  for (const std::string& text : {std::string("caf\xe9 in Latin-1"),
                                  std::string("form\x0c"
                                              "feed \x1b[1m"),
                                  std::string()}) {
    add("a.txt", text);
    EXPECT_EQ(refusal("a.txt"), "accepted");
  }
}

TEST(DocumentNames, SayCompressionAndKind) {
  EXPECT_EQ(compression_named("a.jsonl.GZ"), "gzip");
  EXPECT_EQ(compression_named("a.zst"), "zstd");
  EXPECT_EQ(compression_named(".gz"), "");
  EXPECT_EQ(compression_named("a.jsonl"), "");
  EXPECT_TRUE(is_text_name("A.TXT.xz"));
  EXPECT_TRUE(is_json_name("a.Json.gz"));
  EXPECT_FALSE(is_json_name("json"));
  EXPECT_TRUE(is_columns_name("a.PARQUET"));
  for (const char* const name :
       {"a~", "#a#", "a.swp", ".a.jsonl.swp", "a.jsonl.bak.gz", "_SUCCESS", "Readme.MD", "LICENSE",
        ".part.crc", ".DS_Store", "a.json.part", "a.jsonl.bak2", "a.jsonl.save.1",
        "a.jsonl._COPYING_", "a.jsonl.filepart", "tmp0a_b9zq1", "_committed_12", "README_en.txt",
        "LICENSE-CC.txt"}) {
    EXPECT_NE(reason_to_pass_over(name), "") << name;
  }
  for (const char* const name :
       {"a.jsonl", "readme_corpus.jsonl", "license.jsonl", "license-1.txt", "readme_20.md", "tmp",
        "old.txt", "notice_1943.txt", "a.jsonl.1", "tmptext.txt", "bak2"}) {
    EXPECT_EQ(reason_to_pass_over(name), "") << name;
  }
}

}  // namespace
}  // namespace trireme
