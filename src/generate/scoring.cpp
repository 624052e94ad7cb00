// One sequence at a time, by length: a stage is built for each.
#include "generate/scoring.h"

#include <algorithm>
#include <map>

#include "backend/device.h"
#include "base/counted.h"
#include "model/batch_inputs.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

void check(const ScoredSequence& sequence, const ModelConfig& m, const std::string& where) {
  const auto length = static_cast<std::int64_t>(sequence.ids.size());
  if (length == 0) fail_input("{} is empty", where);
  if (m.position == PositionEncoding::learned && length > m.max_positions) {
    fail_input("{} has {}, but the model has {}", where, counted(length, "token"),
               counted(m.max_positions, "learned position"));
  }
  for (const std::int32_t id : sequence.ids) {
    if (id < 0 || id >= m.vocab_size) {
      fail_input("{}: id {} is not in the vocabulary of {}", where, id, m.vocab_size);
    }
  }
}

void check_token_types(const ScoredSequence& sequence, const std::string& where) {
  const auto& types = sequence.token_types;
  if (types.size() != sequence.ids.size())
    fail_input("{} has {} for {}", where, counted(types.size(), "token type"),
               counted(sequence.ids.size(), "id"));
  for (const std::int32_t type : types) {
    if (type != 0 && type != 1) fail_input("{}: token type {} is neither 0 nor 1", where, type);
  }
}

Batch batch_of(const ScoredSequence& sequence) {
  Batch batch(1, static_cast<std::int64_t>(sequence.ids.size()));
  batch.tokens = sequence.ids;
  if (!sequence.token_types.empty()) batch.segments = sequence.token_types;
  return batch;
}

// Rows of a result of the stage, without the padding of their columns.
void write_rows(SafetensorsWriter& writer, std::size_t tensor, const Stage& stage,
                ResultOutput result, std::int64_t rows, std::int64_t columns, std::int64_t padded) {
  std::vector<float> row(static_cast<std::size_t>(columns));
  with_compute_type(stage.definition().compute, [&]<class T>(T) {
    stage.read_result<T>(0, result, [&](const T* from) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::transform(from + i * padded, from + i * padded + columns, row.begin(),
                       [](T x) { return static_cast<float>(x); });
        writer.write(tensor, static_cast<std::uint64_t>(i) * row.size() * 4, row.data(),
                     row.size() * 4);
      }
    });
  });
}

}  // namespace

void write_logits(TrainedModel& model, const std::vector<ScoredSequence>& sequences,
                  const fs::path& output) {
  TRIREME_CHECK(!sequences.empty());
  const ModelConfig& m = model.config().model;
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    check(sequences[s], m, fmt::format("sequence {}", s));
    by_length[static_cast<std::int64_t>(sequences[s].ids.size())].push_back(s);
  }
  const auto stage_of = [&](std::int64_t length, const Stage* shares) {
    BuildOptions build;
    build.purpose = Purpose::scoring;
    build.seq = length;
    return model.build(build, shares);
  };
  // The longest stage holds the weights and tables; the others come and go.
  const std::int64_t longest = by_length.rbegin()->first;
  const std::unique_ptr<Stage> holder = stage_of(longest, nullptr);
  const bool order_head = holder->result(0, ResultOutput::order_logits) != nullptr;
  const bool has_types = holder->batch(0, BatchInput::segments) != nullptr;
  std::vector<SafetensorsTensor> tensors;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const std::string where = fmt::format("sequence {}", s);
    if (!sequences[s].token_types.empty()) {
      if (!has_types) fail_input("{} has token types, but the model has none", where);
      check_token_types(sequences[s], where);
    }
    const auto length = static_cast<std::int64_t>(sequences[s].ids.size());
    tensors.push_back({fmt::format("logits.{}", s), DType::f32, {length, m.vocab_size}});
    if (order_head) tensors.push_back({fmt::format("order_logits.{}", s), DType::f32, {2}});
  }
  SafetensorsWriter writer(output, tensors, {{"format", "pt"}});
  const std::size_t per_sequence = order_head ? 2 : 1;
  for (const auto& [length, members] : by_length) {
    const auto shorter = length == longest ? nullptr : stage_of(length, holder.get());
    Stage& stage = shorter ? *shorter : *holder;
    for (const std::size_t s : members) {
      const std::size_t tensor = s * per_sequence;
      load_batch(stage, 0, batch_of(sequences[s]));
      stage.evaluate();
      write_rows(writer, tensor, stage, ResultOutput::logits, length, m.vocab_size,
                 padded_vocabulary(m));
      if (order_head) write_rows(writer, tensor + 1, stage, ResultOutput::order_logits, 1, 2, 2);
    }
  }
  writer.finish();
}

}  // namespace trireme
