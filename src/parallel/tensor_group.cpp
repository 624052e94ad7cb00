// Collectives of tensor parallelism, named for messages and traces.
#include "parallel/tensor_group.h"

namespace trireme {

void TensorGroup::sum(Queue&, void* data, std::int64_t count, DType dtype) {
  communicator_.all_reduce(data, count, dtype, Reduction::sum, "sum over tensor-parallel ranks")
      .wait();
}

void TensorGroup::maximum(Queue&, void* data, std::int64_t count, DType dtype) {
  communicator_.all_reduce(data, count, dtype, Reduction::max, "maximum over tensor-parallel ranks")
      .wait();
}

void TensorGroup::all_gather(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) {
  communicator_.all_gather(src, dst, count, dtype, "gather rows of tensor-parallel ranks").wait();
}

void TensorGroup::reduce_scatter(Queue&, const void* src, void* dst, std::int64_t count,
                                 DType dtype) {
  communicator_
      .reduce_scatter(src, dst, count, dtype, Reduction::sum,
                      "sum and scatter rows of tensor-parallel ranks")
      .wait();
}

void TensorGroup::all_to_all(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) {
  communicator_.all_to_all(src, dst, count, dtype, "exchange rows of tensor-parallel ranks").wait();
}

}  // namespace trireme
