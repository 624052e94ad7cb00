// Pipeline schedules as data: for each rank the list of actions that it executes once per
// step.
//
// Terms: a pipeline has `ranks`; each holds `chunks` parts of the model (virtual stages), so there
// are ranks x chunks stages, numbered along the model. The forward pass of a micro-batch runs
// through stages 0, 1, 2, ..., its backward pass through them in reverse.
//
// Actions of a walker:
//   forward            waits for the activation (unless stage 0), computes, keeps what the backward
//                      pass needs
// backward           waits for the gradient (unless last stage), computes both gradients
//   input_grad         waits for the gradient, computes the gradient of the input only
//   weight_grad        computes the gradient of the weights, later; then nothing is kept any more
// receive_*          posts the receive and continues; the compute action of the same name waits for
// it
// send_*             starts the send and continues; its buffer is free when it is complete
//   reduce_gradients   the weight gradients of a chunk are complete: their reduction may start
//   step               everything of this step has been computed
// Between stages that lie on one rank nothing is sent: the walker hands the buffer over.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/schedules.h"

namespace trireme {

// Maps chunks of ranks to stages. Straight: chunk c of rank r is stage c * ranks + r. V-shaped,
// with two chunks: chunk 0 of rank r is stage r, chunk 1 is stage 2 * ranks - 1 - r, so that the
// first rank holds both the first and the last stage.
struct StagePlacement {
  int ranks = 1;
  int chunks = 1;
  bool v_shaped = false;

  int stages() const { return ranks * chunks; }
  int stage(int rank, int chunk) const {
    return v_shaped && chunk % 2 ? (chunk + 1) * ranks - 1 - rank : chunk * ranks + rank;
  }
  int chunk_of(int stage) const { return stage / ranks; }
  int rank_of(int stage) const {
    const int within = stage % ranks;
    return v_shaped && chunk_of(stage) % 2 ? ranks - 1 - within : within;
  }
};

enum class ActionKind : std::uint8_t {
  forward,
  backward,
  input_grad,
  weight_grad,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  reduce_gradients,
  step,
};

std::string_view name_of(ActionKind kind);
constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::weight_grad;
}
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_activation || kind == ActionKind::send_gradient;
}
constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_activation || kind == ActionKind::receive_gradient;
}

// `chunk` and `micro_batch` refer to this rank's own compute action: the activation that chunk 1
// receives is the input of its forward pass, the one that chunk 0 sends is its output.
struct Action {
  ActionKind kind;
  std::int16_t chunk = 0;
  std::int32_t micro_batch = 0;
  std::int32_t peer = -1;  // pipeline rank, for sends and receives

  bool operator==(const Action&) const = default;
};

// Durations of the passes of one stage for one micro-batch, in an arbitrary unit. A fused backward
// pass takes input_grad + weight_grad.
struct PassTimes {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;

  auto operator<=>(const PassTimes&) const = default;
};

// A range [begin, end) of a rank's list that is repeated.
struct Loop {
  std::size_t begin = 0, end = 0;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  StagePlacement placement;
  int micro_batches = 1;
  // By rank. The repeating middle of a long step is stored once: each loop runs once as written and
  // then `more_turns` times, with micro-batch numbers advanced by `turn` each time. Use ActionWalk
  // (parallel/schedule/action_walk.h) to iterate over all actions of the step.
  std::vector<std::vector<Action>> actions;
  std::vector<std::vector<Loop>> loops;  // by rank, in order; empty: no loops
  int turn = 0, more_turns = 0;

  int ranks() const { return placement.ranks; }
  int chunks() const { return placement.chunks; }
};

struct ScheduleRequest {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int ranks = 1;
  int micro_batches = 1;
  // Virtual stages per rank; 0: the schedule's default (2 for interleaved, zbv, vhalf; else 1).
  int chunks = 0;
  // One entry per stage in order, or one for all. They determine where weight gradients are placed
  // and the order of receives; the schedule is correct for any values.
  std::vector<PassTimes> times = {PassTimes{}};
  // Posts every receive this many compute actions earlier, so that data can arrive during
  // computation: for runners with nonblocking receives (MPI).
  int early_receives = 0;
  bool written_out = false;  // no loops, at any length: to test that loops change nothing

  auto operator<=>(const ScheduleRequest&) const = default;
};

// Pure function: the same request gives the same schedule on every rank. Unsupported requests fail
// (exit code 2) with a message that names the supported values. Even blocking sends and receives,
// executed in list order, do not deadlock; messages between two ranks are sent and received in the
// same order; weight gradients of a chunk are in ascending order of micro-batches, so that their
// sum does not depend on the schedule.
Schedule make_schedule(const ScheduleRequest& request);

}  // namespace trireme
