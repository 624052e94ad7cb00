// A file, or a part of it, read from its beginning to its end; and what decompresses one.
#pragma once

#include <algorithm>

#include "base/file.h"
#include "data/documents/byte_source.h"

namespace trireme {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const fs::path& path)
      : file_(path, File::Mode::read), begin_(0), end_(file_.size()) {}
  PlainSource(const fs::path& path, std::uint64_t begin, std::uint64_t end)
      : file_(path, File::Mode::read),
        begin_(begin),
        end_(std::max(begin, std::min(end, file_.size()))),
        at_(begin) {}

  std::size_t read(char* to, std::size_t count) override {
    const std::size_t n = std::min<std::uint64_t>(count, end_ - at_);
    file_.read_at(at_, to, n);
    at_ += n;
    return n;
  }
  std::uint64_t consumed() const override { return at_ - begin_; }
  std::string name() const { return file_.path().string(); }

 private:
  File file_;
  std::uint64_t begin_, end_, at_ = 0;
};

std::unique_ptr<ByteSource> open_gzip(const fs::path& path);
std::unique_ptr<ByteSource> open_xz(const fs::path& path);
std::unique_ptr<ByteSource> open_zstd(const fs::path& path);

}  // namespace trireme
