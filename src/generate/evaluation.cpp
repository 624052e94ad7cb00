// Sliding windows over a long token stream.
#include "generate/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "model/batch_inputs.h"
#include "model/losses.h"

namespace trireme {

double Evaluation::perplexity() const {
  return std::exp(loss());
}

double Evaluation::bits_per_byte() const {
  return bytes ? nats / std::log(2.0) / static_cast<double>(bytes) : 0;
}

Evaluation evaluate_tokens(TrainedModel& model, const std::vector<std::int32_t>& ids,
                           std::int64_t bytes, const EvaluationOptions& options) {
  model.require_next_token();
  const std::int64_t seq = model.config().model.seq_length;
  if (options.stride > seq) {
    fail_input("--stride {} would skip tokens: windows have {}, so use {} or less", options.stride,
               counted(seq, "token"), seq);
  }
  const std::int64_t stride =
      options.stride > 0 ? options.stride : std::max<std::int64_t>(1, seq / 2);
  BuildOptions build;
  build.batch = options.batch;
  const std::unique_ptr<Stage> stage = model.build(build);
  Batch windows(options.batch, seq);

  Evaluation result;
  result.bytes = bytes;
  const auto last = static_cast<std::int64_t>(ids.size()) - 1;  // tokens to score
  std::int64_t scored = 0;                                      // tokens scored by earlier windows
  std::int64_t begin = 0;
  while (scored < last) {
    for (std::int64_t b = 0; b < options.batch; ++b) {
      set_positions(windows, b, std::min(seq, last - begin), model.config().model);
      for (std::int64_t i = 0; i < seq; ++i) {
        const std::int64_t at = begin + i, r = b * seq + i;
        const bool counts = at < last && at >= scored;
        windows.tokens[r] = at < last ? ids[at] : 0;
        windows.targets[r] = counts ? ids[at + 1] : 0;
        windows.loss_weights[r] = counts ? 1.f : 0.f;
      }
      scored = std::max(scored, std::min(last, begin + seq));
      begin += stride;
    }
    load_batch(*stage, 0, windows);
    stage->evaluate();
    with_accumulation_type(stage->definition().accumulate(), [&]<class A>(A) {
      stage->read_result<A>(0, ResultOutput::token_loss, [&](const A* losses) {
        for (std::int64_t r = 0; r < options.batch * seq; ++r) {
          if (windows.loss_weights[r] == 0) continue;
          result.nats += static_cast<double>(losses[r]);
          ++result.tokens;
        }
      });
    });
  }
  return result;
}

}  // namespace trireme
