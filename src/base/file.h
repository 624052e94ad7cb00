// Files: whole reads, memory maps and durable writes, with error messages that name the path.
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

// Reads a whole file; fails if it is larger than `max_bytes`.
std::string read_file(const fs::path& path, std::uint64_t max_bytes = std::uint64_t{1} << 32);

// Open file descriptor. Movable; closed on destruction.
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
  // Whether path() still refers to this file, i.e. it was not renamed, removed or replaced.
  bool is_at_path() const;
  std::uint64_t size() const;
  void write(const void* bytes, std::size_t count);
  void write_at(std::uint64_t offset, const void* bytes, std::size_t count);
  void read_at(std::uint64_t offset, void* bytes, std::size_t count) const;
  void truncate(std::uint64_t size);
  void sync();
  // Closes the file now and reports deferred write errors.
  void close();

 private:
  friend class MappedFile;
  int fd_ = -1;
  fs::path path_;
};

// A file written under a temporary name in the same folder and renamed to its final name only when
// complete, so that a crash leaves either the old or the new content. The destructor removes it
// unless it was kept, so that a failure leaves nothing behind.
class NewFile {
 public:
  // Creates `path` + `suffix`.
  explicit NewFile(const fs::path& path, std::string_view suffix = ".tmp");
  ~NewFile();
  NewFile(NewFile&& other) noexcept;

  File& file() { return file_; }
  const fs::path& path() const { return path_; }  // final path
  // Makes the content durable. No writes may follow.
  void complete();
  // Calls complete() if necessary, renames the file and makes the new name durable.
  void keep();
  // Renames without syncing: for content that its reader verifies and that a crash may lose.
  void keep_unsynced();

 private:
  fs::path path_;
  fs::path temporary_;  // empty after keep() or a move
  File file_;           // open until complete()
};

// Writes `bytes` durably through a NewFile.
void write_file_durably(const fs::path& path, std::string_view bytes);

// Writes several related files; renames them only after all have been written.
void write_files_durably(std::initializer_list<std::pair<fs::path, std::string_view>> files);

// Renames a file or a folder, replaces an existing file, and makes the new name durable.
void rename_durably(const fs::path& from, const fs::path& to);

// Makes the entries of a folder durable (fsync).
void sync_folder(const fs::path& folder);
// Same for the folder that contains `path`.
void sync_parent(const fs::path& path);

// Creates a folder and its parents, and makes the names of all new folders durable.
void make_folders(const fs::path& folder);

// Read-only memory-mapped file. Movable; unmapped on destruction.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path) : MappedFile(File(path, File::Mode::read)) {}
  explicit MappedFile(const File& file);
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
