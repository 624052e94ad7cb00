// The tensors of a small model in memory, with distinct elements: a source for writers.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/assembled.h"
#include "formats/megatron/mapping.h"

namespace trireme {

class HeldTensors : public TensorSource {
 public:
  explicit HeldTensors(const ModelConfig& model) : HeldTensors(megatron_mapping(model)) {}
  explicit HeldTensors(TensorMapping mapping) : mapping_(std::move(mapping)) {
    float next = 1;
    for (const NamedTensor& tensor : mapping_.ours) {
      std::vector<float>& values = tensors_[tensor.name];
      for (std::int64_t i = 0; i < tensor.shape.count(); ++i) values.push_back(next++ / 64);
    }
  }

  const TensorMapping& mapping() const { return mapping_; }
  // Returns the names of tensors that a model lacks or has with other contents.
  std::vector<std::string> missing_in(const ForeignModel& model) const {
    const auto theirs = assembled(model);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : all())
      if (!theirs.contains(name) || theirs.at(name) != tensor) names.push_back(name);
    if (theirs.size() > tensors_.size()) names.push_back("further ones");
    return names;
  }

  DType check(const std::string&, const Shape&) const override { return DType::f32; }
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override {
    const std::vector<float>& values = tensors_.at(name);
    std::int64_t width = 1;
    for (const NamedTensor& tensor : mapping_.ours)
      if (tensor.name == name) width = tensor.columns();
    for (std::int64_t row = 0; row < part.rows; ++row) {
      const float* from = values.data() + (part.row + row) * width + part.column;
      std::memcpy(dst + 4 * row * part.columns, from, static_cast<std::size_t>(4 * part.columns));
    }
  }

 private:
  // Returns the tensors in the form of assembled().
  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> shown;
    for (const NamedTensor& tensor : mapping_.ours) {
      const std::vector<float>& values = tensors_.at(tensor.name);
      const std::string bytes(reinterpret_cast<const char*>(values.data()), 4 * values.size());
      shown[tensor.name] = fmt::format("{} {} {}", name_of(DType::f32), tensor.shape.text(), bytes);
    }
    return shown;
  }

  TensorMapping mapping_;
  std::map<std::string, std::vector<float>> tensors_;
};

inline ModelConfig small_model(const std::string& family) {
  ModelConfig m;
  m.family = family;
  m.num_layers = 4;
  m.hidden_size = 32;
  m.num_heads = 4;
  m.ffn_hidden_size = 24;
  m.seq_length = m.max_positions = 16;
  m.vocab_size = 61;
  m.vocab_multiple = 8;
  if (family == "llama") m.num_kv_heads = 2;
  return m;
}

}  // namespace trireme
