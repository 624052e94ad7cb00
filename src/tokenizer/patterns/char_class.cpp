// The class table, spread out from the generated ranges.
#include "tokenizer/patterns/char_class.h"

#include <algorithm>

namespace trireme {
namespace {

using enum CharClass;

constexpr struct {
  std::uint32_t first;
  std::uint32_t last;
  CharClass cls;
} kRanges[] = {
#include "tokenizer/unicode_ranges.inc"
};

// Static storage: pages of code points that are all `other` are never touched.
CharClasses table;

}  // namespace

const CharClasses& char_classes() {
  static const CharClasses& filled = []() -> CharClasses& {
    for (const auto& range : kRanges) {
      std::fill(table.begin() + range.first, table.begin() + range.last + 1, range.cls);
    }
    return table;
  }();
  return filled;
}

}  // namespace trireme
