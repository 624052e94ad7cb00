// Tests of the startup logic for every rank of a large cluster, in one process.
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "checkpoint/manifest.h"
#include "comm/mesh.h"
#include "parallel/check.h"
#include "parallel/stages.h"
#include "train/checkpoints/slices.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// GPT-3 175B on 5,120 ranks: tp 8, pp 16, dp 40, with states sharded over 40 ranks.
constexpr int ranks = 5120, tensor_ranks = 8, stages = 16, layers = 96;

// A stage's parameters without graphs: the input for layouts and manifests.
StageDefinition parameters_of(int stage, int tensor_rank) {
  constexpr std::int64_t hidden = 12288, ffn = 4 * hidden, vocab = 51200;
  StageDefinition definition;
  definition.compute = DType::bf16;
  const auto add = [&](const std::string& name, Shape whole, bool rows_cut, bool columns_cut) {
    ParameterSpec spec;
    spec.name = name;
    spec.saved_shape = whole;
    spec.shape = whole;
    spec.split = rows_cut || columns_cut;
    if (rows_cut) {
      spec.shape[0] /= tensor_ranks;
      spec.pieces = {{0, tensor_rank * spec.shape[0], spec.shape[0]}};
    }
    if (columns_cut) {
      spec.shape[1] /= tensor_ranks;
      spec.first_column = tensor_rank * spec.shape[1];
    }
    definition.parameters.push_back({name, spec});
    return static_cast<int>(definition.parameters.size()) - 1;
  };
  definition.templates.emplace_back();
  const int per_stage = layers / stages;
  if (stage == 0) {
    const int words = add("embedding.word.weight", {vocab, hidden}, true, false);
    definition.segments.push_back({0, -1, {words}});
  }
  for (int layer = stage * per_stage; layer < (stage + 1) * per_stage; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    definition.segments.push_back({0,
                                   layer,
                                   {add(prefix + "input_norm.weight", {hidden}, false, false),
                                    add(prefix + "qkv.weight", {3 * hidden, hidden}, true, false),
                                    add(prefix + "qkv.bias", {3 * hidden}, true, false),
                                    add(prefix + "out.weight", {hidden, hidden}, false, true),
                                    add(prefix + "up.weight", {ffn, hidden}, true, false),
                                    add(prefix + "up.bias", {ffn}, true, false),
                                    add(prefix + "down.weight", {hidden, ffn}, false, true)}});
  }
  return definition;
}

TEST(Scale, StartOfFiveThousandRanksInOneProcess) {
  const Clock::time_point begin = Clock::now();
  MeshDegrees degrees;
  degrees.tp = tensor_ranks;
  degrees.pp = stages;
  const Mesh mesh(fit_degrees(ranks, degrees));

  ScheduleRequest request;
  request.ranks = stages;
  request.micro_batches = 48;
  const Schedule schedule = make_schedule(request);
  check_schedule(schedule);
  std::int64_t schedule_bytes = 0;
  for (const auto& actions : schedule.actions)
    schedule_bytes += static_cast<std::int64_t>(actions.size() * sizeof(Action));

  Manifest manifest;
  std::map<std::string, StoredTensor> tensors;
  std::int64_t largest = 0;  // bytes that any rank holds for this
  for (int rank = 0; rank < ranks; ++rank) {
    const MeshPlace place = mesh.place_of(rank);
    std::int64_t bytes = schedule_bytes / stages;
    for (const Axes axes : {Axes::tp, Axes::shard_cp, Axes::dp_replicate, Axes::pp})
      bytes += static_cast<std::int64_t>(mesh.group(rank, axes).size() * sizeof(int));
    StageDefinition definition = parameters_of(place.pp, place.tp);
    StateOptions options;
    options.zero = 1;
    options.degree = mesh.group_size(Axes::shard_cp);
    options.rank = mesh.index_in_group(rank, Axes::shard_cp);
    const StateLayout layout(definition, options);
    bytes += static_cast<std::int64_t>(definition.parameters.size() * sizeof(Parameter) +
                                       layout.owned().size() * sizeof(OwnedSlice));
    manifest.shards.push_back({"shard", 1, 0});
    for (const OwnedSlice& slice : layout.owned()) {
      const Parameter& parameter = definition.parameters[slice.parameter];
      if (!parameter.spec.split && place.tp > 0) continue;
      for (const PlacedRegion& region : regions_of(parameter.spec, slice.begin, slice.end)) {
        StoredTensor& tensor = tensors[parameter.name];
        tensor.name = parameter.name;
        tensor.shape = parameter.spec.saved_shape;
        tensor.slices.push_back(
            {static_cast<std::size_t>(rank), parameter.name, region.region, {}});
        bytes += static_cast<std::int64_t>(sizeof(StoredSlice) + parameter.name.size());
      }
    }
    largest = std::max(largest, bytes);
  }
  for (auto& [name, tensor] : tensors) manifest.tensors.push_back(std::move(tensor));
  check_complete(manifest, "simulated");  // every element has exactly one owner
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%d ranks: %.3f s in all, at most %.1f KiB per rank\n", ranks, seconds,
              static_cast<double>(largest) / 1024);
  EXPECT_LT(largest, std::int64_t{1} << 20);
  EXPECT_LT(seconds, 30);  // catches gross mistakes; docs/performance.md has the figure
}

}  // namespace
}  // namespace trireme
