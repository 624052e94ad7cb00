// Files: whole reads, memory maps and durable writes, with messages that name the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

namespace fs = std::filesystem;

// Reads a whole file; refuses one larger than `max_bytes`.
std::string read_file(const fs::path& path, std::uint64_t max_bytes = std::uint64_t{1} << 32);

// A file written beside its final name; removed unless it is kept, so that nothing stays behind
// where the writing fails.
class Unfinished {
 public:
  explicit Unfinished(fs::path path) : path_(std::move(path)) {}
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const fs::path& path() const { return path_; }
  // Renames it and makes the new name durable. Nothing is removed any more.
  void keep_as(const fs::path& path);

 private:
  fs::path path_;
};

// Writes `bytes` so that after a crash either the old or the new content is there: a temporary
// file beside `path`, synced, then renamed, then the folder synced. On an error it is removed.
void write_file_durably(const fs::path& path, std::string_view bytes);

// Several files that belong together: renamed only when all of them are written.
void write_files_durably(std::initializer_list<std::pair<fs::path, std::string_view>> files);

// Makes the entries of a folder durable.
void sync_folder(const fs::path& folder);

// Creates a folder with its parents; says clearly why not.
void make_folders(const fs::path& folder);

// An open file descriptor. Movable; closes itself.
class File {
 public:
  enum class Mode { read, create, append };

  File() = default;
  File(const fs::path& path, Mode mode);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  bool is_open() const { return fd_ >= 0; }
  const fs::path& path() const { return path_; }
  std::uint64_t size() const;
  void write(const void* bytes, std::size_t count);
  void write_at(std::uint64_t offset, const void* bytes, std::size_t count);
  void read_at(std::uint64_t offset, void* bytes, std::size_t count) const;
  void truncate(std::uint64_t size);
  void sync();
  // Closes now and reports an error that the system kept until then.
  void close();

 private:
  int fd_ = -1;
  fs::path path_;
};

// A file mapped for reading. Movable; unmaps itself.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
