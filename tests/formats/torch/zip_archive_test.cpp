// Tests of zip archives: every rule has an archive that violates it.
#include "formats/torch/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "formats/torch/forged.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::vector<ZipEntry> parse(const std::string& file) {
  return parse_zip(std::as_bytes(std::span(file)), "test.pt");
}

std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("'test.pt' is not a valid zip archive"));
    return error.what();
  }
  return "accepted";
}

TEST(ZipArchive, ListsItsEntries) {
  const std::string file = forged_zip({{"b/two", "22"}, {"a", "1"}, {"b/", ""}});
  const auto entries = parse(file);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(file.substr(entries[0].begin, entries[0].bytes), "1");
  EXPECT_EQ(file.substr(entries[2].begin, entries[2].bytes), "22");
  EXPECT_EQ(zip_crc(0, std::as_bytes(std::span(file)).subspan(entries[2].begin, 2)),
            entries[2].crc);
  EXPECT_TRUE(parse(forged_zip({})).empty());
}

TEST(ZipArchive, RefusesWhatTwoReadersCouldReadDifferently) {
  const std::string sound = forged_zip({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(refusal(sound), "accepted");
  EXPECT_THAT(refusal("x" + sound), HasSubstr("does not end where"));
  EXPECT_THAT(refusal(sound + "x"), HasSubstr("truncated, or bytes follow"));
  EXPECT_THAT(refusal(forged_zip({{"a", "1"}, {"a", "2"}})), HasSubstr("'a' twice"));
  EXPECT_THAT(refusal(forged_zip({{"a", "1", 0, 8}})), HasSubstr("'a' is compressed"));
  EXPECT_THAT(refusal(forged_zip({{"a", "1", 0, 0, 1}})), HasSubstr("'a' is encrypted"));
  EXPECT_THAT(refusal(forged_zip({{"a", "1", 0, 0, 0, "c"}})), HasSubstr("contradicts"));
  EXPECT_THAT(refusal(forged_zip({{"a", "1"}, {.name = "b", .content = "2", .listed = false}})),
              HasSubstr("of no entry"));
}

TEST(ZipArchive, RefusesEntriesThatOverlapOrReachBeyond) {
  EXPECT_THAT(refusal(forged_zip({{"a", "1"}, {.name = "b", .content = "2", .local_begin = 0}})),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(forged_zip({{"a", "1"}, {.name = "b", .content = "2", .claimed = 40}})),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(forged_zip({{.name = "a", .content = "123456", .claimed = 2}})),
              HasSubstr("hole"));
  EXPECT_THAT(refusal(forged_zip({{.name = "a", .content = "1", .local_begin = 1 << 30}})),
              HasSubstr("hole"));
}

TEST(ZipArchive, RefusesNamesThatLeadAway) {
  for (const std::string name : {"/a", "../a", "a/../../b", "a/./b", "a\\b", ""}) {
    EXPECT_THAT(refusal(forged_zip({{name, "1"}})), HasSubstr("is not a name for an entry"));
  }
}

}  // namespace
}  // namespace trireme
