// Tests of torch.distributed.checkpoint folders: written files are read back, and inconsistent
// .metadata is rejected.
#include <gmock/gmock.h>

#include "base/error.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/writer.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

void write_small(const fs::path& folder, std::uint64_t max_file_bytes) {
  const float values[6] = {1, 2, 3, 4, 5, 6};
  DcpWriter writer(folder, max_file_bytes);
  writer.begin({"model", "a"}, {DType::f32, {2, 3}});
  writer.write(values, 16);
  writer.write(values + 4, 8);
  writer.add_copy({"model", "b"});
  writer.begin({"optimizer", "state", "a", "step"}, {DType::f32, {}});
  writer.write(values + 2, 4);
  writer.add({"optimizer", "param_groups", 0, "betas"}, {TorchTuple{{{0.9}, {0.95}}}});
  writer.finish();
}

TEST(DcpWriter, IsReadBack) {
  const ScratchFolder scratch;
  write_small(scratch, 1 << 20);
  const DcpFolder folder(scratch);
  EXPECT_THAT(folder.metadata().files, ElementsAre("__0_0.distcp"));
  ASSERT_EQ(folder.metadata().tensors.size(), 3u);
  for (const char* name : {"model.a", "model.b"}) {
    const DcpTensor& tensor = *folder.find(name);
    EXPECT_EQ(dcp_tiling_fault(tensor), "");
    EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
    const auto file = folder.open(tensor, tensor.chunks[0]);
    float read[2];
    file->read(file->pickle().tensor(file->pickle().root()), 3, 5,
               reinterpret_cast<std::byte*>(read));
    EXPECT_THAT(read, ElementsAre(4, 5));
  }
  EXPECT_EQ(folder.number("optimizer.state.a.step"), 3);
  const auto betas = folder.open("optimizer.param_groups.0.betas");
  EXPECT_EQ(betas->pickle().shown(betas->pickle().root()), "a tuple of 2");
  EXPECT_FALSE(folder.number("optimizer.param_groups.0.lr"));
}

TEST(DcpWriter, BeginsAnotherFileWhereOneIsFull) {
  const ScratchFolder scratch;
  write_small(scratch, 100);
  EXPECT_THAT(DcpFolder(scratch).metadata().files,
              ElementsAre("__0_0.distcp", "__0_1.distcp", "__0_2.distcp"));
}

DcpTensor cut(std::vector<std::int64_t> shape, std::vector<DcpChunk> chunks) {
  return {"t", find_torch_dtype("float32"), std::move(shape), std::move(chunks)};
}

TEST(DcpTiling, IsExact) {
  EXPECT_EQ(dcp_tiling_fault(cut({4, 6}, {{{0, 3}, {2, 3}, {}},
                                          {{2, 0}, {2, 6}, {}},
                                          {{0, 0}, {2, 3}, {}},
                                          {{4, 0}, {0, 6}, {}}})),
            "");
  EXPECT_THAT(dcp_tiling_fault(cut({4}, {{{0}, {3}, {}}, {{2}, {2}, {}}})),
              HasSubstr("[3] at [0] and [2] at [2] overlap"));
  EXPECT_THAT(dcp_tiling_fault(cut({4}, {{{0}, {3}, {}}})), HasSubstr("3 of its 4 elements"));
  EXPECT_EQ(dcp_tiling_fault(cut({}, {{{}, {}, {}}})), "");
  EXPECT_NE(dcp_tiling_fault(cut({}, {{{}, {}, {}}, {{}, {}, {}}})), "");
}

// Returns the written .metadata with one text replaced by another of equal length.
std::string changed(const std::string& from, const std::string& to) {
  const ScratchFolder scratch;
  write_small(scratch, 1 << 20);
  std::string text = read_file(scratch / dcp_metadata_file);
  const std::size_t at = text.find(from);
  EXPECT_TRUE(at != text.npos && from.size() == to.size()) << from;
  text.replace(at, from.size(), to);
  return refusal_of([&] { parse_dcp_metadata(text, "metadata"); });
}

TEST(DcpMetadata, UnsoundOnesAreRefused) {
  EXPECT_EQ(changed("model", "madel"), "'metadata' is damaged: 'madel.a' at [0,0] lies in no file");
  EXPECT_THAT(changed("__0_0.distcp", "/etc/passwd/"), HasSubstr("not the name of a file"));
  EXPECT_THAT(changed("1.0.0", "2.0.0"), HasSubstr("version the text \"2.0.0\""));
  EXPECT_THAT(changed("BytesStorage", "OtherStorage"), HasSubstr("OtherStorageMetadata"));
  EXPECT_THAT(changed("float32", "bfloat9"), HasSubstr("torch.bfloat9"));
  EXPECT_THAT(changed("checkpoint.metadata\nMetadata\n", "checkpoint.metadata\nMetacata\n"),
              AllOf(HasSubstr("Metacata"), HasSubstr("is expected")));
}

}  // namespace
}  // namespace trireme
