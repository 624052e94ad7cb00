// Tests of invalid JSON: the position and our message for each kind of error; display of values.
#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_json(text, "f.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Json, SaysWhereAndWhyATextIsNone) {
  const std::tuple<std::string, int, int, std::string> cases[] = {
      {"", 1, 1, "the text is empty"},
      {" \n ", 1, 1, "the text is empty"},
      {"{\"a\": [1,\n 2", 2, 3, "the text ends before its value is complete"},
      {"{\n  \"a\": 1\n  \"b\": 2}", 3, 5, "expected a ',' or '}'"},
      {"[1 2]", 1, 4, "expected a ',' or ']'"},
      {"{\"a\": 1,}", 1, 9, "expected a key in double quotes"},
      {"{'a': 1}", 1, 2, "expected a key in double quotes"},
      {"{\"a\" 1}", 1, 6, "expected a ':'"},
      {"{\"a\": True}", 1, 7, "expected a value"},
      {"{\"a\": }", 1, 7, "expected a value"},
      {"{} x", 1, 4, "unexpected text after the end"},
      {"[\"\xc3\xa9\xc3\xa9\", x]", 1, 8, "expected a value"},  // columns count characters
      {"[\"a\nb\"]", 1, 4,
       "a string contains an unescaped control character, such as a line break"},
      {"[\"a", 1, 4, "a string has no closing quote"},
      {"[\"\xff\"]", 1, 3, "a string is not UTF-8"},
      {"[\"\\q\"]", 1, 4, "a backslash in a string does not begin an escape"},
      {"[-]", 1, 3, "a number is malformed"},
      {"[1,\n 1e999]", 2, 2, "a number is too large"},
  };
  for (const auto& [text, line, column, what] : cases) {
    EXPECT_EQ(refusal(text),
              fmt::format("'f.json' is not JSON: line {}, column {}: {}", line, column, what))
        << text;
  }
}

TEST(Json, RefusesValuesThatLieTooDeep) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(refusal(nested(max_json_depth)), "");
  EXPECT_EQ(refusal("[\"" + nested(1000) + "\\\"[\"]"), "");
  EXPECT_EQ(
      refusal(nested(max_json_depth + 1)),
      "'f.json' is not JSON: line 1, column 257: values are nested more than 256 levels deep");
  EXPECT_NE(refusal(std::string(1 << 20, '[')), "");
}

TEST(Json, RefusesComments) {
  EXPECT_NE(refusal("{/* a */ \"a\": 1}"), "");
}

TEST(Json, ShowsValues) {
  EXPECT_EQ(json_shown("12"), "the string \"12\"");
  EXPECT_EQ(json_shown(1.5), "the number 1.5");
  EXPECT_EQ(json_shown(nullptr), "null");
  EXPECT_EQ(json_shown(true), "true");
  EXPECT_EQ(json_shown(nlohmann::json::array({1})), "a list");
  EXPECT_EQ(json_shown(nlohmann::json::object()), "an object");
  EXPECT_EQ(json_shown(std::string(200, 'x')).size(), 11 + 80);
}

TEST(JsonSection, NamesFileSectionKeyAndValue) {
  const std::string path = "ds.json";
  const nlohmann::json json = {{"type", "a"},
                               {"steps", 0},
                               {"on", "auto"},
                               {"off", 1},
                               {"inner", {{"steps", 3}}},
                               {"list", nlohmann::json::array()}};
  const JsonSection section(path, json, "outer");
  EXPECT_EQ(section.text("type"), "a");
  EXPECT_EQ(section.section("inner").count("steps"), 3);
  EXPECT_EQ(section.flag("on"), std::nullopt);
  EXPECT_EQ(section.flag("absent"), std::nullopt);
  const auto refusal = [&](auto&& read) -> std::string {
    try {
      read();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([&] { section.count("steps"); }),
            "outer.steps in ds.json is the number 0, not a positive integer");
  EXPECT_EQ(refusal([&] { section.flag("off"); }),
            "outer.off in ds.json is the number 1, not true or false");
  EXPECT_EQ(refusal([&] { section.section("inner").text("x"); }),
            "outer.inner in ds.json lacks 'x'");
  EXPECT_EQ(refusal([&] { section.section("list"); }),
            "outer.list in ds.json is a list, not an object");
}

TEST(Json, OtherKeysAreNamedWithTheirSections) {
  const nlohmann::json json = {{"a", {{"read", 1}, {"other", 2}}}, {"b", {{"x", 1}}}, {"c", 3}};
  const std::string_view known[] = {"a.read", "b"};
  EXPECT_EQ(json_other_keys(json, known), (std::vector<std::string>{"a.other", "c"}));
}

}  // namespace
}  // namespace trireme
