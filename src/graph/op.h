// The definition of an op: shape rule, gradient rule, cost and kernel. graph/ops/ has one
// definition per OpKind; all other code works through that table.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "graph/graph.h"

namespace trireme {

class Device;
class GradientBuilder;
class Queue;
struct StepBlock;
struct Target;

// The process group of a collective op. Calls are ordered by the queue; on the CPU they return when
// the result is complete. Counts are in elements; reductions are sums in a fixed order, accumulated
// in f32 for 16-bit types.
class RankGroup {
 public:
  // Messages in flight: the send buffer must not change and the receive buffer must not be read
  // until the queue has waited for them.
  class Passing {
   public:
    virtual ~Passing() = default;
    virtual void wait() = 0;
  };

  virtual ~RankGroup() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  virtual void sum(Queue&, void* data, std::int64_t count, DType dtype) = 0;  // in place
  // In-place sum of f32 or f64 as a binary tree over the ranks: ((0 + 1) + (2 + 3)) + ...
  virtual void sum_in_tree(Queue&, void* data, std::int64_t count, DType dtype) = 0;
  virtual void maximum(Queue&, void* data, std::int64_t count, DType dtype) = 0;  // in place
  // dst[size * count] receives src[count] of every rank.
  virtual void all_gather(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) = 0;
  // dst[count] receives this rank's part of the sum of src[size * count].
  virtual void reduce_scatter(Queue&, const void* src, void* dst, std::int64_t count,
                              DType dtype) = 0;
  // Part k of src[size * count] goes to rank k; part k of dst[size * count] comes from it.
  virtual void all_to_all(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) = 0;
  // Sends src[sent] to rank `to` and receives dst[received] from rank `from`; neither is this rank.
  // Both ends know the count of a message; a count of 0 means no message.
  virtual std::unique_ptr<Passing> start_send_receive(Queue&, const void* src, std::int64_t sent,
                                                      int to, void* dst, std::int64_t received,
                                                      int from, DType dtype) = 0;
  void send_receive(Queue& queue, const void* src, std::int64_t sent, int to, void* dst,
                    std::int64_t received, int from, DType dtype) {
    start_send_receive(queue, src, sent, to, dst, received, from, dtype)->wait();
  }
};

// A rank's process groups by kind; null for a group of one rank.
class RankGroups {
 public:
  RankGroup*& operator[](GroupKind kind) { return groups_[static_cast<std::size_t>(kind)]; }
  RankGroup* operator[](GroupKind kind) const { return groups_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<RankGroup*, static_cast<std::size_t>(GroupKind::count)> groups_{};
};

// Parameters of fixed-point gradients: the largest representable summand (in units of the sum), and
// the counter, in device memory, of summands that exceed it.
struct FixedPoint {
  double limit = 0;
  std::int64_t* overflows = nullptr;
};

// One kernel launch: operand addresses in the order of the node; null for absent operands.
struct Launch {
  Device& device;
  Queue& queue;
  const Graph& graph;
  const Node& node;
  void* const* in;
  void* const* out;
  void* workspace;
  const void* prepared;
  const StepBlock* step;  // in device memory
  std::int32_t layer;     // number of the block in the whole model, for random numbers
  bool accumulate;        // add to gradients instead of overwriting them
  const RankGroups* groups;
  FixedPoint fixed_point;

  template <class T>
  T* input(int i) const {
    return static_cast<T*>(in[i]);
  }
  template <class T>
  T* output(int i) const {
    return static_cast<T*>(out[i]);
  }
  const Value& input_value(int i) const { return graph.value(node.inputs[i]); }
  const Value& output_value(int i) const { return graph.value(node.outputs[i]); }
};

struct Cost {
  double flops = 0;  // multiplications and additions of matrix products and attention
  double bytes = 0;  // read and written
};

struct OpDefinition {
  const char* name;
  // Checks the operands and adds the outputs to the node.
  void (*infer)(Graph& graph, Node& node);
  // Emits the gradient nodes; null if the op is never between a parameter and the loss.
  void (*gradient)(GradientBuilder& builder, const Node& node);
  // Flops of the op's matrix products; bytes are derived from the operands.
  double (*flops)(const Graph& graph, const Node& node);
  // Bytes of scratch that the kernel needs on the target; null: none. Pure: the planner calls it.
  std::int64_t (*workspace)(const Target& target, const Graph& graph, const Node& node);
  // State created once per node when a stage is allocated, e.g. a library primitive; null:
  // none.
  std::shared_ptr<const void> (*prepare)(Device& device, const Graph& graph, const Node& node);
  // Null for ops that only alias memory (views).
  void (*launch)(const Launch& launch);
  // Cheap to recompute: selective recomputation does not save the outputs.
  bool cheap = false;
};

const OpDefinition& definition(OpKind op);
Cost cost_of(const Graph& graph, const Node& node);

// Throws an error whose message begins with the op's name and shows the operand's shape.
[[noreturn]] void fail_shape(const Node& node, const Graph& graph, const char* what);

}  // namespace trireme
