// Tests that parts of tensors in several files are read as one tensor, with rows in wanted order.
#include "formats/joined_tensors.h"

#include <gmock/gmock.h>

#include <numeric>

#include "formats/assembled.h"
#include "formats/huggingface/model.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tensors/model_tensors.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Joined : public testing::Test {
 protected:
  // Adds a file with one f32 tensor "t".
  RankParts& part(const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    const fs::path path = folder_ / fmt::format("{}.safetensors", parts_.size());
    SafetensorsWriter writer(path, {{"t", DType::f32, shape}}, {});
    writer.write(0, 0, values.data(), values.size() * sizeof(float));
    writer.finish();
    const WeightFile& file = joined_.keep(open_weight_file(path));
    parts_.push_back({&file, file.find("t")});
    return parts_;
  }
  std::vector<float> read(const std::string& name, const Rectangle& part) {
    std::vector<float> out(static_cast<std::size_t>(part.rows * part.columns));
    joined_.read(name, part, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }

  ScratchFolder folder_;
  JoinedTensors joined_{"folder", "config"};
  RankParts parts_;
};

TEST_F(Joined, RowsFollowEachOther) {
  part({1, 2}, {1, 2});
  joined_.add(join_rows("x", part({1, 2}, {3, 4})));
  EXPECT_EQ(joined_.check("x", {2, 2}), DType::f32);
  EXPECT_THAT(read("x", {0, 0, 2, 2}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read("x", {1, 1, 1, 1}), ElementsAre(4));
}

TEST_F(Joined, ColumnsFollowEachOther) {
  part({2, 2}, {1, 2, 5, 6});
  joined_.add(join_columns("x", part({2, 2}, {3, 4, 7, 8})));
  EXPECT_EQ(joined_.check("x", {2, 4}), DType::f32);
  EXPECT_THAT(read("x", {0, 0, 2, 4}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(read("x", {1, 1, 1, 2}), ElementsAre(6, 7));
}

TEST_F(Joined, RowsComeInTheWantedOrder) {
  part({6}, {0, 1, 2, 3, 4, 5});
  JoinedTensor tensor = join_rows("x", part({6}, {6, 7, 8, 9, 10, 11}));
  tensor.order = {.outer = 3, .inner = 2, .block = 1};
  joined_.add(tensor);
  EXPECT_THAT(read("x", {0, 0, 12, 1}), ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11));
  EXPECT_THAT(read("x", {4, 0, 3, 1}), ElementsAre(3, 5, 6));
  tensor.name = "y";
  tensor.order = {.outer = 2, .inner = 3, .block = 2};
  joined_.add(tensor);
  EXPECT_THAT(read("y", {0, 0, 12, 1}), ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
  EXPECT_THAT(read("y", {1, 0, 4, 1}), ElementsAre(1, 6, 7, 2));
}

TEST_F(Joined, PaddingMayStayUnread) {
  JoinedTensor tensor = join_rows("x", part({4, 1}, {1, 2, 3, 4}));
  joined_.add(tensor);
  EXPECT_THAT(
      refusal_of([&] {
        joined_.check("x", {3, 1});
      }),
      AllOf(HasSubstr("'t' has the shape [4,1]"), HasSubstr("expected [3, 1] from its config")));
  tensor.name = "y";
  tensor.padded = true;
  joined_.add(tensor);
  EXPECT_EQ(joined_.check("y", {3, 1}), DType::f32);
  EXPECT_THAT(refusal_of([&] { joined_.check("y", {5, 1}); }), HasSubstr("has the shape [4,1]"));
}

TEST_F(Joined, PartsThatDoNotBelongTogetherAreNamed) {
  part({2}, {1, 2});
  EXPECT_THAT(refusal_of([&] {
                join_rows("x", part({3}, {1, 2, 3}));
              }),
              AllOf(HasSubstr("1.safetensors"), HasSubstr("[3]"), HasSubstr("[2]")));
  parts_.pop_back();
  EXPECT_EQ(refusal_of([&] { join_copies("x", part({2}, {1, 2})); }), "accepted");
  EXPECT_THAT(refusal_of([&] {
                join_copies("x", part({2}, {1, 3}));
              }),
              HasSubstr("from different steps of a run"));
}

TEST_F(Joined, NothingIsLeftOutOrTakenTwice) {
  joined_.add(join_rows("x", part({2}, {1, 2})));
  EXPECT_THAT(refusal_of([&] { joined_.add(join_rows("x", parts_)); }),
              HasSubstr("are the same tensor"));
  EXPECT_THAT(refusal_of([&] { joined_.require_use_of_all({}); }),
              HasSubstr("tensors are never dropped silently"));
  EXPECT_THAT(refusal_of([&] { joined_.check("y", {2}); }), HasSubstr("no tensor for 'y'"));
}

// Compares our list of tensors with the tables that were verified against transformers.
TEST(ModelTensors, AreThoseOfTheTablesForHuggingFace) {
  const fs::path folder = fs::path(TRIREME_TEST_DATA) / "hf";
  for (const char* name : {"gpt2", "llama", "llama_tied", "llama3_rope", "bert", "megatron_bert"}) {
    const ForeignModel model = open_huggingface_folder(folder / name);
    const auto shapes = [](const std::vector<NamedTensor>& tensors) {
      std::map<std::string, std::string> out;
      for (const NamedTensor& tensor : tensors) out[tensor.name] = tensor.shape.text();
      return out;
    };
    EXPECT_EQ(shapes(model_tensors(model.model)), shapes(model.mapping.ours)) << name;
  }
}

}  // namespace
}  // namespace trireme
