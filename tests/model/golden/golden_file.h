// Golden runs that golden_file.py wrote as safetensors, read back into one JSON object.
#pragma once

#include <cstring>
#include <nlohmann/json.hpp>

#include "tensors/safetensors.h"

namespace trireme::golden {

// Numbers of type T: one where the shape is empty, a list otherwise.
template <class T>
nlohmann::json numbers(const SafetensorsEntry& entry, std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  if (entry.shape.empty()) return values.at(0);
  return values;
}

// Settings are the metadata "settings"; a tensor's name is the JSON pointer to its numbers.
inline nlohmann::json read_file(const fs::path& path) {
  const SafetensorsFile file(path);
  nlohmann::json golden = nlohmann::json::parse(file.header().metadata.at("settings"));
  for (const SafetensorsEntry& entry : file.tensors()) {
    const nlohmann::json::json_pointer place("/" + entry.name);
    golden[place] = entry.type == "I64" ? numbers<std::int64_t>(entry, file.bytes(entry))
                                        : numbers<double>(entry, file.bytes(entry));
  }
  return golden;
}

}  // namespace trireme::golden
