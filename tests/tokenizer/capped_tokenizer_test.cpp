// Tests of a tokenizer with special tokens that were added after its model was trained.
#include "tokenizer/capped_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tokenizer/huggingface/tokenizer.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Letters from a on have IDs from 0 on; '<' and '>' are special tokens with IDs 26 and 27.
class Letters : public Tokenizer {
 public:
  explicit Letters(std::int32_t eod) {
    vocab_size_ = 28;
    special_.eod = eod;
    special_.pad = 27;
  }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(token_id({&c, 1}));
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string text;
    for (const std::int32_t id : ids)
      if (id < 26 || !skip_special) text += token_bytes(id);
    return text;
  }
  std::string token_bytes(std::int32_t id) const override {
    check_id(id);
    return id < 26 ? std::string(1, static_cast<char>('a' + id)) : id == 26 ? "<" : ">";
  }
  std::int32_t token_id(std::string_view bytes) const override {
    return bytes == "<" ? 26 : bytes == ">" ? 27 : bytes[0] - 'a';
  }
};

TEST(CappedTokenizer, OrdinaryTextIsAsBefore) {
  const CappedTokenizer capped(std::make_unique<Letters>(0), 26);
  std::vector<std::int32_t> ids{7};
  capped.encode("abz", ids);
  EXPECT_THAT(ids, ElementsAre(7, 0, 1, 25));
  EXPECT_EQ(capped.decode(ids, false), "habz");
  EXPECT_EQ(capped.vocab_size(), 26);
  EXPECT_EQ(capped.special().eod, 0);
  EXPECT_EQ(capped.special().pad, -1);
  EXPECT_EQ(capped.token_id(">"), -1);
  EXPECT_THAT(tokenizer_note(capped), HasSubstr("2 tokens"));
  EXPECT_EQ(tokenizer_note(Letters(0)), "");
}

TEST(CappedTokenizer, TextThatSpellsATokenWithoutARowIsRefused) {
  const CappedTokenizer capped(std::make_unique<Letters>(0), 27);
  std::vector<std::int32_t> ids{27};  // existing contents are ignored
  capped.encode("a<", ids);
  for (const auto& refused : {refusal_of([&] { capped.encode("a>", ids); }),
                              refusal_of([&] { capped.encode_document(">", ids); }),
                              refusal_of([&] { capped.encode_prompt(">", ids); }),
                              refusal_of([&] { capped.encode_with_special(">", {}); })}) {
    EXPECT_THAT(refused, HasSubstr("the token '>' with the id 27, but the model has 27 rows"));
  }
}

TEST(CappedTokenizer, OnlySpecialTokensMayBeBeyond) {
  EXPECT_TRUE(is_added_from(Letters(0), 26));
  EXPECT_FALSE(is_added_from(Letters(0), 25));
  EXPECT_THAT(refusal_of([] { CappedTokenizer(std::make_unique<Letters>(27), 27); }),
              HasSubstr("the end-of-document token '>' has the id 27"));
}

// Added tokens of a tokenizer.json need not be special.
TEST(CappedTokenizer, AddedTokensMayBeBeyond) {
  const ScratchFolder folder;
  const fs::path file = folder / "tokenizer.json";
  std::ofstream(file) << R"({"version":"1.0","added_tokens":[
    {"id":2,"content":"[who]","single_word":false,"lstrip":false,"rstrip":false,
     "normalized":false,"special":false}],
    "normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
    "model":{"type":"WordLevel","vocab":{"a":0,"b":1},"unk_token":"a"}})";
  auto tokenizer = load_hf(file.string(), true);
  EXPECT_FALSE(is_added_from(*tokenizer, 1));
  ASSERT_TRUE(is_added_from(*tokenizer, 2));
  const CappedTokenizer capped(std::move(tokenizer), 2);
  std::vector<std::int32_t> ids;
  capped.encode("b", ids);
  EXPECT_THAT(ids, ElementsAre(1));
  EXPECT_THAT(refusal_of([&] { capped.encode("b[who]", ids); }), HasSubstr("the token '[who]'"));
}

}  // namespace
}  // namespace trireme
