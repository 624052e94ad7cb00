// Tests of finding the longest member that is a prefix of a text, against a search of all members.
#include "tokenizer/patterns/prefix_set.h"

#include <gtest/gtest.h>

#include <map>

#include "tokenizer/random_text.h"

namespace trireme {
namespace {

TEST(PrefixSet, FindsTheLongestMember) {
  RandomText random(7);
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, std::int32_t> members;
    PrefixSet set;
    EXPECT_TRUE(set.empty());
    set.add("", 0);
    const std::size_t count = random.below(300);
    for (std::size_t i = 0; i < count; ++i) {
      std::string text = random.bytes(random.below(7));
      for (char& byte : text) byte &= '\x83';
      const auto value = static_cast<std::int32_t>(i);
      set.add(text, value);
      if (!text.empty()) members.emplace(text, value);  // the first one is kept
    }
    EXPECT_EQ(set.empty(), members.empty());
    for (int i = 0; i < 300; ++i) {
      std::string text = random.bytes(random.below(9));
      for (char& byte : text) byte &= '\x83';
      std::size_t length = text.size();
      while (length > 0 && !members.contains(text.substr(0, length))) --length;
      const PrefixSet::Found found = set.longest_prefix(text);
      ASSERT_EQ(found.length, length);
      ASSERT_EQ(found.value, length == 0 ? -1 : members.at(text.substr(0, length)));
    }
  }
}

}  // namespace
}  // namespace trireme
