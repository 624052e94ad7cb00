// Runs a small differentiated graph in double without planner and runtime: every value has its own
// memory, so that a failure here points to an op.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "base/random.h"
#include "graph/op.h"
#include "graph/planner.h"

namespace trireme::testing_ops {

// Sizes shared by all graphs of the table.
inline constexpr std::int64_t batch = 2, seq = 5, rows = batch * seq, vocab = 11;

class Interpreter {
 public:
  // `graph` is differentiated and must outlive this object. Parameters and the input get random
  // values, batch inputs and tables get plausible ones.
  explicit Interpreter(const Graph& graph) : graph_(graph), memory_(graph.value_count()) {
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.is_view(id)) continue;
      const auto bytes = static_cast<std::size_t>(align_up(graph.value(id).bytes()));
      memory_[id].reset(static_cast<std::byte*>(std::aligned_alloc(memory_alignment, bytes)));
      std::memset(memory_[id].get(), 0, bytes);
      fill(id);
    }
  }

  // Returns the sum of all outputs, each times a fixed number, or of all weighted losses.
  double objective() {
    run(graph_.forward);
    if (graph_.output() == no_value) return weighted_losses();
    double sum = 0;
    const double* y = data(graph_.output());
    const double* dy = data(graph_.output_grad());
    for (std::int64_t i = 0; i < graph_.value(graph_.output()).shape.count(); ++i) {
      sum += y[i] * dy[i];
    }
    return sum;
  }

  void run_backward() { run(graph_.backward); }

  double* data(ValueId id) const { return static_cast<double*>(address(id)); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  void* address(ValueId id) const {
    if (id == no_value) return nullptr;
    const Value& value = graph_.value(id);
    return memory_[value.storage].get() + value.byte_offset;
  }

  void run(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      const OpDefinition& op = definition(node.op);
      if (!op.launch) continue;
      void *in[Node::max_inputs], *out[Node::max_outputs];
      for (int i = 0; i < Node::max_inputs; ++i) in[i] = address(node.inputs[i]);
      for (int i = 0; i < Node::max_outputs; ++i) out[i] = address(node.outputs[i]);
      constexpr int layer = 3;
      constexpr bool accumulate = true;  // weight gradients start at zero
      const std::int64_t scratch =
          op.workspace ? op.workspace(cpu::this_machine(), graph_, node) : 0;
      std::vector<std::byte> workspace(static_cast<std::size_t>(scratch + memory_alignment));
      void* aligned = workspace.data();
      std::size_t space = workspace.size();
      std::align(memory_alignment, static_cast<std::size_t>(scratch), aligned, space);
      const std::shared_ptr<const void> prepared =
          op.prepare ? op.prepare(cpu::device(), graph_, node) : nullptr;
      op.launch({cpu::device(), cpu::queue(), graph_, node, in, out, aligned, prepared.get(),
                 &step_, layer, accumulate, nullptr});
    }
  }

  double weighted_losses() const {
    double sum = 0;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (graph_.value(id).role != Role::result || graph_.is_view(id)) continue;
      for (std::int64_t r = 0; r < rows; ++r) sum += data(id)[r] * loss_weight(r);
    }
    return sum * step_.grad_scale;
  }

  static float loss_weight(std::int64_t row) { return row % 4 == 3 ? 0.f : 0.5f; }

  void fill(ValueId id) {
    const Value& value = graph_.value(id);
    const auto set = [&]<class T>(T, auto&& element) {
      T* to = static_cast<T*>(address(id));
      for (std::int64_t i = 0; i < value.shape.count(); ++i) {
        to[i] = static_cast<T>(element(static_cast<std::uint64_t>(i)));
      }
    };
    switch (value.role) {
      case Role::parameter:
      case Role::input:
      case Role::output_grad:
        set(double{}, [&](std::uint64_t i) { return 0.5 * normal(1, id, i); });
        break;
      case Role::batch:
        fill_batch(static_cast<BatchInput>(value.index), set);
        break;
      case Role::constant:  // a rotation by position * (column + 1) / 3
        set(double{}, [&](std::uint64_t i) {
          const auto columns = static_cast<std::uint64_t>(value.shape.back());
          const std::uint64_t position = i / columns, column = i % columns;
          const double angle = static_cast<double>(position * (column + 1)) / 3;
          return value.index == static_cast<int>(ConstantInput::rope_cos) ? std::cos(angle)
                                                                          : std::sin(angle);
        });
        break;
      default:
        break;
    }
  }

  template <class Set>
  static void fill_batch(BatchInput which, const Set& set) {
    switch (which) {
      case BatchInput::tokens:
      case BatchInput::targets:
        set(std::int32_t{}, [&](std::uint64_t i) {
          return uniform(2, static_cast<std::uint64_t>(which), i) * static_cast<double>(vocab);
        });
        break;
      case BatchInput::loss_weights:
        set(float{}, [](std::uint64_t i) { return loss_weight(static_cast<std::int64_t>(i)); });
        break;
      case BatchInput::positions:
        set(std::int32_t{}, [](std::uint64_t i) { return i % seq; });
        break;
      case BatchInput::sample_ids:
        set(std::int64_t{}, [](std::uint64_t i) { return 70 + 3 * i; });
        break;
      case BatchInput::first_visible:  // the second document begins at the third position
        set(std::int32_t{}, [](std::uint64_t i) { return i % seq < 2 ? 0 : 2; });
        break;
      case BatchInput::lengths:  // the first sequence ends with two padding positions
        set(std::int32_t{}, [](std::uint64_t i) { return i == 0 ? seq - 2 : seq; });
        break;
      case BatchInput::segments:
        set(std::int32_t{}, [](std::uint64_t i) { return i % seq > 2; });
        break;
      case BatchInput::predicted_rows:
        set(std::int32_t{}, [](std::uint64_t i) { return i * i % rows; });
        break;
      default:
        break;
    }
  }

  const Graph& graph_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;  // by value; null for views
  StepBlock step_{99, 5, 0.25};
};

}  // namespace trireme::testing_ops
