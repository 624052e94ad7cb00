// zlib and liblzma, whose output is counted and dropped.
#include "data/documents/compressed_size.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace trireme {
namespace {

using Output = std::array<unsigned char, 1 << 16>;

}  // namespace

std::int64_t gzip_size(std::string_view text) {
  constexpr int with_gzip_header = 15 + 16, default_memory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, with_gzip_header, default_memory, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    fail("zlib cannot start");
  Output output;
  std::int64_t size = 0;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      stream.avail_in = static_cast<uInt>(std::min<std::size_t>(text.size(), 1 << 30));
      text.remove_prefix(stream.avail_in);
    }
    stream.next_out = output.data();
    stream.avail_out = output.size();
    result = deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
    size += static_cast<std::int64_t>(output.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return size;
}

std::int64_t xz_size(std::string_view text) {
  lzma_options_lzma options;
  if (lzma_lzma_preset(&options, 9)) fail("liblzma cannot start");
  // A dictionary beyond the text takes memory and finds nothing more.
  const std::uint64_t wanted = std::bit_ceil(std::uint64_t{text.size()});
  options.dict_size = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(wanted, LZMA_DICT_SIZE_MIN, options.dict_size));
  const std::array<lzma_filter, 2> filters = {
      {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}}};
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_encoder(&stream, filters.data(), LZMA_CHECK_CRC64) != LZMA_OK)
    fail("liblzma cannot start");
  stream.next_in = reinterpret_cast<const std::uint8_t*>(text.data());
  stream.avail_in = text.size();
  Output output;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK) {
    stream.next_out = output.data();
    stream.avail_out = output.size();
    result = lzma_code(&stream, LZMA_FINISH);
  }
  const auto size = static_cast<std::int64_t>(stream.total_out);
  lzma_end(&stream);
  if (result != LZMA_STREAM_END) fail("liblzma cannot compress the text");
  return size;
}

}  // namespace trireme
