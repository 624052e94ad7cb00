// Adapter from a communicator to the RankGroup interface of collective ops: ranks that share
// layers, sequences or experts.
#pragma once

#include "comm/communicator.h"
#include "graph/op.h"

namespace trireme {

// All calls except start_send_receive() wait for the result: the next op of a layer needs it.
class TensorGroup : public RankGroup {
 public:
  // Names of the operations for messages and traces.
  struct Names {
    const char *sum, *maximum, *gather, *scatter, *exchange, *messages;
  };
  static const Names of_layers, of_sequences, of_experts;

  // The communicators must outlive this object and not be used by others. Point-to-point messages
  // use `messages`, a group of the same ranks, if given: on a GPU, one with a separate queue.
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
