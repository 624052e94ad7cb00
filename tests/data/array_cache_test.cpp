// Tests of the array cache: it returns exactly what was stored.
#include "data/array_cache.h"

#include <gmock/gmock.h>

#include <numeric>

#include "data/temp_folder.h"

namespace trireme {
namespace {

using testing_data::TempFolder;
using testing_data::write_bytes;

class ArrayCache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::iota(numbers_.begin(), numbers_.end(), 0);
    const std::span<const std::byte> arrays[] = {
        std::as_bytes(std::span(numbers_)), {}, std::as_bytes(std::span(letters_))};
    ASSERT_TRUE(store_arrays(path_.string(), 42, arrays));
  }
  TempFolder folder_;
  fs::path path_ = folder_ / "below/cache";
  std::vector<std::int64_t> numbers_ = std::vector<std::int64_t>(1000);
  std::string letters_ = "abc";
};

TEST_F(ArrayCache, ReturnsWhatWasStored) {
  const auto loaded = load_arrays(path_.string(), 42, 3);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded->get<std::int64_t>(0), ::testing::ElementsAreArray(numbers_));
  EXPECT_TRUE(loaded->get<char>(1).empty());
  EXPECT_THAT(loaded->get<char>(2), ::testing::ElementsAre('a', 'b', 'c'));
}

TEST_F(ArrayCache, OtherKeyOrCountIsAMiss) {
  EXPECT_FALSE(load_arrays(path_.string(), 43, 3));
  EXPECT_FALSE(load_arrays(path_.string(), 42, 2));
  EXPECT_FALSE(load_arrays(path_.string(), 42, 4));
  EXPECT_FALSE(load_arrays(folder_ / "nothing", 42, 3));
  EXPECT_FALSE(load_arrays(folder_.path(), 42, 3));
}

TEST_F(ArrayCache, AnyDamageIsAMiss) {
  const std::string whole = read_file(path_);
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : 797) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    write_bytes(path_.string(), damaged);
    ASSERT_FALSE(load_arrays(path_.string(), 42, 3)) << "byte " << at;
    write_bytes(path_.string(), whole.substr(0, at));
    ASSERT_FALSE(load_arrays(path_.string(), 42, 3)) << "cut at " << at;
  }
}

TEST_F(ArrayCache, LeavesNoTemporaryFileAndBearsAnUnwritableFolder) {
  EXPECT_EQ(std::distance(fs::directory_iterator(path_.parent_path()), fs::directory_iterator()),
            1);
  write_bytes(folder_ / "file", "");
  EXPECT_FALSE(store_arrays(folder_ / "file/cache", 1, {}));
}

}  // namespace
}  // namespace trireme
