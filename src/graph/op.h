// The definition of an op: its shape rule, its gradient rule, its cost and its kernel. graph/ops/
// has one definition per OpKind; all other code works through that table.
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

// The ranks that a collective op communicates with, as ops see them: in the order of the queue,
// which on the CPU means that calls return when the result is complete. Counts are elements;
// reductions are sums in a fixed order, accumulated in f32 for 16-bit types.
class RankGroup {
 public:
  // Messages in flight: sent memory must not change and received memory must not be read until the
  // queue has waited for them.
  class Passing {
   public:
    virtual ~Passing() = default;
    virtual void wait() = 0;
  };

  virtual ~RankGroup() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  virtual void sum(Queue&, void* data, std::int64_t count, DType dtype) = 0;  // in place
  // In place, of f32 or f64: a binary tree over the ranks, ((0 + 1) + (2 + 3)) + ...
  virtual void sum_in_tree(Queue&, void* data, std::int64_t count, DType dtype) = 0;
  virtual void maximum(Queue&, void* data, std::int64_t count, DType dtype) = 0;  // in place
  // dst[size * count] gets src[count] of every rank.
  virtual void all_gather(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) = 0;
  // dst[count] gets this rank's part of the sum of src[size * count].
  virtual void reduce_scatter(Queue&, const void* src, void* dst, std::int64_t count,
                              DType dtype) = 0;
  // Part k of src[size * count] goes to rank k; part k of dst[size * count] comes from it.
  virtual void all_to_all(Queue&, const void* src, void* dst, std::int64_t count, DType dtype) = 0;
  // src[sent] goes to rank `to`, and dst[received] comes from rank `from`, neither of which is this
  // one. Both ends of a message know its count; where that is 0 there is none.
  virtual std::unique_ptr<Passing> start_send_receive(Queue&, const void* src, std::int64_t sent,
                                                      int to, void* dst, std::int64_t received,
                                                      int from, DType dtype) = 0;
  void send_receive(Queue& queue, const void* src, std::int64_t sent, int to, void* dst,
                    std::int64_t received, int from, DType dtype) {
    start_send_receive(queue, src, sent, to, dst, received, from, dtype)->wait();
  }
};

// The groups of a rank by kind; null for a single rank.
class RankGroups {
 public:
  RankGroup*& operator[](GroupKind kind) { return groups_[static_cast<std::size_t>(kind)]; }
  RankGroup* operator[](GroupKind kind) const { return groups_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<RankGroup*, static_cast<std::size_t>(GroupKind::count)> groups_{};
};

// Parameters of fixed-point gradients: the largest summand that fits (in units of the sum), and the
// counter, in device memory, of those that do not.
struct FixedPoint {
  double limit = 0;
  std::int64_t* overflows = nullptr;
};

// One launch: operand addresses in the order of the node, absent ones null.
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
  // Emits the nodes of the gradient; null where the op is never between a parameter and the loss.
  void (*gradient)(GradientBuilder& builder, const Node& node);
  // Flops of matrix products; bytes are derived from the operands.
  double (*flops)(const Graph& graph, const Node& node);
  // Bytes of scratch that the kernel needs on the target; null: none. Pure: planning asks it.
  std::int64_t (*workspace)(const Target& target, const Graph& graph, const Node& node);
  // State that the kernel makes once per node, a library primitive for instance, when a stage is
  // allocated; null: none.
  std::shared_ptr<const void> (*prepare)(Device& device, const Graph& graph, const Node& node);
  // Null for ops that only name memory (views).
  void (*launch)(const Launch& launch);
  // Cheap to compute again: selective recomputation does not save its outputs.
  bool cheap = false;
};

const OpDefinition& definition(OpKind op);
Cost cost_of(const Graph& graph, const Node& node);

// Throws an error whose message begins with the op's name and shows the operand's shape.
[[noreturn]] void fail_shape(const Node& node, const Graph& graph, const char* what);

}  // namespace trireme
