// Groups sequences by length, since a stage is built for each length.
#include "generate/scoring.h"

#include <map>

#include "tensors/safetensors_writer.h"

namespace trireme {

void write_logits(TrainedModel& model, const std::vector<ScoredSequence>& sequences,
                  const fs::path& output) {
  TRIREME_CHECK(!sequences.empty());
  const std::int64_t vocab_size = model.config().model.vocab_size;
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    check_sequence(sequences[s], model.config().model, fmt::format("sequence {}", s));
    by_length[static_cast<std::int64_t>(sequences[s].ids.size())].push_back(s);
  }
  Scorer scorer(model, by_length.rbegin()->first);
  const bool order_head = scorer.has_order_head();
  std::vector<SafetensorsTensor> tensors;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    scorer.check(sequences[s], fmt::format("sequence {}", s));
    const auto length = static_cast<std::int64_t>(sequences[s].ids.size());
    tensors.push_back({fmt::format("logits.{}", s), DType::f32, {length, vocab_size}});
    if (order_head) tensors.push_back({fmt::format("order_logits.{}", s), DType::f32, {2}});
  }
  SafetensorsWriter writer(output, tensors, {{"format", "pt"}});
  const auto write = [&](std::size_t tensor, std::int64_t row, std::span<const float> values) {
    writer.write(tensor, static_cast<std::uint64_t>(row) * values.size_bytes(), values.data(),
                 values.size_bytes());
  };
  const std::size_t per_sequence = order_head ? 2 : 1;
  for (const auto& [length, members] : by_length) {
    for (const std::size_t s : members) {
      const std::size_t tensor = s * per_sequence;
      scorer.run(sequences[s]);
      scorer.rows(
          0, [&](std::int64_t row, std::span<const float> logits) { write(tensor, row, logits); });
      if (order_head) write(tensor + 1, 0, scorer.order_logits());
    }
  }
  writer.finish();
}

}  // namespace trireme
