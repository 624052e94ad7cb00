// Tests of recognizing files of an unexpected format by their first bytes.
#include "base/foreign_bytes.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "refusal.h"

namespace trireme {
namespace {

using namespace std::string_view_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = ForeignBytes::Kind;

TEST(ForeignBytes, AreNamed) {
  const std::string tar =
      std::string("part.jsonl").append(247, '\0') + "ustar\00000" + std::string(300, '\0');
  const std::tuple<std::string_view, Kind, std::string> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n", Kind::stand_in,
       "Git LFS"},
      {"/annex/objects/SHA256E-s12--ab.safetensors\n", Kind::stand_in, "git-annex"},
      {"../../.git/annex/objects/Xx/Zz/SHA256E-s12--ab", Kind::stand_in, "git-annex"},
      {"# xet version 0\nfilesize = 12\n", Kind::stand_in, "Xet"},
      {"../../blobs/4d7a214614ab2935c943f9e0ff69d22eadbb8f32", Kind::stand_in, "of a link"},
      {"\0GITCRYPT\0abc"sv, Kind::stand_in, "git-crypt"},
      {"Entry not found", Kind::stand_in, "server"},
      {"Access to model org/x is restricted. You must be authenticated.\n", Kind::stand_in,
       "server"},
      {"{\"error\":\"Repository not found\"}", Kind::stand_in, "server"},
      {"<!DOCTYPE html>\n<html>", Kind::web_page, "web page"},
      {"\xef\xbb\xbf \n<HTML lang=en>", Kind::web_page, "web page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", Kind::web_page, "XML"},
      {"<Error><Code>NoSuchKey</Code>", Kind::web_page, "web page"},
      {"<mediawiki xmlns=\"http://www.mediawiki.org\">", Kind::web_page, "XML"},
      {"429: Too Many Requests\n", Kind::stand_in, "server"},
      {"%PDF-1.7\n1 0 obj", Kind::stand_in, "PDF"},
      {"%!PS-Adobe-3.0\n", Kind::stand_in, "PostScript"},
      {"{\\rtf1\\ansi A text.}", Kind::stand_in, "RTF"},
      {"WARC/1.0\r\nWARC-Type: warcinfo\r\n", Kind::stand_in, "WARC"},
      {"\x1f\x8b\x08\0\0\0\0\0"sv, Kind::compressed, "gzip"},
      {"\x28\xb5\x2f\xfd\x24\0"sv, Kind::compressed, "zstd"},
      {"\x53\x2a\x4d\x18\x04\0\0\0abcd"sv, Kind::compressed, "skippable frame"},
      {"BZh91AY&SY]\xf2"sv, Kind::compressed, "bzip2"},
      {"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0"sv, Kind::compressed, "bzip2"},
      {"\x04\"M\x18@@"sv, Kind::compressed, "lz4"},
      {"]\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0=\x88"sv, Kind::compressed, "lzma"},
      {"]\0\0\0\x01\x10\0\0\0\0\0\0\0\0=\x88"sv, Kind::compressed, "lzma"},
      {"PK\x03\x04\x14\0"sv, Kind::compressed, "zip"},
      {"7z\xbc\xaf\x27\x1c\0\x04"sv, Kind::compressed, "7-Zip"},
      {"\xff\x06\0\0sNaPpY\x01"sv, Kind::compressed, "snappy"},
      {"LZIP\x01\x17"sv, Kind::compressed, "lzip"},
      {tar, Kind::compressed, "tar archive"},
      {"\xff\xfe{\0\"\0"sv, Kind::wide_text, "UTF-16"},
      {"\xfe\xff\0{"sv, Kind::wide_text, "UTF-16"},
      {"\xff\xfe\0\0{\0\0\0"sv, Kind::wide_text, "UTF-32"},
      {"{\0\"\0\x2d\x4e"sv, Kind::wide_text, "UTF-16"},
      {"\0a\0b"sv, Kind::wide_text, "UTF-16"},
      {"a\0\0\0b\0\0\0"sv, Kind::wide_text, "UTF-32"},
      {"\0\0\0a\0\0\0b"sv, Kind::wide_text, "UTF-32"},
      {"\x93NUMPY\x01\0"sv, Kind::tokens, "NumPy"},
      {"\x88\xd8\x34\x01\x01\0\0\0"sv, Kind::tokens, "llm.c"},
      {"\xa1\xd9\x34\x01\x07\0\0\0"sv, Kind::tokens, "llm.c"},
  };
  for (const auto& [bytes, kind, what] : cases) {
    const auto found = find_foreign_bytes(bytes);
    ASSERT_TRUE(found) << what;
    EXPECT_EQ(found->kind, kind) << what;
    EXPECT_THAT(found->what, HasSubstr(what));
    EXPECT_THAT(refusal_of([&] { refuse_if_foreign("dir/file", bytes); }),
                AllOf(HasSubstr("'dir/file' is "), HasSubstr(found->remedy)));
  }
}

TEST(ForeignBytes, AreNotSeenInTexts) {
  for (const std::string_view text : {""sv,
                                      "a"sv,
                                      "{\"text\": \"a\"}"sv,
                                      "version 3 of the text"sv,
                                      "BZh9 is how bzip2 begins"sv,
                                      "PKzip"sv,
                                      "LZIP is a program"sv,
                                      "<doc id=\"1\">"sv,
                                      "<unk>\n<s>"sv,
                                      "] odd beginning"sv,
                                      "\xef\xbb\xbf{\"text\": 1}"sv,
                                      "\xe4\xb8\xad\xe6\x96\x87"sv,
                                      "\0\0\0\0\0\0\0\0"sv,
                                      "7z a.7z"sv,
                                      "% PDF is a format"sv,
                                      "WARC is a format"sv,
                                      "Forbidden love"sv,
                                      "Rar!"sv,
                                      "Not Found in Translation"sv,
                                      "../blobs/ is a folder"sv,
                                      "Access to model trains"sv,
                                      "{\"error\":\"\", \"text\": \"a\"}"sv,
                                      "\n\x0e\n\x05<unk>"sv,
                                      "a\0b"sv}) {
    EXPECT_FALSE(find_foreign_bytes(text)) << text;
  }
}

TEST(ForeignBytes, BinaryFilesAreOnlyHeldAgainstWhatStandsInForThem) {
  EXPECT_EQ(refusal_of([] { refuse_if_placeholder("f", "PK\x03\x04 torch"); }), "accepted");
  EXPECT_THAT(refusal_of([] { refuse_if_placeholder("f", "<!doctype html>"); }),
              HasSubstr("web page"));
}

TEST(ForeignBytes, AreTheReasonWhyAFileIsNotJson) {
  EXPECT_THAT(refusal_of([] { parse_json("\x1f\x8b\x08"sv, "config.json"); }),
              HasSubstr("'config.json' is compressed with gzip: unpack it first"));
  EXPECT_THAT(
      refusal_of([] { parse_json("version https://git-lfs.github.com/spec/v1\n", "a.json"); }),
      HasSubstr("git lfs pull"));
}

}  // namespace
}  // namespace trireme
