// Code shared by all fuzz targets: seeding the corpus, and running a reader that may reject its
// input.
//
//   FUZZ_SEEDS({valid_file(), other_valid_file()})
//   extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
//     return fuzz_reader([&] { parse({data, size}); });
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace trireme {

// Writes the seeds to the corpus folder, which is the first argument that is not a flag.
inline void write_fuzz_seeds(int argc, char** argv, const std::vector<std::string>& seeds) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    if (!std::filesystem::is_directory(argv[i])) return;
    for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
      std::ofstream(std::filesystem::path(argv[i]) / ("seed" + std::to_string(seed)),
                    std::ios::binary)
          << seeds[seed];
    }
    return;
  }
}

// Runs a reader. Rejecting the input is correct; any other exception, and anything that the
// sanitizers find, is a bug that ends the run.
template <class Body>
int fuzz_reader(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_input) throw;
  }
  return 0;
}

}  // namespace trireme

// Defines the initial corpus: a braced list of strings.
#define FUZZ_SEEDS(...)                                                            \
  extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {                   \
    trireme::write_fuzz_seeds(*argc, *argv, std::vector<std::string> __VA_ARGS__); \
    return 0;                                                                      \
  }
