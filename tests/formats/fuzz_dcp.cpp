// Fuzz target for the .metadata of torch.distributed.checkpoint. Chunks of accepted files must lie
// within their tensors, and their file names must stay in the folder.
#include <unistd.h>

#include "formats/dcp/metadata.h"
#include "formats/dcp/writer.h"
#include "fuzz/fuzz.h"

namespace {

std::string metadata_of_two_tensors() {
  using namespace trireme;
  const fs::path folder =
      fs::temp_directory_path() / ("trireme_fuzz_dcp_" + std::to_string(::getpid()));
  make_folders(folder);
  const float values[6] = {};
  DcpWriter writer(folder, 1 << 20);
  writer.begin({"model", "a"}, {DType::f32, {2, 3}});
  writer.write(values, sizeof values);
  writer.begin({"optimizer", "state.a.step"}, {DType::f32, {}});
  writer.write(values, sizeof *values);
  writer.add({"step"}, {std::int64_t{5}});
  writer.finish();
  const std::string text = read_file(folder / dcp_metadata_file);
  fs::remove_all(folder);
  return text;
}

}  // namespace

FUZZ_SEEDS({metadata_of_two_tensors()})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return fuzz_reader([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const DcpMetadata metadata = parse_dcp_metadata(text, "input");
    for (const std::string& file : metadata.files) {
      if (file.empty() || file.find('/') != file.npos || file == "..") __builtin_trap();
    }
    for (const DcpTensor& tensor : metadata.tensors) {
      for (const DcpChunk& chunk : tensor.chunks) {
        if (chunk.item.file >= metadata.files.size()) __builtin_trap();
        for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
          if (chunk.offsets[i] < 0 || chunk.offsets[i] + chunk.sizes[i] > tensor.shape[i])
            __builtin_trap();
        }
      }
      dcp_tiling_fault(tensor);
    }
  });
}
