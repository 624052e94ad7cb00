// Size of a text under general-purpose compressors: a baseline for language models.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// Bytes that gzip -9 writes.
std::int64_t gzip_size(std::string_view text);

// Bytes that xz -9 writes.
std::int64_t xz_size(std::string_view text);

}  // namespace trireme
