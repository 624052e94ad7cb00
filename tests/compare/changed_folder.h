// A copy of another program's folder whose bytes are changed in place, as if that program had
// computed something else. Checksums of archives are corrected.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "compare/contents.h"
#include "formats/torch/zip_archive.h"

namespace trireme::testing_compare {

class ChangedFolder {
 public:
  ChangedFolder(const fs::path& from, fs::path to) : folder_(std::move(to)) {
    fs::copy(from, folder_, fs::copy_options::recursive);
    for (const fs::path& file : files())
      if (file.filename() == "expected.safetensors") fs::remove(file);  // of other tests
  }

  const fs::path& path() const { return folder_; }

  // Changes the last bit of an element of our tensor of that name in all of its copies, and returns
  // their number. They are found by the bits of the element and of its neighbors.
  int change_element(const Contents& contents, const std::string& tensor,
                     std::int64_t element) const {
    const std::vector<Place> places = places_of(contents, tensor, element);
    for (const Place& place : places) change(place);
    return static_cast<int>(places.size());
  }

  // The same, but changes only one of them.
  int change_last_copy(const Contents& contents, const std::string& tensor,
                       std::int64_t element) const {
    const std::vector<Place> places = places_of(contents, tensor, element);
    if (!places.empty()) change(places.back());
    return static_cast<int>(places.size());
  }

  // Changes the last bit of the number that follows `key` in the pickles of all files of that name,
  // and returns how many these are.
  int change_number(const std::string& key, const std::string& file_name) const {
    int changed = 0;
    for (const fs::path& file : files()) {
      if (file.filename() != file_name) continue;
      const std::string bytes = read(file);
      const std::size_t end = bytes.find(key) + key.size();
      constexpr std::string_view opcodes = "KM";  // BININT1 and BININT2, after that of the key
      const std::size_t opcode = bytes.find_first_of(opcodes, end);
      if (opcode > end + 5) continue;
      change({file, opcode + 1});
      ++changed;
    }
    return changed;
  }

  void exchange(const fs::path& one, const fs::path& other) const {
    fs::rename(folder_ / one, folder_ / "exchanged");
    fs::rename(folder_ / other, folder_ / one);
    fs::rename(folder_ / "exchanged", folder_ / other);
  }

 private:
  struct Place {
    fs::path file;
    std::size_t at = 0;  // of the byte
  };

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& item : fs::recursive_directory_iterator(folder_))
      if (item.is_regular_file()) found.push_back(item.path());
    std::ranges::sort(found);
    return found;
  }

  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::vector<Place> places_of(const Contents& contents, const std::string& tensor,
                               std::int64_t element) const {
    const auto at = std::ranges::find(contents.tensors, tensor, &HeldTensor::name);
    if (at == contents.tensors.end()) return {};
    constexpr std::int64_t neighbors = 4;
    std::string bits(static_cast<std::size_t>(neighbors * size_of(at->dtype)), '\0');
    contents.read(static_cast<std::size_t>(at - contents.tensors.begin()), element,
                  element + neighbors, reinterpret_cast<std::byte*>(bits.data()));
    std::vector<Place> places;
    for (const fs::path& file : files()) {
      const std::string bytes = read(file);
      for (std::size_t p = bytes.find(bits); p != std::string::npos; p = bytes.find(bits, p + 1))
        places.push_back({file, p});
    }
    return places;
  }

  static void change(const Place& place) {
    const auto& [file, at] = place;
    std::string bytes = read(file);
    // A file may hold several archives, one behind the other.
    static const std::string end_mark("PK\5\6", 4);
    constexpr std::size_t end_bytes = 22;
    const std::size_t before = bytes.rfind(end_mark, at), after = bytes.find(end_mark, at);
    const std::size_t begin = before == std::string::npos ? 0 : before + end_bytes;
    const bool is_archive = after != std::string::npos && bytes.compare(begin, 2, "PK") == 0;
    const std::size_t size = is_archive ? after + end_bytes - begin : 0;
    const auto entries = [&] {
      const auto archive = std::as_bytes(std::span(bytes)).subspan(begin, size);
      return is_archive ? parse_zip(archive, file.string()) : std::vector<ZipEntry>{};
    }();
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    for (const ZipEntry& entry : entries) {
      if (at - begin < entry.begin || at - begin >= entry.begin + entry.bytes) continue;
      const auto content =
          std::as_bytes(std::span(bytes)).subspan(begin + entry.begin, entry.bytes);
      replace(bytes, begin, begin + size, entry.crc, zip_crc(0, content));
    }
    std::ofstream(file, std::ios::binary) << bytes;
  }

  // Of a checksum, which is in the archive's directory, and with or behind the entry.
  static void replace(std::string& bytes, std::size_t begin, std::size_t end, std::uint32_t old,
                      std::uint32_t by) {
    for (std::size_t at = begin; at + sizeof old <= end; ++at)
      if (std::memcmp(&bytes[at], &old, sizeof old) == 0) std::memcpy(&bytes[at], &by, sizeof by);
  }

  const fs::path folder_;
};

}  // namespace trireme::testing_compare
