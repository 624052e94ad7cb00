// Tests of compressed sizes on texts whose sizes are known in advance.
#include "data/documents/compressed_size.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace trireme {
namespace {

std::string random_bytes(std::size_t count) {
  std::mt19937 random(7);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(CompressedSize, OfWhatCannotBeCompressedIsItsOwn) {
  const std::string bytes = random_bytes(100'000);
  for (const std::int64_t size : {gzip_size(bytes), xz_size(bytes)}) {
    EXPECT_GE(size, 100'000);
    EXPECT_LE(size, 100'200);
  }
}

TEST(CompressedSize, OfARepetitionIsSmallWithinTheWindow) {
  // gzip looks back 32 KiB, xz over the whole text.
  const std::string bytes = random_bytes(100'000), twice = bytes + bytes;
  EXPECT_GE(gzip_size(twice), 200'000);
  EXPECT_LE(xz_size(twice) - xz_size(bytes), 1000);
  EXPECT_LE(gzip_size(std::string(100'000, 'a')), 200);
}

TEST(CompressedSize, OfNothingIsThatOfAHeader) {
  EXPECT_EQ(gzip_size(""), 20);  // same as `printf '' | gzip -9 | wc -c`
  EXPECT_EQ(xz_size(""), 32);    // same as `printf '' | xz -9 | wc -c`
}

}  // namespace
}  // namespace trireme
