// Searches texts for the names of GPU vendors, their products and sites.
#include "importers/megatron/run_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace trireme::megatron {
namespace {

struct VendorWord {
  std::string_view text;
  const char* device;
  bool begins = false;  // longer words that begin with it count too: "rocm5"
};

// CUDA_* and NCCL_* are not hints: programs on AMD GPUs use them too.
constexpr std::array vendor_words = {
    VendorWord{"rocm", "hip", true},    VendorWord{"hip", "hip"},
    VendorWord{"hsa", "hip"},           VendorWord{"rocr", "hip"},
    VendorWord{"rccl", "hip"},          VendorWord{"rocblas", "hip"},
    VendorWord{"rocprof", "hip", true}, VendorWord{"miopen", "hip", true},
    VendorWord{"gfx9", "hip", true},    VendorWord{"gfx1", "hip", true},
    VendorWord{"mi100", "hip"},         VendorWord{"mi200", "hip"},
    VendorWord{"mi210", "hip"},         VendorWord{"mi250", "hip"},
    VendorWord{"mi250x", "hip"},        VendorWord{"mi300", "hip"},
    VendorWord{"mi300a", "hip"},        VendorWord{"mi300x", "hip"},
    VendorWord{"mi325x", "hip"},        VendorWord{"mi355x", "hip"},
    VendorWord{"lumi", "hip"},          VendorWord{"lumiopen", "hip"},
    VendorWord{"frontier", "hip"},      VendorWord{"standard-g", "hip"},
    VendorWord{"small-g", "hip"},       VendorWord{"dev-g", "hip"},
    VendorWord{"amd-smi", "hip"},       VendorWord{"nvidia", "cuda"},
    VendorWord{"nvidia-smi", "cuda"},   VendorWord{"nvcr", "cuda"},
    VendorWord{"nvlink", "cuda"},       VendorWord{"cudnn", "cuda", true},
    VendorWord{"cublas", "cuda", true}, VendorWord{"v100", "cuda"},
    VendorWord{"a100", "cuda"},         VendorWord{"h100", "cuda"},
    VendorWord{"h200", "cuda"},         VendorWord{"b200", "cuda"},
    VendorWord{"b300", "cuda"},         VendorWord{"gh200", "cuda"},
    VendorWord{"gb200", "cuda"},        VendorWord{"gb300", "cuda"},
    VendorWord{"a800", "cuda"},         VendorWord{"h800", "cuda"},
    VendorWord{"l40s", "cuda"},
};

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

const VendorWord* find_word(std::string_view one) {
  const auto found = std::ranges::find_if(vendor_words, [&](const VendorWord& word) {
    return word.begins ? one.starts_with(word.text) : one == word.text;
  });
  return found == vendor_words.end() ? nullptr : &*found;
}

// The vendor word in a part such as "standard-g" or "rocm-5", tried as a whole and in
// pieces.
const VendorWord* word_in(std::string_view part) {
  if (const VendorWord* whole = find_word(part)) return whole;
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t end = std::min(part.find('-', at), part.size());
    if (const VendorWord* word = find_word(part.substr(at, end - at))) return word;
    at = end + 1;
  }
  return nullptr;
}

// First word of the only vendor named in the text; null if it names none or both.
const VendorWord* vendor_in(const std::string& text) {
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const VendorWord* first = nullptr;
  for (std::size_t at = 0; at < lower.size();) {
    std::size_t end = at;
    while (end < lower.size() && in_word(lower[end])) ++end;
    const VendorWord* word = word_in(std::string_view(lower).substr(at, end - at));
    if (word && first && std::string_view(first->device) != word->device) return nullptr;
    if (word && !first) first = word;
    at = end + 1;
  }
  return first;
}

}  // namespace

void set_run_device(Translation& translation, const std::string& said,
                    std::span<const std::string> hints) {
  if (!said.empty())
    return put(translation, {"run.device", fmt::format("\"{}\"", said), "--device"});
  for (const std::string& hint : hints) {
    const VendorWord* word = vendor_in(hint);
    if (!word) continue;
    return put(translation,
               {"run.device", fmt::format("\"{}\"", word->device),
                fmt::format("the source trains on GPUs, according to '{}'", word->text)});
  }
  put(translation, {"run.device", "\"cuda\"", "assumed: the source trains on GPUs"});
  translation.notes.push_back(
      {"run.device",
       "\"cuda\" is assumed, because the source trains on GPUs without naming a vendor: use "
       "--device hip for AMD GPUs, or --device cpu to train on CPUs"});
}

}  // namespace trireme::megatron
