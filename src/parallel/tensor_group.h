// Ranks as collective ops see them, over a communicator: those that share layers, sequences or
// experts.
#pragma once

#include "comm/communicator.h"
#include "graph/op.h"

namespace trireme {

// Each call waits for its result: what follows in a layer needs it.
class TensorGroup : public RankGroup {
 public:
  // What the operations are called in messages and traces.
  struct Names {
    const char *sum, *maximum, *gather, *scatter, *exchange, *messages;
  };
  static const Names of_layers, of_sequences, of_experts;

  // The communicator outlives this, and nothing else runs on it.
  explicit TensorGroup(Communicator& communicator, const Names& names = of_layers)
      : communicator_(communicator), names_(names) {}

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void sum(Queue&, void* data, std::int64_t count, DType dtype) override;
  void maximum(Queue&, void* data, std::int64_t count, DType dtype) override;
  void all_gather(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) override;
  void reduce_scatter(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) override;
  void all_to_all(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) override;
  void send_receive(Queue&, const void* src, std::int64_t sent, int to, void* dst,
                    std::int64_t received, int from, DType dtype) override;

 private:
  Communicator& communicator_;
  const Names& names_;
};

}  // namespace trireme
