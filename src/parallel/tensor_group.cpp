// Collectives of layers and sequences, named for messages and traces.
#include "parallel/tensor_group.h"

namespace trireme {
namespace {

class WorkPassing final : public RankGroup::Passing {
 public:
  explicit WorkPassing(Work work) : work_(std::move(work)) {}
  void wait() override { work_.wait(); }

 private:
  Work work_;
};

}  // namespace

const TensorGroup::Names TensorGroup::of_layers = {
    "sum over tensor-parallel ranks",         "maximum over tensor-parallel ranks",
    "gather rows of tensor-parallel ranks",   "sum and scatter rows of tensor-parallel ranks",
    "exchange rows of tensor-parallel ranks", "rows of tensor-parallel ranks"};
const TensorGroup::Names TensorGroup::of_sequences = {
    "sum over context-parallel ranks",         "maximum over context-parallel ranks",
    "gather rows of context-parallel ranks",   "sum and scatter rows of context-parallel ranks",
    "exchange rows of context-parallel ranks", "rows of context-parallel ranks"};
const TensorGroup::Names TensorGroup::of_experts = {
    "sum over expert-parallel ranks",         "maximum over expert-parallel ranks",
    "gather counts of expert-parallel ranks", "sum and scatter rows of expert-parallel ranks",
    "exchange rows of expert-parallel ranks", "rows of expert-parallel ranks"};

void TensorGroup::sum(Queue&, void* data, std::int64_t count, DType dtype) {
  communicator_.all_reduce(data, count, dtype, Reduction::sum, names_.sum).wait();
}

void TensorGroup::sum_in_tree(Queue&, void* data, std::int64_t count, DType dtype) {
  communicator_.all_reduce(data, count, dtype, Reduction::tree, names_.sum).wait();
}

void TensorGroup::maximum(Queue&, void* data, std::int64_t count, DType dtype) {
  communicator_.all_reduce(data, count, dtype, Reduction::max, names_.maximum).wait();
}

void TensorGroup::all_gather(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) {
  communicator_.all_gather(src, dst, count, dtype, names_.gather).wait();
}

void TensorGroup::reduce_scatter(Queue&, const void* src, void* dst, std::int64_t count,
                                 DType dtype) {
  communicator_.reduce_scatter(src, dst, count, dtype, Reduction::sum, names_.scatter).wait();
}

void TensorGroup::all_to_all(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) {
  communicator_.all_to_all(src, dst, count, dtype, names_.exchange).wait();
}

std::unique_ptr<RankGroup::Passing> TensorGroup::start_send_receive(Queue&, const void* src,
                                                                    std::int64_t sent, int to,
                                                                    void* dst,
                                                                    std::int64_t received, int from,
                                                                    DType dtype) {
  std::vector<Transfer> transfers;
  if (sent > 0)
    transfers.push_back(
        {Transfer::Direction::send, to, const_cast<void*>(src), sent, dtype});  // only read
  if (received > 0) transfers.push_back({Transfer::Direction::receive, from, dst, received, dtype});
  return std::make_unique<WorkPassing>(
      transfers.empty() ? Work() : messages_.exchange(transfers, names_.messages));
}

}  // namespace trireme
