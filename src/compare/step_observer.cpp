// Places of local elements in the tensors of all ranks.
#include "compare/step_observer.h"

#include <fmt/format.h>

#include "config/batch_sizes.h"
#include "parallel/context.h"
#include "train/checkpoints/slices.h"

namespace trireme {
namespace {

// Adds a region of a tensor that begins at `data`, row by row.
void add_region(StepValues::Entry& entry, const Shape& tensor, const Region& region, DType dtype,
                const std::byte* data) {
  const bool matrix = tensor.rank() > 1;
  const std::int64_t width = matrix ? region.shape[1] : 1, columns = matrix ? tensor[1] : 1;
  for (std::int64_t i = region.begin; i < region.end;) {
    const std::int64_t end = std::min(region.end, (i / width + 1) * width);
    const std::int64_t row = region.offset[0] + i / width;
    const std::int64_t column = matrix ? region.offset[1] + i % width : 0;
    ValueSums& part = entry.parts[static_cast<std::size_t>(row * parts_of(tensor[0]) / tensor[0])];
    part.add(dtype, data + (i - region.begin) * size_of(dtype), end - i, row * columns + column);
    i = end;
  }
}

// Names the ranks over which the gradients of a parameter are summed.
std::string summed_over(const ParameterSpec& spec, const MeshDegrees& degrees, bool is_tied) {
  std::string text;
  const auto add = [&](bool is_summed, const char* ranks) {
    if (is_summed) text += (text.empty() ? "the " : " and the ") + std::string(ranks);
  };
  if (spec.of_experts && degrees.experts_apart()) {
    add(degrees.dp() * degrees.cp * degrees.tp > degrees.expert_ranks(),
        "ranks with the same experts");
  } else {
    add(degrees.dp() > 1, "data-parallel ranks");
    add(degrees.cp > 1, "context-parallel ranks");
  }
  add(spec.partial_gradient && degrees.tp > 1, "tensor-parallel ranks");
  add(spec.copies > 1, "tensor-parallel ranks with the same heads");
  add(is_tied && degrees.pp > 1, "first and last pipeline stage");
  return text;
}

}  // namespace

BatchRows::BatchRows(const Config& config, const Mesh& mesh, int rank)
    : samples(global_batch_size(config, mesh.size())),
      seq(config.model.seq_length),
      micro_batch(config.train.micro_batch_size),
      dp(mesh.degrees().dp()),
      dp_index(mesh.dp_index(rank)),
      cut(ContextParallel{mesh.degrees().cp, mesh.place_of(rank).cp}.cut(seq)),
      context_ranks(mesh.degrees().cp),
      tensor_ranks(mesh.degrees().tp),
      tensor_rank(mesh.place_of(rank).tp),
      tensor_ranks_share_rows(config.parallel.sequence_parallel && tensor_ranks > 1) {}

std::int64_t BatchRows::row(std::int64_t k, std::int64_t local) const {
  const std::int64_t local_seq = seq / context_ranks, at = local % local_seq;
  const std::int64_t sample = (k * dp + dp_index) * micro_batch + local / local_seq;
  const std::int64_t position = cut.chunk == 0 ? at : cut.first[at / cut.chunk] + at % cut.chunk;
  return sample * seq + position;
}

std::int64_t BatchRows::first_of(std::int64_t value_rows) const {
  if (value_rows == within_layers()) return 0;
  return value_rows == between_layers() ? tensor_rank * value_rows : -1;
}

void StepObserver::begin_step(StepValues& values) {
  values_ = &values;
  passes_.clear();
  read_.clear();
}

void StepObserver::begin(const Stage& stage, const PassCall& call) {
  stage_ = &stage;
  micro_batch_ = passes_[{&stage, call.pass}]++;
}

const GraphPlaces& StepObserver::places_of(const Graph& graph) {
  auto& places = places_[&graph];
  if (!places) places = std::make_unique<GraphPlaces>(graph);
  return *places;
}

int StepObserver::parameter_of(const Launch& launch, int index) const {
  const StageDefinition& definition = stage_->definition();
  for (const SegmentInstance& segment : definition.segments) {
    if (segment.layer != launch.layer) continue;
    const SegmentTemplate& its = definition.templates[segment.segment];
    if (its.train.get() == &launch.graph) return segment.parameters[index];
  }
  return -1;
}

void StepObserver::add_parameter(const Launch& launch, int input) {
  const int index = parameter_of(launch, launch.input_value(input).index);
  if (index < 0) return;
  const Parameter& parameter = stage_->definition().parameters[index];
  if (!read_.insert(parameter.name).second) return;
  StepPlace place{.kind = StepPlace::Kind::parameter};
  place.parameter = parameter.name;
  const ParameterSpec& spec = parameter.spec;
  auto& entry = values_->at("read " + parameter.name, place, spec.saved_shape[0]);
  const DType dtype = launch.input_value(input).dtype;
  launch.device.read(launch.in[input], launch.input_value(input).bytes(),
                     [&](const std::byte* data) {
                       for (const PlacedRegion& part : regions_of(spec, 0, spec.owned_count()))
                         add_region(entry, spec.saved_shape, part.region, dtype,
                                    data + part.offset * size_of(dtype));
                     });
}

void StepObserver::add_rows(StepValues::Entry& entry, const Value& value, std::int64_t first,
                            const std::byte* data) const {
  const std::int64_t columns = value.shape.count() / value.shape[0];
  const std::int64_t bytes = columns * size_of(value.dtype), parts = parts_of(rows_.all());
  for (std::int64_t r = 0; r < value.shape[0]; ++r) {
    const std::int64_t row = rows_.row(micro_batch_, first + r);
    entry.parts[static_cast<std::size_t>(row * parts / rows_.all())].add(
        value.dtype, data + r * bytes, columns, -1);
  }
}

void StepObserver::after(const Launch& launch) {
  for (int i = 0; i < Node::max_inputs; ++i) {
    const ValueId id = launch.node.inputs[i];
    if (id != no_value && launch.graph.value(id).role == Role::parameter) add_parameter(launch, i);
  }
  const GraphPlaces::NodePlaces* const node = places_of(launch.graph).of(launch.node);
  if (!node) return;
  const ValueId input = launch.graph.input();
  for (const GraphPlaces::Output& output : node->outputs) {
    const Value& value = launch.output_value(output.index);
    if (!launch.out[output.index] || value.role == Role::gradient) continue;
    const bool is_loss = node->place.op == definition(OpKind::token_loss).name && output.index == 0;
    if (!is_loss && (value.dtype != launch.graph.compute() || value.shape.rank() != 2)) continue;
    // Logits are padded.
    if (!is_loss && node->place.is_head && value.shape[1] != launch.graph.value(input).shape[1])
      continue;
    const std::int64_t first = rows_.first_of(value.shape[0]);
    if (first < 0) continue;
    StepPlace place = node->place;
    place.layer = launch.layer;
    if (node->parameter >= 0) {
      const int index = parameter_of(launch, node->parameter);
      if (index >= 0) place.parameter = stage_->definition().parameters[index].name;
    }
    const char* const segment = place.is_head ? "head" : input == no_value ? "embedding" : "layer";
    auto& entry =
        values_->at(fmt::format("{} {} {}", segment, launch.layer, output.key), place, rows_.all());
    entry.columns = value.shape.count() / value.shape[0];
    launch.device.read(launch.out[output.index], value.bytes(),
                       [&](const std::byte* data) { add_rows(entry, value, first, data); });
  }
}

void StepObserver::add_gradients() {
  for (int c = 0; c < engine_.chunks(); ++c) {
    const StageDefinition& definition = engine_.stage(c).definition();
    const Gradients& gradients = engine_.gradients(c);
    const StateLayout& layout = engine_.optimizer(c).layout();
    for (const OwnedSlice& owned : layout.owned()) {
      const Parameter& parameter = definition.parameters[owned.parameter];
      const ParameterSpec& spec = parameter.spec;
      StepPlace place{.kind = StepPlace::Kind::gradient};
      place.parameter = parameter.name;
      place.summed =
          summed_over(spec, engine_.mesh().degrees(), parameter.name == layout.options().tied);
      auto& entry = values_->at("gradient " + parameter.name, place, spec.saved_shape[0]);
      const std::byte* const data =
          gradients.part(owned.bucket) + owned.offset * size_of(gradients.dtype());
      for (const PlacedRegion& part :
           regions_of(spec, owned.begin, std::min(owned.end, spec.owned_count())))
        add_region(entry, spec.saved_shape, part.region, gradients.dtype(),
                   data + part.offset * size_of(gradients.dtype()));
    }
  }
}

void StepObserver::add_states(Engine& engine) {
  for (int c = 0; c < engine.chunks(); ++c) {
    for (const SourceSlice& slice : saved_slices(engine.stage(c), engine.optimizer(c),
                                                 [](const Parameter&) { return true; })) {
      StepPlace place{.kind = StepPlace::Kind::state};
      place.parameter = slice.name;
      auto& entry = values_->at("state " + slice.name, place, slice.tensor[0]);
      slice.access(0, slice.bytes(), [&](const std::byte* data) {
        add_region(entry, slice.tensor, slice.region, slice.dtype, data);
      });
    }
  }
}

}  // namespace trireme
