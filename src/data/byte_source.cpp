// Decompression with zlib, liblzma and libzstd.
#include "data/byte_source.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

// A file, or a part of it, read from its beginning to its end.
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

enum class Compression { none, gzip, xz, zstd };

Compression compression_of(const fs::path& path) {
  char first[6] = {};
  const std::string_view bytes(first, PlainSource(path).read(first, sizeof(first)));
  if (bytes.starts_with("\x1f\x8b")) return Compression::gzip;
  if (bytes.starts_with(std::string_view("\xfd"
                                         "7zXZ\0",
                                         6))) {
    return Compression::xz;
  }
  return bytes.starts_with("\x28\xb5\x2f\xfd") ? Compression::zstd : Compression::none;
}

// What the three decompressors share: a buffer of compressed bytes and their view of it.
class CompressedSource : public ByteSource {
 public:
  explicit CompressedSource(const fs::path& path) : file_(path), buffer_(1 << 17) {}
  std::uint64_t consumed() const override { return file_.consumed(); }

 protected:
  // Makes compressed bytes available if there are any; false at the end of the file.
  bool refill() {
    if (begin_ < end_) return true;
    begin_ = 0;
    end_ = file_.read(buffer_.data(), buffer_.size());
    return end_ > 0;
  }
  char* input() { return buffer_.data() + begin_; }
  std::size_t available() const { return end_ - begin_; }
  void used(std::size_t count) { begin_ += count; }
  [[noreturn]] void fail_cut_off() const {
    fail_input("'{}' ends in the middle of its compressed data: it is truncated", file_.name());
  }
  [[noreturn]] void fail_damaged(const char* format, std::string_view reason) const {
    fail_input("'{}' is damaged: its {} data cannot be decompressed ({})", file_.name(), format,
               reason);
  }

 private:
  PlainSource file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

class GzipSource final : public CompressedSource {
 public:
  explicit GzipSource(const fs::path& path) : CompressedSource(path) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail("zlib cannot start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(char* to, std::size_t count) override {
    count = std::min<std::size_t>(count, 1 << 30);
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(count);
    while (stream_.avail_out == count) {
      if (!refill()) {
        if (inside_) fail_cut_off();
        return 0;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(input());
      stream_.avail_in = static_cast<uInt>(available());
      inside_ = true;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      used(available() - stream_.avail_in);
      if (result == Z_STREAM_END) {
        inside_ = false;
        inflateReset(&stream_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        fail_damaged("gzip", stream_.msg ? stream_.msg : "unknown reason");
      }
    }
    return count - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool inside_ = false;  // of a stream
};

class XzSource final : public CompressedSource {
 public:
  explicit XzSource(const fs::path& path) : CompressedSource(path) {
    constexpr std::uint64_t memory = std::uint64_t{1} << 30;
    if (lzma_stream_decoder(&stream_, memory, LZMA_CONCATENATED) != LZMA_OK) {
      fail("liblzma cannot start");
    }
  }
  ~XzSource() override { lzma_end(&stream_); }

  std::size_t read(char* to, std::size_t count) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(to);
    stream_.avail_out = count;
    while (stream_.avail_out == count && !ended_) {
      const bool more = refill();
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(input());
      stream_.avail_in = available();
      const lzma_ret result = lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
      used(available() - stream_.avail_in);
      if (result == LZMA_STREAM_END) {
        ended_ = true;
      } else if (result == LZMA_BUF_ERROR) {
        fail_cut_off();
      } else if (result != LZMA_OK) {
        fail_damaged("xz", result == LZMA_MEMLIMIT_ERROR ? "it needs more than 1 GiB of memory"
                                                         : "its checks do not hold");
      }
    }
    return count - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

class ZstdSource final : public CompressedSource {
 public:
  explicit ZstdSource(const fs::path& path)
      : CompressedSource(path), stream_(ZSTD_createDStream()) {
    if (!stream_) fail("libzstd cannot start");
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  std::size_t read(char* to, std::size_t count) override {
    ZSTD_outBuffer out{to, count, 0};
    while (out.pos == 0) {
      if (!refill()) {
        if (inside_) fail_cut_off();
        return 0;
      }
      ZSTD_inBuffer in{input(), available(), 0};
      const std::size_t result = ZSTD_decompressStream(stream_, &out, &in);
      used(in.pos);
      if (ZSTD_isError(result)) fail_damaged("zstd", ZSTD_getErrorName(result));
      inside_ = result != 0;
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool inside_ = false;  // of a frame
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const fs::path& path) {
  switch (compression_of(path)) {
    case Compression::gzip:
      return std::make_unique<GzipSource>(path);
    case Compression::xz:
      return std::make_unique<XzSource>(path);
    case Compression::zstd:
      return std::make_unique<ZstdSource>(path);
    default:
      return std::make_unique<PlainSource>(path);
  }
}

std::unique_ptr<ByteSource> open_byte_range(const fs::path& path, std::uint64_t begin,
                                            std::uint64_t end) {
  return std::make_unique<PlainSource>(path, begin, end);
}

bool is_compressed(const fs::path& path) {
  return compression_of(path) != Compression::none;
}

}  // namespace trireme
