// Ranks as collective ops see them, over a communicator: those that share layers, sequences or
// experts.
#pragma once

#include "comm/communicator.h"
#include "graph/op.h"

namespace trireme {

// Each call but start_send_receive() waits for its result: what follows in a layer needs it.
class TensorGroup : public RankGroup {
 public:
  // Names of the operations in messages and traces.
  struct Names {
    const char *sum, *maximum, *gather, *scatter, *exchange, *messages;
  };
  static const Names of_layers, of_sequences, of_experts;

  // The communicators outlive this, and nothing else runs on them. Messages go over `messages`, of
  // the same ranks, if there is one: on a GPU, one whose queue is not that which computes.
  explicit TensorGroup(Communicator& communicator, const Names& names = of_layers,
                       Communicator* messages = nullptr)
      : communicator_(communicator),
        messages_(messages ? *messages : communicator),
        names_(names) {}

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void sum(Queue&, void* data, std::int64_t count, DType dtype) override;
  void sum_in_tree(Queue&, void* data, std::int64_t count, DType dtype) override;
  void maximum(Queue&, void* data, std::int64_t count, DType dtype) override;
  void all_gather(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) override;
  void reduce_scatter(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) override;
  void all_to_all(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) override;
  std::unique_ptr<Passing> start_send_receive(Queue&, const void* src, std::int64_t sent, int to,
                                              void* dst, std::int64_t received, int from,
                                              DType dtype) override;

 private:
  Communicator& communicator_;
  Communicator& messages_;
  const Names& names_;
};

}  // namespace trireme
