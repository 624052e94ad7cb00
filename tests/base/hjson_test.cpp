// Tests of Hjson: its extensions of JSON, duplicate keys, and errors with their positions.
#include "base/hjson.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string dumped(std::string_view text) {
  return parse_hjson(text, "f.json").dump();
}

std::string hjson_refusal(std::string_view text) {
  try {
    return dumped(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
}

TEST(Hjson, JsonIsHjson) {
  const std::string json = R"({"a":[1,-2.5e-3,"x\n\u00e9\"",true,null,{}],"b":{"c":[]}})";
  EXPECT_EQ(nlohmann::json::parse(dumped(json)), nlohmann::json::parse(json));
}

TEST(Hjson, HasCommentsAndTrailingCommas) {
  EXPECT_EQ(dumped("# one\n{ // two\n \"a\": 1, /* three\n */ \"b\": [1, 2,],\n} # four"),
            R"({"a":1,"b":[1,2]})");
  EXPECT_EQ(dumped("{\"a\": \"# no comment\"}"), R"({"a":"# no comment"})");
}

TEST(Hjson, NeedsNeitherQuotesNorCommasNorBraces) {
  EXPECT_EQ(dumped("{\n  a: 5e8\n  'b c': some text, to the end\n  d: true # on\n}"),
            R"({"a":500000000.0,"b c":"some text, to the end","d":true})");
  EXPECT_EQ(dumped("a: 1\nb: {c: 2}"), R"({"a":1,"b":{"c":2}})");
  EXPECT_EQ(dumped("{a: '''\n   one\n     two\n   '''}"), R"({"a":"one\n two"})");
}

// Otherwise the last of two values would silently win.
TEST(Hjson, AKeyThatIsThereTwiceIsNamed) {
  EXPECT_THAT(hjson_refusal("{\"a\": 1,\n \"b\": {}, \"a\": 2}"),
              HasSubstr("line 2, column 11: duplicate key 'a'"));
  EXPECT_THAT(hjson_refusal("{\"z\": [{\"x\": {\"b\": 1, b: 1}}]}"), HasSubstr("duplicate key 'b"));
  EXPECT_EQ(hjson_refusal("{\"a\": {\"a\": {\"a\": 1}}}"), R"({"a":{"a":{"a":1}}})");
}

TEST(Hjson, FaultsHavePlacesAndWords) {
  for (const auto& [text, words] :
       {std::pair{"", "line 1, column 1: the text is empty"},
        {"{\n \"a\" 1}", "line 2, column 6: expected a colon"},
        {"{\"a\": [1, 2", "the text ends within a list"},
        {"{\"a\": 1", "the text ends within an object"},
        {"{\"a\": ]}", "column 7: expected a value"},
        {"{\"a\": \"x\n\"}", "must end on the same line"},
        {"{\"a\": \"\\x\"}", "column 7: this string has an invalid escape"},
        {"/* {}", "this comment has no end"},
        {"{} {}", "expected the end of the text"}})
    EXPECT_THAT(hjson_refusal(text), HasSubstr(words)) << text;
  EXPECT_THAT(hjson_refusal(std::string(1 << 20, '[')), HasSubstr("more than 256 levels deep"));
  EXPECT_THAT(hjson_refusal(std::string("a:{").append(100'000, '{')), HasSubstr("expected a key"));
}

}  // namespace
}  // namespace trireme
