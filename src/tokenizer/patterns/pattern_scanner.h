// Matches a ScanProgram in one pass over the text: an automaton whose states and classes of
// characters are made when they are first met. As fast as a loop written by hand, and linear.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "tokenizer/patterns/scan_program.h"
#include "tokenizer/utf8.h"

namespace trireme {

class PatternScanner {
 public:
  // Returns the sets of the program that hold a character: bit i for set i.
  using SetsOf = std::function<std::uint64_t(char32_t)>;

  PatternScanner(ScanProgram program, SetsOf sets_of);

  // Calls on_match(begin, end) for all matches in `text`, valid UTF-8, from left to right, and
  // returns the size of `text`; or less where the rest is to be searched by other means, because
  // the automaton would become too large or the pattern looks too far ahead too often. All matches
  // that begin before the place returned have been reported. Thread-safe.
  template <class OnMatch>
  std::size_t for_each_match(std::string_view text, OnMatch&& on_match) const {
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    std::size_t ahead = kMostAhead * text.size() + 1024;  // characters that may be read twice
    for (const char* p = begin; p < end;) {
      const Classed first = class_at(p);
      if (step(kStart, first.cls) == 2 * kDead) {  // no match begins here
        p += first.length;
        continue;
      }
      const Found found = match_at(p, end);
      const auto at = static_cast<std::size_t>(p - begin);
      if (found.gave_up) return at;
      const char* const next = found.match_end ? found.match_end : p + first.length;
      if (found.match_end) on_match(at, static_cast<std::size_t>(next - begin));
      if (found.looked_at > next) {
        const auto passed = static_cast<std::size_t>(found.looked_at - next);
        if (passed > ahead) return static_cast<std::size_t>(next - begin);
        ahead -= passed;
      }
      p = next;
    }
    return text.size();
  }

 private:
  static constexpr std::size_t kMostAhead = 8;
  static constexpr std::uint32_t kMostClasses = 64, kMostStates = 1024;
  // Class 0 is no class yet, and 1 the end of the text.
  static constexpr std::uint32_t kEnd = 1;
  // State 0 has no match to come.
  static constexpr std::uint32_t kDead = 0, kStart = 1;
  static constexpr std::uint16_t kUnknown = 0xFFFF;

  struct Found {
    const char* match_end;  // null: no match begins there
    const char* looked_at;
    bool gave_up;
  };

  struct Classed {
    std::uint32_t cls;
    std::uint32_t length;
  };

  Classed class_at(const char* p) const {
    const auto lead = static_cast<unsigned char>(*p);
    if (lead < 0x80) return {ascii_[lead], 1};
    const DecodedChar c = decode_valid_utf8(p);
    const std::uint32_t cls = classes_[c.value].load(std::memory_order_relaxed);
    return {cls != 0 ? cls : class_of(c.value), c.length};
  }

  std::uint32_t step(std::uint32_t state, std::uint32_t cls) const {
    return steps_[state * kMostClasses + cls].load(std::memory_order_relaxed);
  }

  Found match_at(const char* p, const char* end) const {
    const char* match_end = nullptr;
    std::uint32_t state = kStart;
    for (;;) {
      const Classed c = p < end ? class_at(p) : Classed{kEnd, 0};
      std::uint32_t taken = step(state, c.cls);
      if (taken == kUnknown) {
        taken = find_step(state, c.cls);
        if (taken == kUnknown) return {nullptr, p, true};
      }
      if (taken & 1) match_end = p;
      state = taken >> 1;
      if (state == kDead) return {match_end, p, false};
      p += c.length;
    }
  }

  // Positions in the program, those of higher priority first.
  using Threads = std::vector<std::uint16_t>;
  struct Follow;

  std::uint32_t class_of(char32_t c) const;
  std::uint32_t find_step(std::uint32_t state, std::uint32_t cls) const;
  std::uint32_t state_of(const Threads& threads) const;

  ScanProgram program_;
  SetsOf sets_of_;
  std::uint8_t ascii_[128];
  std::unique_ptr<std::atomic<std::uint8_t>[]> classes_;  // by code point
  // By state and class: twice the next state, and 1 more where a match ends before the character.
  std::unique_ptr<std::atomic<std::uint16_t>[]> steps_;

  mutable std::mutex mutex_;  // of what follows
  mutable std::vector<std::uint64_t> sets_of_class_;
  mutable std::vector<Threads> threads_of_state_;
  mutable std::map<Threads, std::uint32_t> state_of_threads_;
};

}  // namespace trireme
