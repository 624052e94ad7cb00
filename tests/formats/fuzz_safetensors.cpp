// Fuzz target for the header of safetensors files. Tensors of accepted headers must tile the file.
#include "fuzz/fuzz.h"
#include "tensors/safetensors.h"

namespace {

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file + header + std::string(data_bytes, 'x');
}

}  // namespace

FUZZ_SEEDS({file_of("{}", 0),
            file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],)"
                    R"("data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[],)"
                    R"("data_offsets":[24,26]}}  )",
                    26)})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trireme::fuzz_reader([&] {
    const trireme::SafetensorsHeader header =
        trireme::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    std::uint64_t next = header.data_begin;
    for (const trireme::SafetensorsEntry& entry : header.tensors) {
      if (entry.begin != next || header.find(entry.name) != &entry) __builtin_trap();
      next = entry.end;
    }
    if (next != size) __builtin_trap();
  });
}
