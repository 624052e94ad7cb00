// Tests that checkpoints load on any other layout, keep their state, and that old ones are pruned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "checkpoint/layout.h"
#include "world.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<TestTensor> model() {
  return {{"embedding.word.weight", {12, 8}},
          {"layers.0.attention.qkv.weight", {24, 8}},
          {"layers.0.attention.out.weight", {8, 16}},
          {"final_norm.weight", {8}},
          {"moe.experts.up", {4, 8, 6}},
          {"scalar", {}}};
}

std::int64_t share(std::int64_t count, int part, int parts) {
  return count * part / parts;
}

// Returns part `part` of `parts` along dimension `dim`, as a rectangle.
Region cut(const Shape& tensor, int dim, int part, int parts) {
  Region region = Region::whole(tensor);
  const std::int64_t begin = share(tensor[dim], part, parts);
  region.offset[dim] = begin;
  region.shape[dim] = share(tensor[dim], part + 1, parts) - begin;
  region.end = region.shape.count();
  return region;
}

int cut_dimension(const TestTensor& tensor) {
  return tensor.name.find("out") != std::string::npos ? 1 : 0;
}

// ZeRO: every tensor is flattened and split evenly.
std::vector<Region> zero_layout(const TestTensor& tensor, int rank, int size) {
  const std::int64_t count = tensor.shape.count();
  return {Region::range(tensor.shape, share(count, rank, size), share(count, rank + 1, size))};
}

// Tensor parallelism over all ranks; tensors that it does not split belong to rank 0.
std::vector<Region> tensor_layout(const TestTensor& tensor, int rank, int size) {
  if (tensor.shape.rank() < 2) return whole_layout(tensor, rank, size);
  return {cut(tensor.shape, cut_dimension(tensor), rank, size)};
}

// Two tensor-parallel parts, each flattened and split over half of the ranks.
std::vector<Region> mixed_layout(const TestTensor& tensor, int rank, int size) {
  if (tensor.shape.rank() < 2) return zero_layout(tensor, rank, size);
  Region region = cut(tensor.shape, cut_dimension(tensor), rank % 2, 2);
  const std::int64_t count = region.count();
  region.begin = share(count, rank / 2, size / 2);
  region.end = share(count, rank / 2 + 1, size / 2);
  return {region};
}

// Pipeline parallelism: whole tensors, distributed over the ranks.
std::vector<Region> pipeline_layout(const TestTensor& tensor, int rank, int size) {
  if (static_cast<int>(tensor.name.size()) % size != rank) return {};
  return {Region::whole(tensor.shape)};
}

struct NamedLayout {
  const char* name;
  int size;
  Layout layout;
};

const std::vector<NamedLayout>& layouts() {
  static const std::vector<NamedLayout> all{
      {"one rank", 1, whole_layout},     {"ZeRO 8", 8, zero_layout},
      {"ZeRO 3", 3, zero_layout},        {"tensor 2", 2, tensor_layout},
      {"tensor 4", 4, tensor_layout},    {"tensor 2 x ZeRO 4", 8, mixed_layout},
      {"pipeline 4", 4, pipeline_layout}};
  return all;
}

void save_on(const NamedLayout& layout, const fs::path& folder,
             const std::vector<TestTensor>& tensors) {
  run_ranks(layout.size, [&](const Ranks& ranks) {
    std::vector<Piece> pieces = pieces_of(tensors, layout.layout, ranks.rank, ranks.size);
    CheckpointState state;
    state.step = 7;
    save_checkpoint({folder}, state, filled_sources(pieces, tensors), ranks, nullptr);
  });
}

TEST(Checkpoint, SavedOnAnyLayoutLoadsOnAnyOther) {
  const std::vector<TestTensor> tensors = model();
  for (const NamedLayout& from : layouts()) {
    const ScratchFolder folder;
    save_on(from, folder, tensors);
    for (const NamedLayout& to : layouts()) {
      for (int rank = 0; rank < to.size; ++rank) {
        CheckpointReader reader(folder);
        std::vector<Piece> pieces = pieces_of(tensors, to.layout, rank, to.size);
        std::vector<Piece> expected = pieces;
        filled_sources(expected, tensors);
        reader.read(targets_of(pieces));
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          EXPECT_EQ(pieces[i].memory, expected[i].memory)
              << from.name << " to " << to.name << ", rank " << rank << ", "
              << pieces[i].slice.name;
        }
      }
    }
  }
}

TEST(Checkpoint, EachRankWritesOnlyItsOwn) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors = model();
  save_on(layouts()[1], folder, tensors);
  std::uint64_t bytes = 0, expected = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const SafetensorsFile shard(folder / "step-00000007" / shard_file(rank));
    for (const SafetensorsEntry& entry : shard.tensors()) bytes += entry.bytes();
  }
  for (const TestTensor& tensor : tensors) expected += tensor.values.size() * sizeof(float);
  EXPECT_EQ(bytes, expected);
}

TEST(Checkpoint, OneRankMakesAPlainSafetensorsFile) {
  const ScratchFolder folder;
  save_whole(folder, model(), 1);
  const SafetensorsFile shard(folder / "step-00000001/shard-00000.safetensors");
  EXPECT_THAT(shard.at("layers.0.attention.qkv.weight").shape, ElementsAre(24, 8));
}

// Slices of several blocks are read in parts that begin and end anywhere.
TEST(Checkpoint, LargeTensorsAreReadInParts) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors{{"large", {700, 4096}}};  // 11.5 MB, three blocks
  save_whole(folder, tensors, 1);
  CheckpointReader reader(folder);
  ASSERT_EQ(reader.find("large")->slices.at(0).checksums.size(), 3u);
  const std::vector<Region> parts{
      Region::whole({700, 4096}), cut({700, 4096}, 1, 1, 3), cut({700, 4096}, 0, 2, 5),
      Region::range({700, 4096}, 1048570, 2097160), Region::range({700, 4096}, 5, 6)};
  for (const Region& part : parts) {
    Piece piece(tensors[0], part), expected(tensors[0], part);
    expected.fill_from(tensors[0]);
    const TargetSlice target = piece.target();
    reader.read({&target, 1});
    EXPECT_EQ(piece.memory, expected.memory) << part.text();
  }
}

TEST(Checkpoint, StateTravelsToTheLastBit) {
  const ScratchFolder folder;
  CheckpointState state;
  state.step = 123456789;
  state.consumed_samples = std::int64_t{1} << 60;
  state.consumed_tokens = 7;
  state.counters = {{"seed", -1}, {"epoch", std::numeric_limits<std::int64_t>::max()}};
  state.numbers = {{"third", 1.0 / 3}, {"tiny", 5e-324}, {"inf", INFINITY}, {"minus", -INFINITY}};
  state.texts = {{"path", "quotes \" and \n lines, ünïcode"}};
  state.config_toml = "[run]\nseed = 1\n";
  save_checkpoint({folder, "trireme 0.1.0"}, state, {});
  CheckpointReader reader(folder);
  EXPECT_EQ(reader.state(), state);
  EXPECT_EQ(reader.manifest().program, "trireme 0.1.0");
  EXPECT_EQ(reader.folder().filename(), "step-123456789");
}

TEST(Checkpoint, ConvertsTypesOnlyWhenAsked) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors{{"weight", {3, 5}}};
  save_whole(folder, tensors, 1);
  CheckpointReader reader(folder);
  std::vector<bf16> narrow(15);
  const TargetSlice target{"weight",
                           DType::bf16,
                           {3, 5},
                           Region::whole({3, 5}),
                           reinterpret_cast<std::byte*>(narrow.data())};
  EXPECT_THAT(
      [&] {
        reader.read({&target, 1});
      },
      testing::ThrowsMessage<Error>(HasSubstr("'weight' as f32, but bf16 is needed")));
  reader.read({&target, 1}, {.convert = true});
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    EXPECT_EQ(narrow[i].bits, bf16(tensors[0].values[i]).bits);
  }
}

TEST(Checkpoint, WhatDoesNotFitIsNamedWithBothShapes) {
  const ScratchFolder folder;
  save_whole(folder, {{"weight", {3, 5}}}, 1);
  CheckpointReader reader(folder);
  Piece other(TestTensor{"weight", {5, 3}}, Region::whole({5, 3}));
  const TargetSlice target = other.target();
  EXPECT_THAT(
      [&] {
        reader.read({&target, 1});
      },
      testing::ThrowsMessage<Error>(HasSubstr("'weight' with shape [3, 5], but [5, 3] is needed")));
  std::vector<Piece> missing{{TestTensor{"bias", {5}}, Region::whole({5})},
                             {TestTensor{"gain", {5}}, Region::whole({5})}};
  EXPECT_THAT([&] { reader.read(targets_of(missing)); },
              testing::ThrowsMessage<Error>(HasSubstr("no tensor 'bias' [5] (1 more")));
}

TEST(Checkpoint, KeepsTheNewestAndRemovesLeftovers) {
  const ScratchFolder folder;
  const std::vector<TestTensor> tensors{{"weight", {2}}};
  fs::create_directories(folder / "step-00000005.tmp/deeper");
  fs::create_directories(folder / "step-notes");  // not one of ours
  for (const int step : {10, 20, 30, 40}) save_whole(folder, tensors, step, 2);
  EXPECT_THAT(saved_steps(folder), ElementsAre(30, 40));
  EXPECT_THAT(partial_folders(folder), testing::IsEmpty());
  EXPECT_TRUE(fs::exists(folder / "step-notes"));
  EXPECT_EQ(read_latest(folder), "step-00000040");
  // Going back to an earlier step does not remove the abandoned branch.
  save_whole(folder, tensors, 35, 1);
  EXPECT_THAT(saved_steps(folder), ElementsAre(35, 40));
  EXPECT_EQ(read_latest(folder), "step-00000035");
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  const ScratchFolder folder;
  save_whole(folder, {{"weight", {2}}}, 10);
  const std::vector<TestTensor> newer{{"weight", {2}, 0.5f}};
  save_whole(folder, newer, 10);
  EXPECT_TRUE(holds(folder, newer));
  EXPECT_THAT(saved_steps(folder), ElementsAre(10));
  EXPECT_THAT(partial_folders(folder), testing::IsEmpty());
}

TEST(Checkpoint, IsFoundByStepFolderCheckpointFolderAndRunFolder) {
  const ScratchFolder run;
  EXPECT_FALSE(find_checkpoint(run));
  EXPECT_FALSE(find_checkpoint(run / "nowhere"));
  const fs::path folder = run / "checkpoints";
  save_whole(folder, {{"weight", {2}}}, 10);
  save_whole(folder, {{"weight", {2}}}, 20);
  EXPECT_EQ(find_checkpoint(run)->folder.filename(), "step-00000020");
  EXPECT_EQ(find_checkpoint(folder)->folder.filename(), "step-00000020");
  EXPECT_EQ(find_checkpoint(folder / "step-00000010")->folder.filename(), "step-00000010");
  // The process died between the rename and the update of `latest`.
  fs::remove(folder / "latest");
  EXPECT_EQ(find_checkpoint(run)->folder.filename(), "step-00000020");
}

TEST(Checkpoint, ProducedTensorsNeedNoMemory) {
  const ScratchFolder folder;
  const TestTensor large{"large", {1300, 1024}};  // 5.3 MB, two blocks
  const TestTensor small{"small", {3}};
  const std::vector<SourceSlice> slices{
      {"small",
       DType::f32,
       {3},
       Region::whole({3}),
       reinterpret_cast<const std::byte*>(small.values.data())},
      {"none", DType::f32, {0}, Region::whole({0})},
      {"large", DType::f32, {1300, 1024}, Region::whole({1300, 1024})}};
  CheckpointWriter writer({folder}, {.step = 1});
  ThreadPool pool(2);
  writer.write(slices, &pool,
               [&](std::size_t slice, std::int64_t begin, std::int64_t end, std::byte* dst) {
                 EXPECT_EQ(slice, 2u);
                 std::memcpy(dst, large.values.data() + begin,
                             static_cast<std::size_t>(end - begin) * sizeof(float));
               });
  writer.commit();
  EXPECT_TRUE(holds(folder, {large, small}));
}

TEST(Checkpoint, RanksMustNotWriteTheSame) {
  const ScratchFolder folder;
  run_ranks(2, [&](const Ranks& ranks) {
    std::vector<Piece> pieces = pieces_of(model(), whole_layout, 0, 1);
    EXPECT_THAT(
        [&] { save_checkpoint({folder}, {}, filled_sources(pieces, model()), ranks, nullptr); },
        testing::ThrowsMessage<Error>(HasSubstr("there twice")));
  });
  EXPECT_THAT(partial_folders(folder), testing::IsEmpty());
}

}  // namespace
}  // namespace trireme
