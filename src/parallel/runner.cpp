// One switch over the actions; all waiting is for messages that a pass needs or a buffer's reuse.
#include "parallel/runner.h"

#include <cstring>
#include <numeric>

namespace trireme {

namespace {

// Where the next stage lies on the same rank its input gradients are taken from where they were
// made: the most that wait there at once.
int handed_over(const Schedule& schedule, int rank, int chunk) {
  int waiting = 0, most = 0;
  const int stage = schedule.placement.stage(rank, chunk);
  if (stage == 0 || schedule.placement.rank_of(stage - 1) != rank) return 0;
  const int taker = schedule.placement.chunk_of(stage - 1);
  for (const Action& action : schedule.actions[rank]) {
    if (action.kind != ActionKind::input_grad && action.kind != ActionKind::backward) continue;
    if (action.chunk == chunk) most = std::max(most, ++waiting);
    if (action.chunk == taker) --waiting;
  }
  return most;
}

// A stage needs a program for each pair of a slot and a late slot that meet. Where these are too
// many (deep pipelines) the numbers grow until late slots divide slots: what that costs least; a
// slot holds about twice as much as a late one.
void turn_together(PipelineBuffers::Chunk& chunk) {
  constexpr int most_programs = 64;
  if (std::lcm(chunk.slots, chunk.late_slots) <= most_programs) return;
  PipelineBuffers::Chunk best = chunk;
  int least = 0;
  for (int slots = chunk.slots; slots <= chunk.slots + chunk.late_slots; ++slots) {
    int late_slots = std::min(chunk.late_slots, slots);
    while (slots % late_slots != 0) ++late_slots;
    const int cost = 2 * slots + late_slots;
    if (late_slots < chunk.late_slots || (least > 0 && cost >= least)) continue;
    least = cost;
    best.slots = slots;
    best.late_slots = late_slots;
  }
  chunk = best;
}

}  // namespace

bool PipelineBuffers::hold(const PipelineBuffers& others) const {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Chunk &own = chunks[c], &other = others.chunks[c];
    if (own.slots < other.slots || own.late_slots < other.late_slots ||
        own.activations < other.activations || own.gradients < other.gradients)
      return false;
  }
  return true;
}

void PipelineBuffers::join(const PipelineBuffers& others) {
  chunks.resize(others.chunks.size(), Chunk{0, 0, 0, 0});
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    Chunk& own = chunks[c];
    const Chunk& other = others.chunks[c];
    own.slots = std::max(own.slots, other.slots);
    own.late_slots = std::max(own.late_slots, other.late_slots);
    own.activations = std::max(own.activations, other.activations);
    own.gradients = std::max(own.gradients, other.gradients);
    turn_together(own);
  }
}

PipelineBuffers buffers_of(const Schedule& schedule, const ScheduleReport& report,
                           int pipeline_rank) {
  PipelineBuffers buffers;
  for (const ChunkBuffers& needed : report.ranks[pipeline_rank].buffers) {
    const int chunk = static_cast<int>(buffers.chunks.size());
    buffers.chunks.push_back(
        {std::max(1, needed.saved),
         std::max({1, needed.weight_grads, handed_over(schedule, pipeline_rank, chunk)}),
         needed.activations, needed.gradients});
  }
  return buffers;
}

PipelineRunner::PipelineRunner(std::vector<Stage*> stages, const StagePlacement& placement,
                               int pipeline_rank, const PipelineBuffers& buffers)
    : placement_(placement), rank_(pipeline_rank), bytes_(stages[0]->boundary_bytes()) {
  std::int64_t activations = 0, gradients = 0;
  bool sends = false;
  for (int c = 0; c < static_cast<int>(stages.size()); ++c) {
    Chunk chunk;
    chunk.stage = stages[c];
    chunk.number = placement.stage(pipeline_rank, c);
    chunk.buffers = buffers.chunks[c];
    chunk.activations_offset = activations;
    chunk.gradients_offset = gradients;
    chunk.activation_in.resize(std::max(1, chunk.buffers.activations));
    chunk.gradient_in.resize(std::max(1, chunk.buffers.gradients));
    chunk.activation_out.resize(chunk.buffers.slots);
    activations += chunk.buffers.activations * bytes_;
    gradients += chunk.buffers.gradients * bytes_;
    sends |= chunk.number > 0;
    TRIREME_CHECK(chunk.stage->boundary_bytes() == bytes_);
    chunks_.push_back(std::move(chunk));
  }
  for (Chunk& chunk : chunks_) chunk.gradients_offset += activations;
  memory_.add("received messages", activations + gradients);
  memory_.add("gradients on their way out", sends && placement.ranks > 1 ? 2 * bytes_ : 0);
}

void PipelineRunner::allocate(Communicator& pipeline) {
  pipeline_ = &pipeline;
  received_ = MemoryBlock(memory_.regions[0].bytes);
  sent_ = MemoryBlock(memory_.regions[1].bytes);
}

std::byte* PipelineRunner::activation_buffer(const Chunk& chunk, std::int64_t micro_batch) const {
  return received_.data() + chunk.activations_offset +
         micro_batch % chunk.buffers.activations * bytes_;
}

std::byte* PipelineRunner::gradient_buffer(const Chunk& chunk, std::int64_t micro_batch) const {
  return received_.data() + chunk.gradients_offset + micro_batch % chunk.buffers.gradients * bytes_;
}

PipelineRunner::Chunk* PipelineRunner::chunk_of_stage(int stage) {
  if (stage < 0 || stage >= placement_.stages() || placement_.rank_of(stage) != rank_)
    return nullptr;
  return &chunks_[placement_.chunk_of(stage)];
}

void PipelineRunner::run(const Schedule& schedule, PipelineClient& client, const StepBlock& block,
                         Observer* observer) {
  for (const Action& action : schedule.actions[rank_])
    act(action, schedule, client, block, observer);
  for (Chunk& chunk : chunks_) {
    for (Work& work : chunk.activation_out) work.wait();
  }
  for (Work& work : gradient_out_) work.wait();
}

void PipelineRunner::act(const Action& action, const Schedule& schedule, PipelineClient& client,
                         const StepBlock& block, Observer* observer) {
  Chunk& chunk = chunks_[action.chunk];
  Stage& stage = *chunk.stage;
  const std::int64_t m = action.micro_batch;
  switch (action.kind) {
    case ActionKind::forward:
      return forward(chunk, action, client, block, observer);
    case ActionKind::backward:
    case ActionKind::input_grad:
      return backward(chunk, action, client, block, splits_backward(schedule.kind), observer);
    case ActionKind::weight_grad: {
      client.before_gradients(action.chunk, m);
      const TraceSpan span(trace_, "weight gradient", action.chunk, m);
      return stage.weight_grad(stage.slot_of(m), block, m == 0, observer);
    }
    case ActionKind::receive_activation:
      chunk.activation_in[m % chunk.buffers.activations] = pipeline_->receive(
          activation_buffer(chunk, m), bytes_, DType::u8, action.peer, {"activations", m});
      return;
    case ActionKind::receive_gradient:
      chunk.gradient_in[m % chunk.buffers.gradients] =
          pipeline_->receive(gradient_buffer(chunk, m), bytes_, DType::u8, action.peer,
                             {"gradients of activations", m});
      return;
    case ActionKind::send_activation:
      chunk.activation_out[chunk.turn(m)] = pipeline_->send(
          stage.stage_output(stage.slot_of(m)), bytes_, DType::u8, action.peer, {"activations", m});
      return;
    case ActionKind::send_gradient:
      return send_gradient(chunk, action);
    case ActionKind::reduce_gradients:
    case ActionKind::step:
      return;  // hooks reduce each segment as soon as it is complete
  }
}

void PipelineRunner::forward(Chunk& chunk, const Action& action, PipelineClient& client,
                             const StepBlock& block, Observer* observer) {
  const std::int64_t m = action.micro_batch;
  const int slot = chunk.stage->slot_of(m);
  chunk.activation_out[chunk.turn(m)].wait();  // of the micro-batch that had the slot before
  client.load(action.chunk, slot, m);
  const void* input = nullptr;
  if (Chunk* before = chunk_of_stage(chunk.number - 1)) {
    input = before->stage->stage_output(before->stage->slot_of(m));
  } else if (!is_first(chunk)) {
    chunk.activation_in[m % chunk.buffers.activations].wait();
    input = activation_buffer(chunk, m);
  }
  if (input) std::memcpy(chunk.stage->stage_input(slot), input, static_cast<std::size_t>(bytes_));
  const TraceSpan span(trace_, "forward", action.chunk, m);
  chunk.stage->forward(slot, block, observer);
}

void PipelineRunner::backward(Chunk& chunk, const Action& action, PipelineClient& client,
                              const StepBlock& block, bool split, Observer* observer) {
  const std::int64_t m = action.micro_batch;
  const int slot = chunk.stage->slot_of(m);
  const void* gradient = nullptr;
  if (Chunk* behind = chunk_of_stage(chunk.number + 1)) {
    TRIREME_CHECK(split);  // only then each late slot keeps its input gradients
    gradient = behind->stage->input_grad(behind->stage->slot_of(m));
  } else if (!is_last(chunk)) {
    chunk.gradient_in[m % chunk.buffers.gradients].wait();
    gradient = gradient_buffer(chunk, m);
  }
  if (gradient)
    std::memcpy(chunk.stage->output_grad(slot), gradient, static_cast<std::size_t>(bytes_));
  client.before_gradients(action.chunk, m);
  {
    const TraceSpan span(trace_, split ? "input gradient" : "backward", action.chunk, m);
    chunk.stage->backward(slot, block, m == 0, observer);
  }
  if (is_last(chunk)) client.losses_ready(action.chunk, slot, m);
}

// Through a copy: the stage may need the memory for the next micro-batch at once.
void PipelineRunner::send_gradient(Chunk& chunk, const Action& action) {
  const int out = next_out_;
  next_out_ = 1 - next_out_;
  gradient_out_[out].wait();
  std::byte* copy = sent_.data() + out * bytes_;
  const Stage& stage = *chunk.stage;
  std::memcpy(copy, stage.input_grad(stage.slot_of(action.micro_batch)),
              static_cast<std::size_t>(bytes_));
  gradient_out_[out] = pipeline_->send(copy, bytes_, DType::u8, action.peer,
                                       {"gradients of activations", action.micro_batch});
}

void PipelineRunner::evaluate(PipelineClient& client, const StepBlock& block, Observer* observer) {
  for (int s = 0; s < placement_.stages(); ++s) {
    Chunk* chunk = chunk_of_stage(s);
    if (!chunk) continue;
    chunk->activation_out[0].wait();
    client.load(placement_.chunk_of(s), 0, 0);
    if (Chunk* before = chunk_of_stage(s - 1)) {
      std::memcpy(chunk->stage->stage_input(0), before->stage->stage_output(0),
                  static_cast<std::size_t>(bytes_));
    } else if (s > 0) {
      pipeline_
          ->receive(chunk->stage->stage_input(0), bytes_, DType::u8, placement_.rank_of(s - 1),
                    "activations of an evaluation")
          .wait();
    }
    chunk->stage->evaluate(block, observer);
    if (!is_last(*chunk) && !chunk_of_stage(s + 1)) {
      chunk->activation_out[0] =
          pipeline_->send(chunk->stage->stage_output(0), bytes_, DType::u8,
                          placement_.rank_of(s + 1), "activations of an evaluation");
    }
    if (is_last(*chunk)) client.losses_ready(placement_.chunk_of(s), 0, 0);
  }
}

}  // namespace trireme
