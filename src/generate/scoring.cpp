// One sequence at a time; a stage is built per length.
#include "generate/scoring.h"

#include <map>

#include "interop/safetensors_writer.h"
#include "ops/support.h"

namespace trireme {

void write_logits(TrainedModel& model, const std::vector<std::vector<std::int32_t>>& sequences,
                  const fs::path& output) {
  const ModelConfig& m = model.config().model;
  std::vector<SafetensorsTensor> tensors;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const auto length = static_cast<std::int64_t>(sequences[s].size());
    const std::string where = fmt::format("sequence {}", s);
    if (length == 0) fail_input("{} is empty", where);
    if (m.position == "learned" && length > m.max_positions) {
      fail_input("{} has {} tokens, but the model has {} learned positions", where, length,
                 m.max_positions);
    }
    for (const std::int32_t id : sequences[s]) {
      if (id < 0 || id >= m.vocab_size) {
        fail_input("{}: id {} is not in the vocabulary of {}", where, id, m.vocab_size);
      }
    }
    tensors.push_back({fmt::format("logits.{}", s), DType::f32, {length, m.vocab_size}});
  }
  SafetensorsWriter writer(output, tensors, {{"format", "pt"}});
  // The first stage holds the weights; the others of other lengths share them.
  std::map<std::int64_t, std::unique_ptr<Stage>> stages;
  const Stage* holder = nullptr;
  std::int64_t longest = 0;
  for (const auto& sequence : sequences)
    longest = std::max(longest, static_cast<std::int64_t>(sequence.size()));
  const auto stage_for = [&](std::int64_t length) -> Stage& {
    std::unique_ptr<Stage>& stage = stages[length];
    if (!stage) {
      BuildOptions build;
      build.purpose = Purpose::scoring;
      build.seq = length;
      stage = model.build(build, holder);
      if (!holder) holder = stage.get();
    }
    return *stage;
  };
  stage_for(longest);
  std::vector<float> row(static_cast<std::size_t>(m.vocab_size));
  const std::int64_t padded = padded_vocabulary(m);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const auto length = static_cast<std::int64_t>(sequences[s].size());
    Stage& stage = stage_for(length);
    auto* tokens = static_cast<std::int32_t*>(stage.batch(0, BatchInput::tokens));
    auto* positions = static_cast<std::int32_t*>(stage.batch(0, BatchInput::positions));
    for (std::int64_t i = 0; i < length; ++i) {
      tokens[i] = sequences[s][i];
      if (positions) positions[i] = static_cast<std::int32_t>(i);
    }
    stage.evaluate({});
    ops::with_compute_type(stage.definition().compute, [&]<class T>(T) {
      const T* logits = static_cast<const T*>(stage.result(0, ResultOutput::logits));
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t v = 0; v < m.vocab_size; ++v)
          row[v] = static_cast<float>(logits[i * padded + v]);
        writer.write(s, static_cast<std::uint64_t>(i) * row.size() * 4, row.data(), row.size() * 4);
      }
    });
  }
  writer.finish();
}

}  // namespace trireme
