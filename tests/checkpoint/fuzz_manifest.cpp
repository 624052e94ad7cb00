// Fuzz target for manifests. The text's own checksum is corrected first, so that the code behind it
// is reached; every accepted manifest must survive being written and read again.
#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "fuzz/fuzz.h"

namespace {

using namespace trireme;

constexpr std::size_t tail_size = 30;  // ,\n"xxh3":"0123456789abcdef"}\n

std::string without_tail(const std::string& text) {
  return text.substr(0, text.size() - tail_size);
}

std::string with_tail(const std::string& body) {
  return body + ",\n\"xxh3\":\"" + hash_to_text(hash64(body)) + "\"}\n";
}

std::string small_manifest() {
  Manifest manifest;
  manifest.program = "trireme";
  manifest.block_bytes = 64;
  manifest.state = {1, 2, 3, {{"seed", 4}}, {{"scale", 0.5}}, {{"a", "b"}}, "[run]\n"};
  manifest.shards = {{"shard-00000.safetensors", 1000, 5}, {"shard-00001.safetensors", 2000, 6}};
  const Shape shape{4, 6};
  manifest.tensors = {{"x",
                       DType::f32,
                       shape,
                       {{0, "x(0:10)", Region::range(shape, 0, 10), {7}},
                        {1, "x(10:24)", Region::range(shape, 10, 24), {8}}}},
                      {"y", DType::bf16, {3}, {{0, "y", Region::whole({3}), {9}}}}};
  return to_text(manifest);
}

}  // namespace

FUZZ_SEEDS({without_tail(small_manifest()), without_tail(to_text({}))})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz_reader([&] {
    const std::string text = with_tail({reinterpret_cast<const char*>(data), size});
    const Manifest manifest = parse_manifest(text, "input");
    if (to_text(parse_manifest(to_text(manifest), "again")) != to_text(manifest)) __builtin_trap();
    check_complete(manifest, "input");
  });
}
