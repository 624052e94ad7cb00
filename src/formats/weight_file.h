// Weight files in safetensors or torch.save format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "formats/torch/file.h"

namespace trireme {

// One tensor of a file.
struct WeightEntry {
  std::string name;
  std::string_view type;            // as safetensors names it: "F32", "BF16", "F8_E4M3", ...
  std::optional<DType> dtype;       // empty for types that Trireme does not support
  std::vector<std::int64_t> shape;  // row-major; empty for a scalar
  bool repeats = false;             // has more elements than are stored in the file

  std::int64_t count() const;
  // Shape of the matrix view: columns are the last dimension (a vector has one column).
  std::int64_t columns() const { return shape.size() < 2 ? 1 : shape.back(); }
  std::int64_t rows() const { return columns() == 0 ? 0 : count() / columns(); }
};

std::string shape_text(const std::vector<std::int64_t>& shape);

class WeightFile {
 public:
  virtual ~WeightFile() = default;

  const std::string& name() const { return name_; }
  const std::vector<WeightEntry>& tensors() const { return tensors_; }
  // The tensor of that name, or nullptr if there is none.
  const WeightEntry* find(std::string_view name) const;
  // Reads elements [begin, end) of a tensor of this file, row-major, unconverted. Its type must be
  // supported. Thread-safe. Tensors are read, not mapped, so that converted data does not stay in
  // memory.
  virtual void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
                    std::byte* dst) const = 0;

 protected:
  WeightFile(std::string name, std::vector<WeightEntry> tensors);
  std::size_t position(const WeightEntry& tensor) const {
    return static_cast<std::size_t>(&tensor - tensors_.data());
  }

 private:
  std::string name_;
  std::vector<WeightEntry> tensors_;
  std::map<std::string_view, std::size_t> index_;
};

// Opens safetensors if the extension says so, unless the contents differ. Refused (exit code 2):
// see parse_safetensors and parse_torch_file.
std::unique_ptr<WeightFile> open_weight_file(const fs::path& path);

// Tensors below a value of a torch.save file.
std::unique_ptr<WeightFile> torch_weights(std::shared_ptr<const TorchFile> file, PickleId root);

// Whether two tensors have the same type, shape and bytes.
bool same_weights(const WeightFile& file, const WeightEntry& tensor, const WeightFile& other_file,
                  const WeightEntry& other);
// Whether the tensor equals `exact`, rounded to the tensor's type, with the same shape.
bool is_rounded_from(const WeightFile& file, const WeightEntry& tensor,
                     const WeightFile& exact_file, const WeightEntry& exact);

}  // namespace trireme
