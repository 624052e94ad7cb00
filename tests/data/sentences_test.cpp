// Tests of the rules for sentence splitting.
#include "data/bert/sentences.h"

#include <gmock/gmock.h>

#include <random>
#include <string>

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> split(std::string_view text, bool keep_space = false) {
  std::vector<std::string_view> views;
  split_sentences(text, keep_space, views);
  return {views.begin(), views.end()};
}

TEST(Sentences, EndAtMarksBeforeSpace) {
  EXPECT_THAT(split("One. Two! Three? Four"), ElementsAre("One.", "Two!", "Three?", "Four"));
  EXPECT_THAT(split("Wait... What?! Yes."), ElementsAre("Wait...", "What?!", "Yes."));
  EXPECT_THAT(split("He left.\nShe stayed."), ElementsAre("He left.", "She stayed."));
  EXPECT_THAT(split("3.14 is a number. So is 2.5."),
              ElementsAre("3.14 is a number.", "So is 2.5."));
  EXPECT_THAT(split("see example.com for more"), ElementsAre("see example.com for more"));
}

TEST(Sentences, ClosingSignsBelongToTheSentence) {
  EXPECT_THAT(split("\"Go.\" He went. (He did.) Then"),
              ElementsAre("\"Go.\"", "He went.", "(He did.)", "Then"));
  EXPECT_THAT(split("\"Go!\" he said. Done."), ElementsAre("\"Go!\" he said.", "Done."));
  EXPECT_THAT(split("He said \xe2\x80\x9cno.\xe2\x80\x9d Then."),
              ElementsAre("He said \xe2\x80\x9cno.\xe2\x80\x9d", "Then."));
}

TEST(Sentences, AbbreviationsInitialsAndLowerCaseGoOn) {
  EXPECT_THAT(split("Dr. Smith met Mr. J. R. Jones. They spoke."),
              ElementsAre("Dr. Smith met Mr. J. R. Jones.", "They spoke."));
  EXPECT_THAT(split("It works, e.g. Here, i.e. There."),
              ElementsAre("It works, e.g. Here, i.e. There."));
  EXPECT_THAT(split("See Fig. 3 and No. 7. He said no. Then he left."),
              ElementsAre("See Fig. 3 and No. 7.", "He said no.", "Then he left."));
  EXPECT_THAT(split("Apples, pears etc. are fruit. So was I. We ate."),
              ElementsAre("Apples, pears etc. are fruit.", "So was I.", "We ate."));
}

TEST(Sentences, BlankLinesEndASentence) {
  EXPECT_THAT(split("A title\n\nThe text goes\non here.\n\n\n"),
              ElementsAre("A title", "The text goes\non here."));
  EXPECT_THAT(split("Mr.\n\nJones"), ElementsAre("Mr.", "Jones"));
}

TEST(Sentences, WideMarksNeedNoSpace) {
  EXPECT_THAT(
      split("\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x9f"),
      ElementsAre("\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82", "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x9f"));
}

TEST(Sentences, NothingFromNothing) {
  EXPECT_THAT(split(""), IsEmpty());
  EXPECT_THAT(split(" \n\t\n "), IsEmpty());
  EXPECT_THAT(split("..."), ElementsAre("..."));
}

TEST(Sentences, WithSpaceTheyAddUpToTheText) {
  EXPECT_THAT(split(" One.  Two.\n\nA title\n\nEnd", true),
              ElementsAre(" One.  ", "Two.\n\n", "A title\n\n", "End"));
  std::mt19937 random(7);
  const std::string letters[] = {
      "a", "B", ".", "!", " ", "\n", "\"", ")", "Mr", "3", "\xe3\x80\x82", "\xff", "\xc2\xa0"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = 0; i < random() % 40; ++i) text += letters[random() % std::size(letters)];
    std::string sum;
    for (const std::string& sentence : split(text, true)) sum += sentence;
    if (!split(text).empty()) {
      EXPECT_EQ(sum, text);
    }
    EXPECT_EQ(split(text).size(), split(text, true).size()) << text;
    for (const std::string& sentence : split(text)) EXPECT_FALSE(sentence.empty());
  }
}

}  // namespace
}  // namespace trireme
