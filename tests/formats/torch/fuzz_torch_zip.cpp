// Fuzz target for zip archives. Entries of accepted ones must tile the file, with storages inside.
#include <algorithm>

#include "formats/torch/file.h"
#include "formats/torch/forged.h"
#include "formats/torch/zip_archive.h"
#include "fuzz/fuzz.h"

FUZZ_SEEDS({trireme::forged_zip({{"a", "1"}, {"b/c", "22"}}),
            trireme::forged_torch(trireme::pickle_of(trireme::pickle_tensor({})),
                                  std::string(16, 'x'))})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  trireme::fuzz_reader([&] {
    auto entries = trireme::parse_zip(bytes, "input");
    std::ranges::sort(entries, {}, &trireme::ZipEntry::begin);
    std::uint64_t end = 0;
    for (const trireme::ZipEntry& entry : entries) {
      if (entry.begin < end || entry.begin > size || entry.bytes > size - entry.begin) {
        __builtin_trap();
      }
      end = entry.begin + entry.bytes;
    }
  });
  return trireme::fuzz_reader([&] {
    for (const trireme::TorchExtent& extent : trireme::parse_torch_file(bytes, "input").storages) {
      if (extent.begin > size || extent.bytes > size - extent.begin) __builtin_trap();
    }
  });
}
