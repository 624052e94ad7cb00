// PCRE2 behind a small interface; its header stays in this file.
#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

namespace trireme {
namespace {

// Under UCP, PCRE2 lets \s match U+180E as old Unicode did; the White_Space property is what the
// tokenizer libraries mean.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += {'\\', escaped};
    }
  }
  return out;
}

std::string message_of(int error) {
  unsigned char buffer[256] = {};
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// What a thread needs to match: reused, since to make it costs more than most matches.
struct Workspace {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr);

  Workspace() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~Workspace() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  std::string where;

  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(const std::string& pattern, const std::string& where)
    : code_(std::make_unique<Code>()) {
  const std::string unicode = with_unicode_spaces(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->where = where;
  code_->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(unicode.data()), unicode.size(),
                                  PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (!code_->compiled) {
    fail_input("{}: the regular expression '{}' does not compile: {} (at character {})", where,
               pattern, message_of(error), offset);
  }
  // Where just-in-time compilation is not to be had, pcre2_match interprets the pattern.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from) const {
  thread_local Workspace workspace;
  const int found =
      pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, workspace.data, workspace.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    fail_input("{}: the regular expression gives up on a text of {} bytes: {}", code_->where,
               text.size(), message_of(found));
  }
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(workspace.data);
  return Match{span[0], span[1]};
}

}  // namespace trireme
