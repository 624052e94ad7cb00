// An observer that checks every output.
#include "train/reports/not_finite.h"

#include <cstring>
#include <limits>
#include <vector>

#include "backend/device.h"

namespace trireme {
namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t backward_begins = std::int64_t{1} << 32;
constexpr std::int64_t before_all = -2, embedding = -1, head = std::int64_t{1} << 31;
constexpr std::size_t text_bytes = 256;

// Sort key along the model.
std::int64_t place_of(const Launch& launch) {
  if (launch.layer >= 0) return launch.layer;
  return launch.graph.input() == no_value ? embedding : head;
}

}  // namespace

// Index of the first non-finite value, or -1; always -1 for integers.
std::int64_t NotFiniteSearch::first_bad(DType dtype, const void* data, std::int64_t count) {
  const bool is_float =
      dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  if (!is_float) return -1;
  with_compute_type(dtype, [&]<class T>(T) {
    device_.kernels<T>().first_not_finite(device_.queue(), index_, static_cast<const T*>(data),
                                          count);
  });
  std::int64_t index = -1;
  device_.read(index_, sizeof index,
               [&](const std::byte* host) { std::memcpy(&index, host, sizeof index); });
  return index;
}

void NotFiniteSearch::look_at_masters(Optimizer& optimizer, const Stage& stage) {
  optimizer.for_each_master([&](const OwnedSlice& slice, const std::byte* master) {
    if (!found_.empty()) return;
    const std::int64_t index = first_bad(optimizer.dtype(), master, slice.count());
    if (index < 0) return;
    const Parameter& parameter = stage.definition().parameters[slice.parameter];
    found_ = fmt::format("parameter {} {}, element {}", parameter.name, parameter.spec.shape.text(),
                         slice.begin + index);
    order_ = before_all;
  });
}

void NotFiniteSearch::after(const Launch& launch) {
  if (!found_.empty()) return;
  for (int i = 0; i < Node::max_outputs; ++i) {
    const ValueId id = launch.node.outputs[i];
    if (id == no_value) continue;
    const Value& value = launch.graph.value(id);
    const std::int64_t index = first_bad(value.dtype, launch.out[i], value.shape.count());
    if (index < 0) continue;
    const bool forward = launch.node.phase == Phase::forward;
    const std::string where = launch.layer >= 0 ? fmt::format(" of layer {}", launch.layer) : "";
    found_ = fmt::format("{}{} ({}), output {} {} {}, element {}", definition(launch.node.op).name,
                         where, forward ? "forward" : "backward", i, name_of(value.dtype),
                         value.shape.text(), index);
    const std::int64_t place = place_of(launch);
    order_ = forward ? place : backward_begins - place;
    return;
  }
}

std::string NotFiniteSearch::first_of_all(Communicator& world) const {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> orders(ranks);
  const std::int64_t own = found_.empty() ? none : order_;
  world.all_gather(&own, orders.data(), 1, DType::i64, "what is not finite").wait();
  std::string text = found_;
  text.resize(text_bytes);
  std::vector<char> texts(ranks * text_bytes);
  world
      .all_gather(text.data(), texts.data(), static_cast<std::int64_t>(text_bytes), DType::u8,
                  "what is not finite")
      .wait();
  std::size_t first = 0;
  for (std::size_t r = 1; r < ranks; ++r) {
    if (orders[r] < orders[first]) first = r;
  }
  if (orders[first] == none) return "the sum of the gradients of several micro-batches";
  std::string result(texts.data() + first * text_bytes,
                     strnlen(texts.data() + first * text_bytes, text_bytes));
  if (ranks > 1) result += fmt::format(" on rank {}", first);
  return result;
}

}  // namespace trireme
