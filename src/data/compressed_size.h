// How small general compressors make a text: what a language model is compared with.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// Bytes that gzip -9 writes.
std::int64_t gzip_size(std::string_view text);

// Bytes that xz -9 writes.
std::int64_t xz_size(std::string_view text);

}  // namespace trireme
