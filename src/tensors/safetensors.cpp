// Memory-maps a safetensors file and looks up tensors by name.
#include "tensors/safetensors.h"

#include "base/error.h"

namespace trireme {

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto it = index.find(name);
  return it == index.end() ? nullptr : &tensors[it->second];
}

SafetensorsFile::SafetensorsFile(const fs::path& path)
    : path_(path), file_(path), header_(parse_safetensors(file_.bytes(), path.string())) {}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (!entry) fail_input("'{}' has no tensor '{}'", path_.string(), name);
  return *entry;
}

}  // namespace trireme
