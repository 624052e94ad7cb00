// Element types as PyTorch names them.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace trireme {

struct TorchType {
  std::string_view name;      // as in safetensors files: "F32", "BF16", "F8_E4M3", ...
  std::string_view storage;   // storage class in module torch, or "" if none
  std::string_view dtype;     // torch.float32, ...
  int bytes;                  // bytes per element
  std::optional<DType> ours;  // empty for types that Trireme does not support
};

// Looks up a storage class ("FloatStorage") or a dtype ("float32"); nullptr if unknown.
const TorchType* find_torch_storage(std::string_view name);
const TorchType* find_torch_dtype(std::string_view name);
// Element type of untyped (byte) storages.
const TorchType& torch_bytes();
const TorchType& torch_type(DType dtype);

}  // namespace trireme
