// Tests of JSON lines: they are read as by Python's json module, or rejected with a message.
#include "tokenizer/json_line.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "refusal.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts_of(std::string_view line, const std::string& key = "text") {
  JsonLine reader({key});
  const auto& texts = reader.read(line);
  return {texts[0].begin(), texts[0].end()};
}

std::string refusal(std::string_view line) {
  return refusal_of([&] { texts_of(line); });
}

TEST(JsonLine, NumbersNobodyAsksForMayBeOfAnySize) {
  for (const char* const number :
       {"1e999", "-1e400", "0.1e-9999", "123456789012345678901234567890", "NaN", "Infinity",
        "-Infinity", "-0.0E+0", "[1e999, {\"a\": -1e999}]"}) {
    EXPECT_THAT(texts_of(fmt::format("{{\"id\": {}, \"text\": \"one\"}}", number)),
                ElementsAre("one"));
    EXPECT_THAT(texts_of(fmt::format("{{\"text\": \"one\", \"id\": {} }}", number)),
                ElementsAre("one"));
  }
  EXPECT_THAT(refusal("{\"text\": 1e999}"), HasSubstr("is the number 1e999, not a string"));
  EXPECT_THAT(refusal("{\"text\": NaN}"), HasSubstr("is NaN, not a string"));
}

TEST(JsonLine, KeysAndTexts) {
  EXPECT_THAT(texts_of("\xef\xbb\xbf {\"te\\u0078t\":\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"} \r"),
              ElementsAre("a\"\\/\b\f\n\r\t\u00e9"));
  EXPECT_THAT(texts_of("{\"text\": 5, \"text\": \"last\"}"), ElementsAre("last"));
  EXPECT_THAT(texts_of("{\"text\": [\"a\", \"\\u0062\" , \"\xff\"]}"),
              ElementsAre("a", "b", "\uFFFD"));
  EXPECT_THAT(texts_of("{\"text\": []}"), ElementsAre());
  EXPECT_THAT(texts_of("{\"a\": {\"text\": \"inner\"}, \"text\": \"outer\"}"),
              ElementsAre("outer"));
  JsonLine two({"b", "a"}, "--this");
  const auto& texts = two.read("{\"a\": \"1\", \"b\": [\"2\", \"3\"]}");
  EXPECT_THAT(texts, ElementsAre(ElementsAre("2", "3"), ElementsAre("1")));
  EXPECT_THAT(refusal_of([&] { two.read("{\"a\": \"1\", \"c\": 1}"); }),
              HasSubstr("no key \"b\"; its keys are \"a\", \"c\" (--this chooses)"));
}

TEST(JsonLine, SaysWhatIsWrongAndWhere) {
  const std::pair<std::string, std::string> cases[] = {
      {"{\"text\": \"a\"", "column 13: the text ends before its value is complete"},
      {"{\"text\": \"a", "column 12: the text ends"},
      {"{\"text\": \"\u00e9\" x", "column 14: expected a ',' or '}'"},
      {"{\"text\": \"a\"} x", "column 15: unexpected text after the end"},
      {"{\"text\": \"a\",}", "column 14: expected a key in double quotes"},
      {"{'text': \"a\"}", "column 2: expected a key in double quotes"},
      {"{\"text\" \"a\"}", "column 9: expected a ':'"},
      {"{\"text\": nan}", "column 10: expected a value"},
      {"{\"text\": 01}", "column 11: expected a ',' or '}'"},
      {"{\"text\": -}", "column 11: a number is malformed"},
      {"{\"text\": 1.}", "column 12: a number is malformed"},
      {"{\"text\": [1 2]}", "column 13: expected a ',' or ']'"},
      {"{\"text\": \"a\\x\"}", "a backslash in a string does not begin an escape"},
      {"{\"text\": \"a\tb\"}", "column 12: a string contains an unescaped control character"},
      {std::string("\0\0", 2), "column 1: there are NUL bytes"},
      {"[1, 2]", "not a JSON object but a list"},
      {"\"a string\"", "not a JSON object but the string \"a string\""},
      {"{\"text\": " + std::string(300, '[') + std::string(300, ']') + "}",
       "nested more than 256 levels"}};
  for (const auto& [line, what] : cases) EXPECT_THAT(refusal(line), HasSubstr(what)) << line;
  const std::string deep = std::string(255, '[') + std::string(255, ']');
  EXPECT_THAT(texts_of("{\"text\": \"a\", \"b\": " + deep + "}"), ElementsAre("a"));
}

// Compares random lines with the library: both accept and reject the same, except for numbers that
// are too large and the names of special numbers that Python writes.
TEST(JsonLine, AgreesWithTheLibrary) {
  std::mt19937 random(11);
  const char* const pieces[] = {"{",
                                "}",
                                "[",
                                "]",
                                "\"",
                                "\"text\"",
                                ":",
                                ",",
                                "1",
                                "-",
                                ".",
                                "e5",
                                "0",
                                "true",
                                "null",
                                "\\",
                                "\\u0041",
                                " ",
                                "a",
                                "\xc3\xa9",
                                "\"b\": \"c\"",
                                "{\"text\": \"",
                                "\"}"};
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string line = "{\"text\": ";
    for (std::size_t n = random() % 9; n > 0; --n) line += pieces[random() % std::size(pieces)];
    if (random() % 2) line += "\"";
    line += "}";
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    const std::string why = refusal(line);
    if (parsed.is_discarded()) {
      ASSERT_THAT(why, HasSubstr("not JSON: column")) << line;
      continue;
    }
    const auto text = parsed.find("text");
    if (text != parsed.end() && text->is_string()) {
      ASSERT_THAT(texts_of(line), ElementsAre(text->get<std::string>())) << line;
      ++accepted;
    } else if (text != parsed.end() && !text->is_array()) {
      ASSERT_THAT(why, HasSubstr("not a string")) << line;
    }
  }
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace trireme
