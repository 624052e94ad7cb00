// Tests of printable text: which characters of a file's text are shown.
#include "base/printable.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Printable, KeepsWhatIsText) {
  EXPECT_EQ(printable("model.layers.0"), "model.layers.0");
  EXPECT_EQ(printable("größe 長さ 😀"), "größe 長さ 😀");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ReplacesWhatSteersATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\ac\nd\x7f"), "a?[31mb?c?d?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");  // the one-character form of ESC [
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a?b");  // right-to-left override
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
}

TEST(Printable, ReplacesBytesThatAreNoCharacters) {
  EXPECT_EQ(printable("a\xff\xc3"), "a??");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "?????");
}

TEST(Printable, CutsLongTextsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(printable("abc\xc3\xa4", 4), "abc...");
  EXPECT_EQ(printable("abcd", 4), "abcd");
  EXPECT_EQ(printable(std::string(200, 'x')).size(), longest_shown + 3);
}

TEST(Printable, AMessageKeepsItsLines) {
  EXPECT_EQ(printable_message("a\n\tb\x1b[2J" + std::string(200, 'x')),
            "a\n\tb?[2J" + std::string(200, 'x'));
}

}  // namespace
}  // namespace trireme
