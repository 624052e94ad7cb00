// Texts compressed in the way that common tools do it.
#pragma once

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <string>

namespace trireme::testing_data {

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Returns a frame without content size that needs a window of 2^`log` bytes, as `zstd --long`
// writes for a pipe.
inline std::string zstd_window(const std::string& text, int log) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  // The size is unknown at the first call, as for a pipe.
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue);
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  EXPECT_EQ(out[4] & 0x20, 0) << "the header has a window";
  out[5] = static_cast<char>((log - 10) << 3);
  return out;
}

// A frame that zstd readers skip, as pzstd and seekable writers put before the data.
inline std::string skippable_frame(const std::string& content, int variant = 0) {
  std::string out = {static_cast<char>(0x50 + variant), 0x2a, 0x4d, 0x18};
  for (int i = 0; i < 4; ++i) out += static_cast<char>(content.size() >> (8 * i) & 0xff);
  return out + content;
}

}  // namespace trireme::testing_data
