// Tests that written files are read back, and have the form that PyTorch's reader expects
// (tests/reference/test_torch_folders.py loads them with PyTorch).
#include "formats/torch/writer.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "formats/torch/file.h"
#include "formats/torch/zip_archive.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

class Written : public testing::TestWithParam<bool> {
 protected:
  ScratchFolder folder_;
};

TEST_P(Written, ComesBack) {
  const fs::path path = folder_ / "file.pt";
  const float matrix[6] = {1, 2, 3, 4, 5, 6};
  const double scalar = 2.5;
  TorchWriter writer(path,
                     {TorchDict{{"iteration", {std::int64_t{100}}},
                                {"large", {std::int64_t{1} << 40}},
                                {"negative", {std::int64_t{-3}}},
                                {"rate", {1e-3}},
                                {"name", {std::string("adam")}},
                                {"flag", {true}},
                                {"nothing", {}},
                                {"model",
                                 {TorchDict{{"a", {TorchTensor{DType::f32, {2, 3}}}},
                                            {"b", {TorchTensor{DType::f64, {}}}},
                                            {"c", {TorchTensor{DType::bf16, {0, 3}}}}}}},
                                {"list", {TorchList{{std::int64_t{1}}, {TorchList{}}}}}}},
                     GetParam());
  writer.write(0, 0, matrix, 10);
  writer.write(0, 10, reinterpret_cast<const char*>(matrix) + 10, 14);
  writer.write(1, 0, &scalar, sizeof scalar);
  writer.finish();

  const TorchFile file(path);
  file.verify();
  const Pickle& pickle = file.pickle();
  const PickleId root = pickle.root();
  EXPECT_EQ(pickle.find_integer(root, "iteration"), 100);
  EXPECT_EQ(pickle.find_integer(root, "large"), std::int64_t{1} << 40);
  EXPECT_EQ(pickle.find_integer(root, "negative"), -3);
  EXPECT_EQ(pickle.find_number(root, "rate"), 1e-3);
  EXPECT_EQ(pickle.find_text(root, "name"), "adam");
  EXPECT_EQ(pickle.find_flag(root, "flag"), true);
  EXPECT_EQ(pickle.shown(*pickle.find(root, "nothing")), "None");
  EXPECT_EQ(pickle.children(*pickle.find(root, "list")).size(), 2u);
  const auto entries = torch_entries(pickle, root);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "model.a");
  float read[6];
  file.read(entries[0].tensor, 0, 6, reinterpret_cast<std::byte*>(read));
  EXPECT_THAT(read, testing::ElementsAreArray(matrix));
  double read_scalar = 0;
  file.read(entries[1].tensor, 0, 1, reinterpret_cast<std::byte*>(&read_scalar));
  EXPECT_EQ(read_scalar, scalar);
  EXPECT_EQ(entries[2].tensor.shape, (std::vector<std::int64_t>{0, 3}));

  const MappedFile map(path);
  for (const ZipEntry& entry : parse_zip(map.bytes(), path.string()))
    EXPECT_EQ(entry.begin % 64, 0u) << entry.name;
}

INSTANTIATE_TEST_SUITE_P(Numbers, Written, testing::Bool(),
                         [](const auto& wide) { return wide.param ? "Of64Bits" : "Of32Bits"; });

TEST(TorchWriter, LeavesNoFileWhereItIsNotFinished) {
  const ScratchFolder folder;
  { const TorchWriter writer(folder / "file.pt", {TorchList{}}); }
  EXPECT_TRUE(fs::is_empty(folder));
}

}  // namespace
}  // namespace trireme
