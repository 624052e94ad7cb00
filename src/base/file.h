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
  // Whether path() still leads to this file: it was not renamed, removed or replaced.
  bool is_at_path() const;
  std::uint64_t size() const;
  void write(const void* bytes, std::size_t count);
  void write_at(std::uint64_t offset, const void* bytes, std::size_t count);
  void read_at(std::uint64_t offset, void* bytes, std::size_t count) const;
  void truncate(std::uint64_t size);
  void sync();
  // Closes now and reports an error that the system kept until then.
  void close();

 private:
  friend class MappedFile;
  int fd_ = -1;
  fs::path path_;
};

// A new file that is written under a temporary name in the same folder and takes its final name
// only when it is complete: after a crash either the old or the new content is there. It is removed
// if it is destroyed without keep(), so that a failure leaves nothing.
class NewFile {
 public:
  // Creates `path` + `suffix`.
  explicit NewFile(const fs::path& path, std::string_view suffix = ".tmp");
  ~NewFile();
  NewFile(NewFile&& other) noexcept;

  File& file() { return file_; }
  const fs::path& path() const { return path_; }  // the final one
  // Makes the content durable. Nothing is written any more.
  void complete();
  // Completes the file if that was not done, renames it and makes the new name durable.
  void keep();
  // Only renames it: for content that may be lost in a crash and is checked by its reader.
  void keep_unsynced();

 private:
  fs::path path_;
  fs::path temporary_;  // empty once it is kept or moved from
  File file_;           // open until it is complete
};

// Writes `bytes` as a NewFile.
void write_file_durably(const fs::path& path, std::string_view bytes);

// Several files that belong together: renamed only when all of them are written.
void write_files_durably(std::initializer_list<std::pair<fs::path, std::string_view>> files);

// Renames a file or a folder, replacing a file of that name, and makes the new name durable.
void rename_durably(const fs::path& from, const fs::path& to);

// Makes the entries of a folder durable.
void sync_folder(const fs::path& folder);
// The same for the folder that holds `path`.
void sync_parent(const fs::path& path);

// Creates a folder with its parents and makes the names of all that it created durable.
void make_folders(const fs::path& folder);

// A file mapped for reading. Movable; unmaps itself.
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
