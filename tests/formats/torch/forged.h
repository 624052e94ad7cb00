// Hand-written archives and pickles, so that a test can make any mistake in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/torch/zip_archive.h"

namespace trireme {

template <class T>
std::string little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// One entry of a forged archive. Values that differ from the correct ones are set explicitly.
struct ForgedEntry {
  std::string name, content;
  std::uint32_t crc = 0;  // 0: the correct one
  std::uint16_t method = 0, flags = 0;
  std::string local_name = {};    // in the local header, if different
  std::int64_t claimed = -1;      // size in the directory; -1: correct
  std::int64_t local_begin = -1;  // position according to the directory
  bool listed = true;             // in the directory
};

// Returns a zip archive.
inline std::string forged_zip(const std::vector<ForgedEntry>& entries) {
  std::string file, directory;
  std::uint16_t listed = 0;
  for (const ForgedEntry& entry : entries) {
    const auto begin = static_cast<std::uint32_t>(
        entry.local_begin < 0 ? static_cast<std::int64_t>(file.size()) : entry.local_begin);
    const auto size = static_cast<std::uint32_t>(entry.content.size());
    const auto claimed = entry.claimed < 0 ? size : static_cast<std::uint32_t>(entry.claimed);
    const std::uint32_t crc =
        entry.crc ? entry.crc : zip_crc(0, std::as_bytes(std::span(entry.content)));
    const auto sizes = [&](std::uint32_t bytes, const std::string& name) {
      return little(entry.flags) + little(entry.method) + little(std::uint32_t{0}) + little(crc) +
             little(bytes) + little(bytes) + little(static_cast<std::uint16_t>(name.size())) +
             little(std::uint16_t{0});
    };
    if (entry.listed) {
      ++listed;
      directory += "PK\1\2" + little(std::uint16_t{20}) + little(std::uint16_t{20}) +
                   sizes(claimed, entry.name) + std::string(10, '\0') + little(begin) + entry.name;
    }
    const std::string& name = entry.local_name.empty() ? entry.name : entry.local_name;
    file += "PK\3\4" + little(std::uint16_t{20}) + sizes(claimed, name) + name + entry.content;
  }
  const std::string end = std::string("PK\5\6") + std::string(4, '\0') + little(listed) +
                          little(listed) + little(static_cast<std::uint32_t>(directory.size())) +
                          little(static_cast<std::uint32_t>(file.size())) + std::string(2, '\0');
  return file + directory + end;
}

// Returns an archive of torch.save with the pickle and one storage '0'.
inline std::string forged_torch(const std::string& pickle, const std::string& storage) {
  return forged_zip({{"archive/data.pkl", pickle},
                     {"archive/byteorder", "little"},
                     {"archive/data/0", storage},
                     {"archive/version", "3\n"}});
}

// Parts of pickles: a complete one of protocol 2, a text, a class, an integer.
inline std::string pickle_of(const std::string& body) {
  return "\x80\x02" + body + ".";
}

inline std::string pickle_text(const std::string& text) {
  return "X" + little(static_cast<std::uint32_t>(text.size())) + text;
}

inline std::string pickle_global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

inline std::string pickle_integer(std::int64_t value) {
  return "\x8a\x08" + little(value);
}

// An f32 tensor of the storage '0': offset, shape, strides and number of elements of the storage.
struct ForgedTensor {
  std::int64_t offset = 0, count = 4;
  std::vector<std::int64_t> shape{4}, strides{1};
  std::string storage_class = "FloatStorage", key = "0";
};
inline std::string pickle_tensor(const ForgedTensor& tensor) {
  const auto tuple = [](const std::vector<std::int64_t>& values) {
    std::string out = "(";
    for (const std::int64_t value : values) out += pickle_integer(value);
    return out + "t";
  };
  return pickle_global("torch._utils", "_rebuild_tensor_v2") + "((" + pickle_text("storage") +
         pickle_global("torch", tensor.storage_class) + pickle_text(tensor.key) +
         pickle_text("cpu") + pickle_integer(tensor.count) + "tQ" + pickle_integer(tensor.offset) +
         tuple(tensor.shape) + tuple(tensor.strides) + "\x89" +
         pickle_global("collections", "OrderedDict") + ")RtR";
}

}  // namespace trireme
