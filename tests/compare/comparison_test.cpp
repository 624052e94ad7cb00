// Pairs of checkpoints that differ in one thing: it is named, and nothing else is.
#include "compare/comparison.h"

#include <gmock/gmock.h>

#include "compare/checkpoints.h"

namespace trireme::testing_compare {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

class Comparisons : public Folders {
 protected:
  // Of the trained Llama and what `change` makes of it.
  template <class Change>
  Comparison changed(const Change& change, const CompareOptions& options = {}) const {
    const Held before = trained();
    Held after = before;
    change(after);
    fs::remove_all(path("a"));
    fs::remove_all(path("b"));
    before.save(path("a"));
    after.save(path("b"));
    return compare(open_contents(path("a")), open_contents(path("b")), options);
  }
};

TEST_F(Comparisons, OfCopiesAreEqual) {
  const Comparison found = changed([](Held&) {});
  EXPECT_TRUE(found.is_equal());
  EXPECT_EQ(found.equal, found.tensors);
  EXPECT_EQ(found.tensors, static_cast<std::int64_t>(trained().tensors.size()));
  EXPECT_EQ(found.first(), nullptr);
}

TEST_F(Comparisons, NameOneElement) {
  const Comparison found =
      changed([](Held& held) { held.tensors["layers.1.mlp.up.weight"].at<float>(77) += 1; });
  EXPECT_FALSE(found.is_equal());
  ASSERT_THAT(found.differing, SizeIs(1));
  EXPECT_EQ(found.first()->name, "layers.1.mlp.up.weight");
  EXPECT_EQ(found.first()->difference->differing(), 1);
  EXPECT_EQ(found.first()->difference->first().element, 77);
  EXPECT_TRUE(found.positions.empty());
}

TEST_F(Comparisons, NameOneMoment) {
  const auto change = [](Held& held) {
    held.tensors[moment_name("final_norm.weight", 1)].at<float>(3) = 9;
  };
  const Comparison found = changed(change);
  ASSERT_THAT(found.differing, SizeIs(1));
  EXPECT_EQ(found.first()->name, "optimizer.second_moment.final_norm.weight");
  EXPECT_TRUE(changed(change, {.weights_only = true}).is_equal());
}

TEST_F(Comparisons, NameOnePosition) {
  EXPECT_THAT(changed([](Held& held) { held.state.consumed_samples += 8; }).positions,
              ElementsAre(Field(&ValuePair::name, "consumed_samples")));
  const auto changes = [](Held& held) {
    held.state.counters["skipped_steps"] = 1;
    held.state.numbers["loss_scale"] = std::nextafter(1.0, 2.0);
    held.state.step = 31;
  };
  const Comparison found = changed(changes);
  EXPECT_FALSE(found.is_equal());
  EXPECT_THAT(found.positions, UnorderedElementsAre(Field(&ValuePair::name, "skipped_steps"),
                                                    Field(&ValuePair::name, "loss_scale"),
                                                    Field(&ValuePair::name, "step")));
  EXPECT_TRUE(changed(changes, {.weights_only = true}).is_equal());
}

// By name "head.weight" and "embedding.word.weight" would come first.
TEST_F(Comparisons, OrderTensorsByDifferenceAndNameTheFirstOfTheForwardPass) {
  const Comparison found = changed([](Held& held) {
    held.tensors["head.weight"].at<float>(0) += 100;
    held.tensors["layers.1.attention.out.weight"].at<float>(0) += 1;
    held.tensors["layers.1.attention.qkv.weight"].at<float>(0) += 0.5f;
    held.tensors[moment_name("embedding.word.weight", 0)].at<float>(0) += 10;
  });
  EXPECT_THAT(found.differing,
              ElementsAre(Field(&TensorPair::name, "head.weight"),
                          Field(&TensorPair::name, "optimizer.first_moment.embedding.word.weight"),
                          Field(&TensorPair::name, "layers.1.attention.out.weight"),
                          Field(&TensorPair::name, "layers.1.attention.qkv.weight")));
  EXPECT_EQ(found.first()->name, "layers.1.attention.qkv.weight");
}

TEST_F(Comparisons, NameTensorsOfOneSideAndOfOtherShapes) {
  const Comparison found = changed([](Held& held) {
    held.tensors.erase("head.weight");
    Tensor& norm = held.tensors["final_norm.weight"];
    norm.shape = {norm.shape[0] - 1};
    norm.bytes.resize(norm.bytes.size() - sizeof(float));
    held.tensors["layers.0.input_norm.weight"].at<float>(0) += 1;
  });
  ASSERT_THAT(found.differing, SizeIs(3));
  EXPECT_FALSE(found.differing[0].difference);
  EXPECT_FALSE(found.differing[1].difference);
  EXPECT_EQ(found.differing[2].name, "layers.0.input_norm.weight");
  EXPECT_EQ(found.first()->name, "layers.0.input_norm.weight");
}

TEST_F(Comparisons, OfAnotherTypeAreEqualOnlyWhereThatIsAskedFor) {
  const auto narrow = [](Held& held) {
    for (auto& [name, tensor] : held.tensors) {
      if (name.starts_with("optimizer.")) continue;
      const auto count = static_cast<std::size_t>(tensor.shape.count());
      std::vector<std::byte> bytes(count * sizeof(bf16));
      for (std::size_t i = 0; i < count; ++i)
        reinterpret_cast<bf16*>(bytes.data())[i] =
            bf16(tensor.at<float>(static_cast<std::int64_t>(i)));
      tensor = {DType::bf16, tensor.shape, bytes};
    }
  };
  EXPECT_FALSE(changed(narrow).is_equal());
  const Comparison found = changed(narrow, {.rounded = true});
  EXPECT_TRUE(found.is_equal());
  EXPECT_GT(found.rounded, 0);
  const auto narrow_and_wrong = [&](Held& held) {
    narrow(held);
    held.tensors["head.weight"].at<bf16>(5) = bf16(7.f);
  };
  EXPECT_THAT(changed(narrow_and_wrong, {.rounded = true}).differing,
              ElementsAre(Field(&TensorPair::name, "head.weight")));
}

TEST_F(Comparisons, TellSettingsThatChangeResultsFromOthers) {
  const auto set = [](Held& held, const std::string& setting) {
    held.state.config_toml = to_toml(parse_config(held.state.config_toml, "", {setting}));
  };
  const Comparison rope = changed([&](Held& held) { set(held, "model.rope_base=123"); });
  EXPECT_THAT(rope.model, ElementsAre(Field(&ValuePair::name, "model.rope_base")));
  EXPECT_FALSE(rope.is_equal());
  const Comparison lr = changed([&](Held& held) { set(held, "optimizer.lr=0.5"); });
  EXPECT_THAT(lr.settings, ElementsAre(Field(&ValuePair::name, "optimizer.lr")));
  EXPECT_TRUE(lr.is_equal());
}

TEST_F(Comparisons, RefuseASwappedShard) {
  trained().save(path("a"));
  trained().save(path("b"));
  Held other = trained();
  other.tensors["head.weight"].at<float>(0) = 5;
  other.save(path("c"));
  const fs::path shard = "checkpoints/step-00000030/shard-00000.safetensors";
  fs::copy_file(path("c") / shard, path("b") / shard, fs::copy_options::overwrite_existing);
  EXPECT_THAT(
      [&] { compare(open_contents(path("a")), open_contents(path("b")), {}); },
      ThrowsMessage<Error>(HasSubstr("shard-00000.safetensors' does not match its checksum")));
}

TEST_F(Comparisons, RefuseWhatHoldsNoCheckpoint) {
  fs::create_directories(path("empty"));
  const auto refused = [](const fs::path& path, const char* message) {
    EXPECT_THAT([&] { open_contents(path); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused(path("none"), "does not exist");
  refused(path("empty"), "not in a supported format");
  refused(foreign("hf/llama/config.json"), "a folder was expected");
}

}  // namespace
}  // namespace trireme::testing_compare
