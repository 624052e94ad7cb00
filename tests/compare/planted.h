// Errors planted in layers and messages: graphs that a family of the test's own changes, and a
// transport that loses operations.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "comm/transport.h"
#include "config/families.h"
#include "model/builder.h"
#include "model/gpt.h"

namespace trireme::testing_parity {

// Changes the graph of each block before it is differentiated.
using GraphEdit = std::function<void(Graph& graph, const BuildOptions& options)>;

inline GraphEdit& planted_edit() {
  static GraphEdit edit;
  return edit;
}

class PlantedBuilder final : public GptBuilder {
 public:
  using GptBuilder::GptBuilder;
  std::unique_ptr<Graph> block(const BlockKind& kind) const override {
    auto graph = GptBuilder::block(kind);
    if (planted_edit()) planted_edit()(*graph, options_);
    return graph;
  }
};

// Adds the family "planted", like "llama".
inline void add_planted_family() {
  static std::once_flag once;
  std::call_once(once, [] {
    static const ArchitectureDefinition planted{
        [](const ModelConfig& model, const BuildOptions& options, bool dropout) {
          return std::unique_ptr<Builder>(
              std::make_unique<PlantedBuilder>(model, options, dropout));
        },
        next_token_losses};
    add_family("planted", "llama");
    set_added_architecture(planted);
  });
}

// Makes the users of a node's output use its input.
inline void bypass(Graph& graph, OpKind op, int number = 0) {
  auto node = graph.forward.begin();
  while (node->op != op || number-- > 0) ++node;
  const ValueId from = node->inputs[0], to = node->outputs[0];
  for (auto user = node + 1; user != graph.forward.end(); ++user)
    std::ranges::replace(user->inputs, to, from);
  graph.forward.erase(node);
}

// A parameter's specification, which a graph shows as constant.
inline ParameterSpec& spec_of(const Graph& graph, const std::string& name) {
  for (const ParameterSpec& spec : graph.parameters())
    if (spec.name == name) return const_cast<ParameterSpec&>(spec);
  fail("the planted graph has no {}", name);
}

// Whether an operation of a group is lost: its result is what was there.
using Loss = std::function<bool(const std::string& group, const Label& label)>;

class LosingCommunicator final : public Communicator {
 public:
  LosingCommunicator(std::unique_ptr<Communicator> real, Loss loses)
      : Communicator(real->world_ranks(), real->rank(), real->name()),
        real_(std::move(real)),
        loses_(std::move(loses)) {}

  Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                  Label label) override {
    if (loses_(name(), label)) return {};
    return real_->all_reduce(data, count, dtype, reduction, label);
  }
  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                      Reduction reduction, Label label) override {
    return real_->reduce_scatter(src, dst, count, dtype, reduction, label);
  }
  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    if (loses_(name(), label)) return {};
    return real_->all_gather(src, dst, count, dtype, label);
  }
  Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) override {
    return real_->broadcast(data, count, dtype, root, label);
  }
  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    return real_->all_to_all(src, dst, count, dtype, label);
  }
  Work barrier(Label label) override { return real_->barrier(label); }
  Work exchange(std::span<const Transfer> transfers, Label label) override {
    return real_->exchange(transfers, label);
  }

 private:
  std::unique_ptr<Communicator> real_;
  const Loss loses_;
};

class LosingTransport final : public Transport {
 public:
  LosingTransport(Transport& real, Loss loses) : real_(real), loses_(std::move(loses)) {}

  const Place& place() const override { return real_.place(); }
  Communicator& world() override { return real_.world(); }
  std::unique_ptr<Communicator> group(std::vector<int> ranks, std::string name) override {
    return std::make_unique<LosingCommunicator>(
        real_.group(std::move(ranks), std::move(name)),
        [this](const std::string& group, const Label& label) {
          return loses_now_ && loses_(group, label);
        });
  }
  void set_listener(OperationListener* listener) override { real_.set_listener(listener); }
  void set_activity(ActivitySource source) override { real_.set_activity(std::move(source)); }
  void set_last_output(LastOutput words) override { real_.set_last_output(std::move(words)); }
  // Nothing is lost before.
  void begin() { loses_now_ = true; }
  void leave() override { real_.leave(); }
  void abort(int exit_code, const std::string& message) override {
    real_.abort(exit_code, message);
  }

 private:
  Transport& real_;
  const Loss loses_;
  bool loses_now_ = false;
};

}  // namespace trireme::testing_parity
