// Decompression with zlib, liblzma and libzstd: streams one after the other, and NULs between them.
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/machine_memory.h"
#include "data/documents/plain_source.h"

namespace trireme {
namespace {

// Most memory that a decoder may request for a window or a dictionary.
std::uint64_t most_memory() {
  return std::max(std::uint64_t{1} << 30, static_cast<std::uint64_t>(machine_memory_bytes()) / 2);
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20);
}

struct Bytes {
  char* data;
  std::size_t size;
  void take(std::size_t count) {
    data += count;
    size -= count;
  }
};

// A file of one format. What the formats share: a buffer of compressed bytes, streams that follow
// each other, and padding.
class CompressedSource : public ByteSource {
 public:
  CompressedSource(const fs::path& path, const char* format)
      : file_(path), format_(format), buffer_(1 << 17) {}
  std::uint64_t consumed() const override { return file_.consumed(); }

  std::size_t read(char* to, std::size_t count) override {
    Bytes out{to, std::min<std::size_t>(count, 1 << 30)};
    while (out.data == to) {
      if (!inside_ && !next_stream()) return 0;
      if (!refill())
        fail_input("'{}' ends in the middle of its compressed data: it is truncated", file_.name());
      inside_ = !decode(input_, out);
    }
    return static_cast<std::size_t>(out.data - to);
  }

 protected:
  // Before the first byte of each stream.
  virtual void begin() = 0;
  // Whether a stream may begin with this byte.
  virtual bool begins(unsigned char first) const = 0;
  // Decodes a part of `in`, which is not empty, to `out`; true at the end of a stream.
  virtual bool decode(Bytes& in, Bytes& out) = 0;

  [[noreturn]] void fail_damaged(std::string_view reason) const {
    fail_input("'{}' is damaged: its {} data cannot be decompressed ({})", file_.name(), format_,
               reason);
  }
  [[noreturn]] void fail_memory(std::string_view needs, std::string_view remedy) const {
    fail_input("decompressing '{}' needs {}, but at most {} are allowed: {}", file_.name(), needs,
               mebibytes(most_memory()), remedy);
  }
  [[noreturn]] void fail_reason(std::string_view reason) const {
    fail_input("'{}' cannot be decompressed: {}", file_.name(), reason);
  }

 private:
  // Makes compressed bytes available if there are any; false at the end of the file.
  bool refill() {
    if (input_.size > 0) return true;
    input_ = {buffer_.data(), file_.read(buffer_.data(), buffer_.size())};
    return input_.size > 0;
  }

  // Goes to the next stream, over NULs that a tape or an archive has put between or after them.
  bool next_stream() {
    while (refill() && !first_ && *input_.data == '\0') input_.take(1);
    if (!refill()) return false;
    if (!first_ && !begins(static_cast<unsigned char>(*input_.data))) {
      fail_input("'{}' is damaged: after its {} data, its last {} bytes are not {}", file_.name(),
                 format_, fs::file_size(file_.name()) - file_.consumed() + input_.size, format_);
    }
    first_ = false;
    begin();
    return true;
  }

  PlainSource file_;
  const char* format_;
  std::vector<char> buffer_;
  Bytes input_{nullptr, 0};
  bool inside_ = false;  // of a stream
  bool first_ = true;    // no stream has begun
};

class GzipSource final : public CompressedSource {
 public:
  explicit GzipSource(const fs::path& path) : CompressedSource(path, "gzip") {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail("zlib cannot start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 private:
  void begin() override { inflateReset(&stream_); }
  bool begins(unsigned char first) const override { return first == 0x1f; }
  bool decode(Bytes& in, Bytes& out) override {
    stream_.next_in = reinterpret_cast<Bytef*>(in.data);
    stream_.avail_in = static_cast<uInt>(in.size);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data);
    stream_.avail_out = static_cast<uInt>(out.size);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    in.take(in.size - stream_.avail_in);
    out.take(out.size - stream_.avail_out);
    if (result == Z_STREAM_END) return true;
    if (result != Z_OK && result != Z_BUF_ERROR) {
      fail_damaged(stream_.msg ? stream_.msg : "unknown reason");
    }
    return false;
  }

  z_stream stream_{};
};

class XzSource final : public CompressedSource {
 public:
  explicit XzSource(const fs::path& path) : CompressedSource(path, "xz") {}
  ~XzSource() override { lzma_end(&stream_); }

 private:
  void begin() override {
    if (lzma_stream_decoder(&stream_, most_memory(), 0) != LZMA_OK) fail("liblzma cannot start");
  }
  bool begins(unsigned char first) const override { return first == 0xfd; }
  bool decode(Bytes& in, Bytes& out) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data);
    stream_.avail_in = in.size;
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data);
    stream_.avail_out = out.size;
    const lzma_ret result = lzma_code(&stream_, LZMA_RUN);
    in.take(in.size - stream_.avail_in);
    out.take(out.size - stream_.avail_out);
    if (result == LZMA_STREAM_END) return true;
    if (result == LZMA_MEMLIMIT_ERROR || result == LZMA_MEM_ERROR) {
      fail_memory(mebibytes(lzma_memusage(&stream_)),
                  "unpack it with `xz -d` on a machine with more memory");
    }
    if (result == LZMA_OPTIONS_ERROR) fail_reason("it uses an unknown filter or version of xz");
    if (result != LZMA_OK && result != LZMA_BUF_ERROR) fail_damaged("its checksums do not match");
    return false;
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdSource final : public CompressedSource {
 public:
  explicit ZstdSource(const fs::path& path)
      : CompressedSource(path, "zstd"), stream_(ZSTD_createDStream()) {
    if (!stream_) fail("libzstd cannot start");
    const int largest =
        std::min(static_cast<int>(std::bit_width(most_memory())) - 1, largest_known);
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, largest);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

 private:
  void begin() override {
    ZSTD_DCtx_reset(stream_, ZSTD_reset_session_only);
    head_.clear();
  }
  // The magic numbers of frames: 28, those to be skipped 50 to 5f, and older formats.
  bool begins(unsigned char first) const override {
    return first == 0x28 || (first & 0xf0) == 0x50 || first == 0x1e || (first & 0xf8) == 0x20;
  }
  bool decode(Bytes& in, Bytes& out) override {
    if (head_.size() < head_wanted)
      head_.append(in.data, std::min(in.size, head_wanted - head_.size()));
    ZSTD_inBuffer from{in.data, in.size, 0};
    ZSTD_outBuffer to{out.data, out.size, 0};
    const std::size_t result = ZSTD_decompressStream(stream_, &to, &from);
    in.take(from.pos);
    out.take(to.pos);
    if (ZSTD_isError(result)) refuse(result);
    return result == 0;
  }

  [[noreturn]] void refuse(std::size_t result) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
    if (code == ZSTD_error_frameParameter_windowTooLarge || code == ZSTD_error_memory_allocation)
      refuse_window();
    if (code == ZSTD_error_dictionary_wrong)
      fail_reason("decompression requires its dictionary: `zstd -d -D DICTIONARY`");
    if (code == ZSTD_error_version_unsupported || code == ZSTD_error_prefix_unknown)
      fail_reason("one of its frames has a format unknown to libzstd");
    fail_damaged(ZSTD_getErrorName(result));
  }

  [[noreturn]] void refuse_window() const {
    const std::uint64_t window = this->window();
    if (window > std::uint64_t{1} << largest_known) {
      fail_reason(fmt::format(
          "its header requires a window of {} (--long={}), but libzstd supports at most {}",
          mebibytes(window), std::bit_width(window - 1),
          mebibytes(std::uint64_t{1} << largest_known)));
    }
    fail_memory(fmt::format("a window of {}", mebibytes(window)),
                fmt::format("unpack it with `zstd -d --long={}` on a machine with more memory",
                            std::bit_width(window - 1)));
  }

  // Memory that a frame's header requests. After the magic number its descriptor, whose bit 5 says
  // that the window is as large as the content; else the window as eighths of powers of two.
  std::uint64_t window() const {
    if (head_.size() < 6) return 1;
    if ((static_cast<unsigned char>(head_[4]) & 0x20) != 0) {
      const unsigned long long content = ZSTD_getFrameContentSize(head_.data(), head_.size());
      return content < ZSTD_CONTENTSIZE_ERROR ? content : 1;
    }
    const auto byte = static_cast<unsigned char>(head_[5]);
    const std::uint64_t base = std::uint64_t{1} << (10 + (byte >> 3));
    return base + base / 8 * (byte & 7);
  }

  static constexpr std::size_t head_wanted = 18;  // the longest header
  inline static const int largest_known = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound;
  ZSTD_DStream* stream_;
  std::string head_;  // the first bytes of the frame
};

}  // namespace

std::unique_ptr<ByteSource> open_gzip(const fs::path& path) {
  return std::make_unique<GzipSource>(path);
}

std::unique_ptr<ByteSource> open_xz(const fs::path& path) {
  return std::make_unique<XzSource>(path);
}

std::unique_ptr<ByteSource> open_zstd(const fs::path& path) {
  return std::make_unique<ZstdSource>(path);
}

}  // namespace trireme
