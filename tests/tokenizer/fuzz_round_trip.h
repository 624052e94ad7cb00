// Shared by the fuzz targets of tokenizers: files made from the input, and a trial of the tokenizer
// loaded from them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace trireme {

// A file that exists for one input.
class FuzzFile {
 public:
  FuzzFile(const std::string& name, std::string_view content)
      : path_(std::filesystem::temp_directory_path() /
              ("trireme_fuzz_" + std::to_string(::getpid()) + "_" + name)) {
    std::ofstream(path_, std::ios::binary).write(content.data(), std::ssize(content));
  }
  ~FuzzFile() { std::filesystem::remove(path_); }
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// An accepted tokenizer must encode and decode any text, with IDs of its vocabulary.
inline void try_tokenizer(const Tokenizer& tokenizer, bool keeps_bytes) {
  for (const std::string_view text :
       {std::string_view("the theory, 12 ships' oars\n\n  end"),
        std::string_view("\xff\xe2\x82 a\0b", 7),
        std::string_view("\u2581\u00e9\u6f22<s></s>[MASK]"), std::string_view()}) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    const std::string decoded = tokenizer.decode(ids);
    if (keeps_bytes && decoded != text) __builtin_trap();
    tokenizer.decode(tokenizer.encode_with_special(text, text).ids, true);
  }
}

}  // namespace trireme
