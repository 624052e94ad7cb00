// One row per kind, from the programs of OpenAI, Meta, Qwen and Moonshot.
#include "tokenizer/bpe/tiktoken_kinds.h"

#include <fmt/format.h>

#include <initializer_list>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

using Tokens = std::vector<AddedToken>;

#define TRIREME_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" TRIREME_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" TRIREME_CONTRACTIONS
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Ideographs by themselves, and in no other word.
constexpr const char* kKimi =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" TRIREME_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" TRIREME_CONTRACTIONS
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef TRIREME_CONTRACTIONS

struct Named {
  std::int32_t offset;  // from the number of ranks
  std::string_view content;
};

Tokens at_offsets(std::int32_t ranks, std::initializer_list<Named> named) {
  Tokens tokens;
  for (const auto& [offset, content] : named) {
    tokens.push_back({.content = std::string(content), .id = ranks + offset});
  }
  return tokens;
}

// 256 tokens, of which those without a name are spelled `reserved(offset, how many had no name)`.
template <class Reserved>
Tokens reserved_block(std::int32_t ranks, std::initializer_list<Named> named, Reserved reserved) {
  Tokens tokens = at_offsets(ranks, named);
  int nameless = 0;
  for (std::int32_t offset = 0; offset < 256; ++offset) {
    bool has_name = false;
    for (const Named& one : named) has_name = has_name || one.offset == offset;
    if (has_name) continue;
    tokens.push_back({.content = reserved(ranks + offset, nameless++), .id = ranks + offset});
  }
  return tokens;
}

std::string llama_reserved(std::int32_t, int nameless) {
  return fmt::format("<|reserved_special_token_{}|>", nameless);
}

Tokens gpt2_tokens(std::int32_t ranks) {
  return at_offsets(ranks, {{0, "<|endoftext|>"}});
}
Tokens cl100k_tokens(std::int32_t ranks) {
  return at_offsets(ranks, {{1, "<|endoftext|>"},
                            {2, "<|fim_prefix|>"},
                            {3, "<|fim_middle|>"},
                            {4, "<|fim_suffix|>"},
                            {20, "<|endofprompt|>"}});
}
Tokens o200k_tokens(std::int32_t ranks) {
  return at_offsets(ranks, {{1, "<|endoftext|>"}, {20, "<|endofprompt|>"}});
}
Tokens llama3_tokens(std::int32_t ranks) {
  return reserved_block(ranks,
                        {{0, "<|begin_of_text|>"},
                         {1, "<|end_of_text|>"},
                         {6, "<|start_header_id|>"},
                         {7, "<|end_header_id|>"},
                         {9, "<|eot_id|>"}},
                        llama_reserved);
}
Tokens llama31_tokens(std::int32_t ranks) {
  return reserved_block(ranks,
                        {{0, "<|begin_of_text|>"},
                         {1, "<|end_of_text|>"},
                         {4, "<|finetune_right_pad_id|>"},
                         {5, "<|step_id|>"},
                         {6, "<|start_header_id|>"},
                         {7, "<|end_header_id|>"},
                         {8, "<|eom_id|>"},
                         {9, "<|eot_id|>"},
                         {10, "<|python_tag|>"}},
                        llama_reserved);
}
Tokens qwen2_tokens(std::int32_t ranks) {
  return at_offsets(ranks, {{0, "<|endoftext|>"}, {1, "<|im_start|>"}, {2, "<|im_end|>"}});
}
Tokens qwen_tokens(std::int32_t ranks) {
  Tokens tokens = qwen2_tokens(ranks);
  for (int i = 0; i < 205; ++i) {
    tokens.push_back({.content = fmt::format("<|extra_{}|>", i), .id = ranks + 3 + i});
  }
  return tokens;
}
Tokens kimi_tokens(std::int32_t ranks) {
  return reserved_block(
      ranks,
      {{0, "[BOS]"},
       {1, "[EOS]"},
       {2, "<|im_end|>"},
       {3, "<|im_user|>"},
       {4, "<|im_assistant|>"},
       {6, "<|start_header_id|>"},
       {7, "<|end_header_id|>"},
       {9, "[EOT]"},
       {10, "<|im_system|>"},
       {11, "<|tool_calls_section_begin|>"},
       {12, "<|tool_calls_section_end|>"},
       {13, "<|tool_call_begin|>"},
       {14, "<|tool_call_argument_begin|>"},
       {15, "<|tool_call_end|>"},
       {17, "<|im_middle|>"},
       {254, "[UNK]"},
       {255, "[PAD]"}},
      [](std::int32_t id, int) { return fmt::format("<|reserved_token_{}|>", id); });
}

using enum SplitPattern;
constexpr std::string_view kEnd = "<|endoftext|>";
constexpr std::string_view kLlamaBegin = "<|begin_of_text|>", kLlamaEnd = "<|end_of_text|>";

// The first kind with a number of ranks is the one that the number means.
constexpr TiktokenKind kKinds[] = {
    {"gpt2", 50256, gpt2, nullptr, false, gpt2_tokens, kEnd, kEnd, false},
    {"cl100k_base", 100256, cl100k, nullptr, false, cl100k_tokens, kEnd, kEnd, false},
    {"o200k_base", 199998, cl100k, kO200k, false, o200k_tokens, kEnd, kEnd, false},
    {"llama3", 128000, cl100k, nullptr, false, llama3_tokens, kLlamaEnd, kLlamaBegin, true},
    {"llama3.1", 0, cl100k, nullptr, false, llama31_tokens, kLlamaEnd, kLlamaBegin, true},
    {"qwen", 151643, qwen2, nullptr, true, qwen_tokens, kEnd, "", false},
    {"qwen2", 0, qwen2, nullptr, true, qwen2_tokens, kEnd, "", false},
    {"kimi", 163584, cl100k, kKimi, false, kimi_tokens, "[EOS]", "[BOS]", false},
};

// Round numbers may be anybody's. Llama 3's ranks begin with those of cl100k.
bool begins_as_published(const TiktokenKind& kind, const Vocabulary& ranks) {
  if (kind.ranks != 100256 && kind.ranks != 128000) return true;
  Hasher hasher;
  for (std::int32_t id = 0; id < 50000; ++id) {
    hasher.update(ranks.bytes(id).data(), ranks.bytes(id).size());
    hasher.update("\n", 1);
  }
  return hasher.digest() == 0x9e6ac41072d863e7;
}

}  // namespace

std::string tiktoken_kind_names() {
  std::string names;
  for (const TiktokenKind& kind : kKinds) {
    names += names.empty() ? "" : ", ";
    names += kind.name;
  }
  return names;
}

const TiktokenKind& tiktoken_kind(std::string_view name, const Vocabulary& ranks,
                                  const std::string& file) {
  for (const TiktokenKind& kind : kKinds) {
    if (!name.empty() && kind.name == name) return kind;
    if (name.empty() && kind.ranks == ranks.size() && begins_as_published(kind, ranks)) return kind;
  }
  if (!name.empty()) {
    fail_input(
        "--tokenizer-pattern (data.tokenizer_pattern): unknown pattern '{}'; the patterns are {}",
        name, tiktoken_kind_names());
  }
  fail_input(
      "'{}' has {} ranks, from which its pre-tokenization cannot be determined: set the kind of "
      "file with --tokenizer-pattern (data.tokenizer_pattern), one of {}; for any other kind use a "
      "tokenizer.json (--tokenizer-type hf)",
      file, ranks.size(), tiktoken_kind_names());
}

}  // namespace trireme
