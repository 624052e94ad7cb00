// Element types as PyTorch names them.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace trireme {

struct TorchType {
  std::string_view name;      // as in safetensors files: "F32", "BF16", "F8_E4M3", ...
  std::string_view storage;   // the class of its storages in module torch, or "" where it has none
  std::string_view dtype;     // torch.float32, ...
  int bytes;                  // of one element
  std::optional<DType> ours;  // empty for types that Trireme does not compute with
};

// By the class of a storage ("FloatStorage"), by the name in module torch ("float32"), or nullptr.
const TorchType* find_torch_storage(std::string_view name);
const TorchType* find_torch_dtype(std::string_view name);
// The type of storages that only count bytes.
const TorchType& torch_bytes();
const TorchType& torch_type(DType dtype);

}  // namespace trireme
