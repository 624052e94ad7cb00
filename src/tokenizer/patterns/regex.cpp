// A small interface to Oniguruma, whose header stays in this file.
#include "tokenizer/patterns/regex.h"

#include <oniguruma.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <vector>

#include "base/error.h"
#include "tokenizer/patterns/regex_syntax.h"
#include "tokenizer/unicode_fallbacks.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr unsigned kMostStack = 20'000'000;            // entries of some 50 bytes
constexpr unsigned long kMostStepsBack = 100'000'000;  // in one search
// Processor time that all searches in one text may take.
constexpr double kSeconds = 20, kSecondsPerByte = 1e-5;

// Match data of a thread: reused, since creating it costs more than most matches.
struct Workspace {
  OnigRegion* region = onig_region_new();
  OnigMatchParam* limits = onig_new_match_param();

  Workspace() {
    onig_initialize_match_param(limits);
    onig_set_match_stack_limit_size_of_match_param(limits, kMostStack);
    onig_set_retry_limit_in_search_of_match_param(limits, kMostStepsBack);
  }
  ~Workspace() {
    onig_free_match_param(limits);
    onig_region_free(region, 1);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};

std::string message_of(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN] = {};
  const int length =
      info ? onig_error_code_to_str(buffer, code, info) : onig_error_code_to_str(buffer, code);
  return {reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(std::max(length, 0))};
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Time left for a text of this size.
class Deadline {
 public:
  explicit Deadline(std::size_t bytes)
      : seconds_(kSeconds + kSecondsPerByte * static_cast<double>(bytes)) {}

  // Call it before each search. Most calls do not ask for the time.
  bool has_passed() {
    if (++searches_ % 16 != 0) return false;
    const double now = processor_seconds();
    if (searches_ == 16) begin_ = now;
    return now - begin_ > seconds_;
  }

 private:
  double seconds_;
  double begin_ = 0;
  std::uint64_t searches_ = 0;
};

const OnigUChar* place(std::string_view text, std::size_t at) {
  return reinterpret_cast<const OnigUChar*>(text.data()) + at;
}

}  // namespace

struct Regex::Code {
  regex_t* compiled = nullptr;
  std::vector<regex_t*> sets;  // of the scanner's program
  RegexSyntax syntax;
  std::string where;

  ~Code() {
    onig_free(compiled);
    for (regex_t* set : sets) onig_free(set);
  }

  static int compile(const std::string& source, regex_t** out, OnigErrorInfo* info) {
    return onig_new(out, place(source, 0), place(source, source.size()), ONIG_OPTION_NONE,
                    ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, info);
  }

  // Whether the pattern takes two characters of one kind for the same: it names neither of them,
  // and no range that holds only one.
  bool alike(char32_t a, char32_t b) const {
    const auto& named = syntax.named;
    const auto& ranges = syntax.ranges;
    return !syntax.looks_closer &&
           std::none_of(named.begin(), named.end(), [&](char32_t c) { return c == a || c == b; }) &&
           std::all_of(ranges.begin(), ranges.end(), [&](const auto& range) {
             const auto holds = [&](char32_t c) { return range.first <= c && c <= range.second; };
             return holds(a) == holds(b);
           });
  }

  // The character itself or an older one for which the pattern takes it.
  char32_t old_enough(char32_t c) const {
    const char32_t older = fallback(c);
    if (older != c && !alike(c, older)) {
      fail_input(
          "{}: the text has the character U+{:04X}, which is younger than the Unicode 14 of this "
          "system's regular expressions, and the pattern leaves open whether it matches it",
          where, static_cast<std::uint32_t>(c));
    }
    return older;
  }

  void check_young_characters(std::string_view text) const {
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const DecodedChar c = decode_utf8(p, end);
      p += c.length;
      old_enough(c.value);
    }
  }

  std::uint64_t sets_of(char32_t c) const {
    std::string text;
    append_utf8(old_enough(c), text);
    const OnigUChar* end = place(text, text.size());
    std::uint64_t holding = 0;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const int length =
          onig_match(sets[i], place(text, 0), end, place(text, 0), nullptr, ONIG_OPTION_NONE);
      if (length == static_cast<int>(text.size())) holding |= std::uint64_t{1} << i;
    }
    return holding;
  }

  std::unique_ptr<const PatternScanner> make_scanner() {
    std::optional<ScanProgram> program = compile_scan_program(syntax.pattern);
    if (!program) return nullptr;
    for (const std::string& set : program->sets) {
      regex_t* compiled_set = nullptr;
      OnigErrorInfo info{};
      if (compile(set, &compiled_set, &info) != ONIG_NORMAL) return nullptr;
      sets.push_back(compiled_set);
    }
    return std::make_unique<const PatternScanner>(std::move(*program),
                                                  [this](char32_t c) { return sets_of(c); });
  }
};

Regex::Regex(const std::string& pattern, const std::string& where)
    : code_(std::make_unique<Code>()) {
  [[maybe_unused]] static const int ready = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  code_->where = where;
  code_->syntax = read_regex_syntax(pattern, where);
  OnigErrorInfo info{};
  const int code = Code::compile(code_->syntax.pattern, &code_->compiled, &info);
  if (code != ONIG_NORMAL) {
    fail_input("{}: the regular expression '{}' does not compile: {}", where, pattern,
               message_of(code, &info));
  }
  scanner_ = code_->make_scanner();
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::search(std::string_view text, std::size_t from, const OnMatch& on_match) const {
  const std::string older = with_fallbacks(text);
  if (!older.empty()) {
    code_->check_young_characters(text);
    text = older;
  }
  thread_local Workspace workspace;
  Deadline deadline(text.size());
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::size_t last_end = kNone;
  while (from <= text.size()) {
    const int found =
        deadline.has_passed()
            ? ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER
            : onig_search_with_param(code_->compiled, place(text, 0), place(text, text.size()),
                                     place(text, from), place(text, text.size()), workspace.region,
                                     ONIG_OPTION_NONE, workspace.limits);
    if (found == ONIG_MISMATCH) return;
    if (found < 0) {
      fail_input("{}: the regular expression gives up on a text of {} bytes: {}", code_->where,
                 text.size(), message_of(found));
    }
    const auto begin = static_cast<std::size_t>(workspace.region->beg[0]);
    const auto end = static_cast<std::size_t>(workspace.region->end[0]);
    if (begin == end && end == last_end) {
      if (from == text.size()) return;
      from += decode_utf8(text.data() + from, text.data() + text.size()).length;
      continue;
    }
    from = last_end = end;
    on_match(begin, end);
  }
}

}  // namespace trireme
