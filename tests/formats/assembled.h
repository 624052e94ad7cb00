// Collects the result of converting a model, so that it can be compared as a whole.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "config/config.h"
#include "formats/foreign_model.h"

namespace trireme {

// Maps our tensor names to type, shape and bytes.
inline std::map<std::string, std::string> assembled(const ForeignModel& model) {
  const TensorAssembler assembler(model.mapping, Direction::to_ours, *model.weights);
  std::map<std::string, std::string> tensors;
  for (std::size_t i = 0; i < assembler.targets().size(); ++i) {
    const NamedTensor& tensor = assembler.targets()[i];
    const std::int64_t count = tensor.shape.count(), element = size_of(assembler.dtype(i));
    std::string bytes(static_cast<std::size_t>(count * element), '\0');
    auto* dst = reinterpret_cast<std::byte*>(bytes.data());
    // Uses two pieces, split at an arbitrary position.
    const std::int64_t middle = count * 3 / 7;
    assembler.produce(i, assembler.dtype(i), 0, middle, dst);
    assembler.produce(i, assembler.dtype(i), middle, count, dst + middle * element);
    tensors[tensor.name] =
        fmt::format("{} {} {}", name_of(assembler.dtype(i)), tensor.shape.text(), bytes);
  }
  return tensors;
}

// Returns the names of tensors that differ or exist on one side only; shorter than showing bytes.
inline std::vector<std::string> differences(const ForeignModel& one, const ForeignModel& other) {
  const auto a = assembled(one), b = assembled(other);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a)
    if (!b.contains(name) || b.at(name) != tensor) names.push_back(name);
  for (const auto& [name, tensor] : b)
    if (!a.contains(name)) names.push_back(name);
  return names;
}

}  // namespace trireme
