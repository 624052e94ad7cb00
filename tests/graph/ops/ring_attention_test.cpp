// Tests that a ring's sends are in flight while it computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/ops/ops.h"
#include "wrapped_device.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// A device that records what runs on it.
class NotingDevice final : public testing_device::WrappedDevice {
 public:
  explicit NotingDevice(std::vector<std::string>& notes) : notes_(notes) {}
  void around(const char* name, const std::function<void()>& work) override {
    if (std::string(name) != "fill") notes_.emplace_back(name);
    work();
  }

 private:
  std::vector<std::string>& notes_;
};

// Ranks that all have the data of the first one; messages arrive when they are waited for.
class NotingGroup final : public RankGroup {
 public:
  NotingGroup(int size, std::vector<std::string>& notes) : size_(size), notes_(notes) {}

  int size() const override { return size_; }
  int rank() const override { return 0; }
  std::unique_ptr<Passing> start_send_receive(Queue&, const void* src, std::int64_t sent, int to,
                                              void* dst, std::int64_t received, int from,
                                              DType dtype) override {
    EXPECT_EQ(to, 1);
    EXPECT_EQ(from, size_ - 1);
    EXPECT_EQ(sent, received);
    notes_.push_back(std::string("send ") + (dtype == DType::f32 ? "gradients" : "keys"));
    return std::make_unique<Noted>(notes_, src, dst, sent * size_of(dtype));
  }
  void sum(Queue&, void*, std::int64_t, DType) override { FAIL(); }
  void sum_in_tree(Queue&, void*, std::int64_t, DType) override { FAIL(); }
  void maximum(Queue&, void*, std::int64_t, DType) override { FAIL(); }
  void all_gather(Queue&, const void*, void*, std::int64_t, DType) override { FAIL(); }
  void reduce_scatter(Queue&, const void*, void*, std::int64_t, DType) override { FAIL(); }
  void all_to_all(Queue&, const void*, void*, std::int64_t, DType) override { FAIL(); }

 private:
  class Noted final : public Passing {
   public:
    Noted(std::vector<std::string>& notes, const void* src, void* dst, std::int64_t bytes)
        : notes_(notes), src_(src), dst_(dst), bytes_(bytes) {}
    void wait() override {
      notes_.emplace_back("wait");
      std::memcpy(dst_, src_, static_cast<std::size_t>(bytes_));
    }

   private:
    std::vector<std::string>& notes_;
    const void* src_;
    void* dst_;
    std::int64_t bytes_;
  };

  int size_;
  std::vector<std::string>& notes_;
};

// Returns what the op with these inputs does on the first of `ranks` ranks.
std::vector<std::string> notes_of(int ranks, bool backward) {
  std::vector<std::string> notes;
  NotingDevice device(notes);
  NotingGroup group(ranks, notes);
  RankGroups groups;
  groups[GroupKind::context] = &group;

  const std::int64_t chunk = 4;
  AttentionAttributes a{};
  a.batch = 1;
  a.seq = 2 * ranks * chunk;
  a.groups = a.queries_per_group = 1;
  a.head_dim = 8;
  a.causal = true;
  a.scale = 1;
  a.cut = {chunk, {0, a.seq - chunk}};
  a.context_ranks = ranks;
  Graph g(DType::bf16);
  const ValueId qkv = g.segment_input({2 * chunk, 3 * a.head_dim});
  const ValueId keys = g.parameter({"keys", {2 * chunk, 2 * a.head_dim}});
  const Node* node = &g.emit(OpKind::ring_attention, a, {qkv, keys, no_value, no_value});
  if (backward) {
    const ValueId ctx = node->outputs[0], lse = node->outputs[1];
    node = &g.emit(OpKind::ring_attention_grad, a, {qkv, keys, ctx, lse, lse, no_value, no_value});
  }

  const OpDefinition& op = definition(node->op);
  std::vector<std::vector<std::byte>> memory;
  const auto room = [&](std::int64_t bytes) {
    return memory.emplace_back(static_cast<std::size_t>(bytes)).data();
  };
  std::vector<void*> in, out;
  for (const ValueId value : node->inputs)
    in.push_back(value == no_value ? nullptr : room(g.value(value).bytes()));
  for (const ValueId value : node->outputs)
    out.push_back(value == no_value ? nullptr : room(g.value(value).bytes()));
  void* const workspace = room(op.workspace(device.target(), g, *node));
  op.launch({.device = device,
             .queue = device.queue(QueueRole::compute),
             .graph = g,
             .node = *node,
             .in = in.data(),
             .out = out.data(),
             .workspace = workspace,
             .prepared = nullptr,
             .step = nullptr,
             .layer = 0,
             .accumulate = false,
             .groups = &groups,
             .fixed_point = {}});
  return notes;
}

TEST(RingAttention, SendsKeysWhileItComputes) {
  EXPECT_THAT(notes_of(3, false), ElementsAre("send keys", "ring_attention", "wait", "send keys",
                                              "ring_attention", "wait", "ring_attention"));
}

TEST(RingAttention, SendsGradientsWhileTheNextTurnComputes) {
  EXPECT_THAT(notes_of(4, true),
              ElementsAre("send keys", "ring_attention_grad", "wait",                    //
                          "send keys", "ring_attention_grad", "send gradients", "wait",  //
                          "send keys", "ring_attention_grad", "wait", "add", "send gradients",
                          "wait",                                                  //
                          "ring_attention_grad", "wait", "add", "send gradients",  //
                          "wait", "ring_key_grads"));
}

}  // namespace
}  // namespace trireme
