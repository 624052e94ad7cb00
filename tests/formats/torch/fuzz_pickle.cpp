// Fuzz target for pickles, alone and in the stream format. Accepted values must be traversable, and
// their tensors must lie within their storages.
#include "formats/torch/file.h"
#include "formats/torch/forged.h"
#include "fuzz/fuzz.h"

using namespace trireme;

FUZZ_SEEDS({pickle_of("}q\1" + pickle_text("a") + "]q\2(" + pickle_integer(-1) + "NG12345678es"),
            pickle_of(pickle_global("collections", "OrderedDict") + ")R(" + pickle_text("w") +
                      pickle_tensor({.shape = {2, 2}, .strides = {2, 1}}) + "u}b"),
            pickle_of(pickle_global("argparse", "Namespace") + ")\x81}" + pickle_text("a") +
                      pickle_global("_codecs", "encode") + pickle_text("x") +
                      pickle_text("latin1") + "\x86Rsb")})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz_reader([&] {
    const Pickle pickle(text, "input");
    if (pickle.size() > size) __builtin_trap();
    for (const auto& [name, tensor] : torch_entries(pickle, pickle.root())) {
      const PickleStorage& storage = pickle.storages()[tensor.storage];
      std::int64_t last = tensor.offset;
      for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        last += (tensor.shape[i] - 1) * tensor.strides[i];
      }
      if (tensor.count() > 0 &&
          (last + 1) * tensor.type->bytes > storage.count * storage.type->bytes) {
        __builtin_trap();
      }
    }
    for (PickleId id = 0; id <= pickle.root(); ++id) pickle.shown(id);
  });
  return fuzz_reader([&] { parse_torch_file(std::as_bytes(std::span(data, size)), "input"); });
}
