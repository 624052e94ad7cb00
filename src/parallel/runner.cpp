// Dispatches on actions; waits only for messages that a pass needs and for the reuse of buffers.
#include "parallel/runner.h"

#include "parallel/schedule/action_walk.h"

namespace trireme {

namespace {

// Maximum number of pending input gradients on this rank, if the next stage is on the same rank and
// takes them in place.
int handed_over(const Schedule& schedule, int rank, int chunk) {
  int waiting = 0, most = 0;
  const int stage = schedule.placement.stage(rank, chunk);
  if (stage == 0 || schedule.placement.rank_of(stage - 1) != rank) return 0;
  const int taker = schedule.placement.chunk_of(stage - 1);
  ActionWalk walk(schedule, rank);
  while (const Action* action = walk.next()) {
    if (action->kind != ActionKind::input_grad && action->kind != ActionKind::backward) continue;
    if (action->chunk == chunk) most = std::max(most, ++waiting);
    if (action->chunk == taker) --waiting;
  }
  return most;
}

}  // namespace

bool PipelineBuffers::hold(const PipelineBuffers& others) const {
  if (slots < others.slots) return false;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Chunk &own = chunks[c], &other = others.chunks[c];
    if (own.late_slots < other.late_slots || own.activations < other.activations ||
        own.gradients < other.gradients)
      return false;
  }
  return true;
}

void PipelineBuffers::join(const PipelineBuffers& others) {
  slots = std::max(slots, others.slots);
  chunks.resize(others.chunks.size());
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    Chunk& own = chunks[c];
    const Chunk& other = others.chunks[c];
    own.late_slots = std::max(own.late_slots, other.late_slots);
    own.activations = std::max(own.activations, other.activations);
    own.gradients = std::max(own.gradients, other.gradients);
  }
}

PipelineBuffers buffers_of(const PlannedSchedule& planned, int pipeline_rank) {
  const RankReport& rank = planned.report.ranks[pipeline_rank];
  PipelineBuffers buffers;
  buffers.slots = std::max(1, rank.peak_in_flight);
  for (const ChunkBuffers& needed : rank.buffers) {
    const int chunk = static_cast<int>(buffers.chunks.size());
    buffers.chunks.push_back(
        {std::max({1, needed.weight_grads, handed_over(planned.schedule, pipeline_rank, chunk)}),
         needed.activations, needed.gradients});
  }
  return buffers;
}

PipelineRunner::PipelineRunner(const std::vector<PipelineChunk>& parts,
                               const StagePlacement& placement, int pipeline_rank,
                               const PipelineBuffers& buffers)
    : placement_(placement),
      rank_(pipeline_rank),
      room_(parts[0].stage->boundary_bytes()),
      slots_(buffers.slots),
      activation_out_(static_cast<std::size_t>(buffers.slots)) {
  std::int64_t activations = 0, gradients = 0;
  bool sends = false;
  for (int c = 0; c < static_cast<int>(parts.size()); ++c) {
    Chunk chunk;
    chunk.stage = parts[c].stage;
    chunk.parameters = parts[c].parameters;
    chunk.gradients = parts[c].gradients;
    chunk.activations = parts[c].activations;
    chunk.number = placement.stage(pipeline_rank, c);
    chunk.buffers = buffers.chunks[c];
    chunk.activations_offset = activations;
    chunk.gradients_offset = gradients;
    chunk.activation_in.resize(std::max(1, chunk.buffers.activations));
    chunk.gradient_in.resize(std::max(1, chunk.buffers.gradients));
    activations += chunk.buffers.activations * room_;
    gradients += chunk.buffers.gradients * room_;
    sends |= chunk.number > 0;
    TRIREME_CHECK(chunk.stage->boundary_bytes() == room_);
    chunks_.push_back(std::move(chunk));
  }
  for (Chunk& chunk : chunks_) chunk.gradients_offset += activations;
  memory_.add("received messages", activations + gradients);
  memory_.add("gradients on their way out", sends && placement.ranks > 1 ? 2 * room_ : 0);
}

void PipelineRunner::allocate(Communicator& pipeline) {
  pipeline_ = &pipeline;
  Device& device = chunks_[0].stage->device();
  received_ = MemoryBlock(device, memory_.regions[0].bytes, memory_.regions[0].name);
  sent_ = MemoryBlock(device, memory_.regions[1].bytes, memory_.regions[1].name);
}

std::byte* PipelineRunner::activation_buffer(const Chunk& chunk, std::int64_t micro_batch) const {
  return received_.data() + chunk.activations_offset +
         micro_batch % chunk.buffers.activations * room_;
}

std::byte* PipelineRunner::gradient_buffer(const Chunk& chunk, std::int64_t micro_batch) const {
  return received_.data() + chunk.gradients_offset + micro_batch % chunk.buffers.gradients * room_;
}

PipelineRunner::Chunk* PipelineRunner::chunk_of_stage(int stage) {
  if (stage < 0 || stage >= placement_.stages() || placement_.rank_of(stage) != rank_)
    return nullptr;
  return &chunks_[placement_.chunk_of(stage)];
}

void PipelineRunner::run(const Schedule& schedule, PipelineClient& client, const StepBlock* block,
                         Observer* observer) {
  slots_.clear();
  ActionWalk walk(schedule, rank_);
  while (const Action* action = walk.next()) act(*action, schedule, client, block, observer);
  for (Work& work : activation_out_) work.wait();
  for (Work& work : gradient_out_) work.wait();
}

void PipelineRunner::act(const Action& action, const Schedule& schedule, PipelineClient& client,
                         const StepBlock* block, Observer* observer) {
  Chunk& chunk = chunks_[action.chunk];
  Stage& stage = *chunk.stage;
  const std::int64_t m = action.micro_batch;
  switch (action.kind) {
    case ActionKind::forward:
      return forward(chunk, action, client, block, observer);
    case ActionKind::backward:
    case ActionKind::input_grad:
      return backward(chunk, action, client, schedule, block, observer);
    case ActionKind::weight_grad: {
      const TraceSpan span(trace_, "weight gradient", action.chunk, m);
      expect(chunk, Pass::weight_grad, slot_of(action));
      make_gradients(chunk, action, Pass::weight_grad, schedule, block, observer);
      return release_slot(action);
    }
    case ActionKind::receive_activation:
      stage.poison(activation_buffer(chunk, m), message_bytes());
      chunk.activation_in[m % chunk.buffers.activations] = pipeline_->receive(
          activation_buffer(chunk, m), message_bytes(), DType::u8, action.peer, {"activations", m});
      return;
    case ActionKind::receive_gradient:
      stage.poison(gradient_buffer(chunk, m), message_bytes());
      chunk.gradient_in[m % chunk.buffers.gradients] =
          pipeline_->receive(gradient_buffer(chunk, m), message_bytes(), DType::u8, action.peer,
                             {"gradients of activations", m});
      return;
    case ActionKind::send_activation: {
      const Slot slot = slot_of(action);
      activation_out_[slot.index] = pipeline_->send(stage.stage_output(slot), message_bytes(),
                                                    DType::u8, action.peer, {"activations", m});
      return;
    }
    case ActionKind::send_gradient:
      return send_gradient(chunk, action);
    case ActionKind::reduce_gradients: {
      const TraceSpan span(trace_, "reduce gradients", action.chunk, -1);
      return chunk.gradients->reduce();
    }
    case ActionKind::step: {
      const TraceSpan span(trace_, "optimizer", action.chunk, -1);
      return client.step();
    }
  }
}

void PipelineRunner::run_pass(Chunk& chunk, const PassCall& call) {
  Stage& stage = *chunk.stage;
  Device& device = stage.device();
  const int number = static_cast<int>(&chunk - chunks_.data());
  stage.begin(call);
  for (int i = 0; i < stage.segments(); ++i) {
    const int segment = stage.segment_at(call.pass, i);
    const ProfilerRange range(ProfilerRange::Level::segment, "segment", segment);
    chunk.parameters->before(call.pass, segment);
    chunk.gradients->before(call.pass, segment);
    if (chunk.activations) chunk.activations->before(call.pass, segment, call.slot);
    if (device.begin_once({number, static_cast<int>(call.pass), segment, call.first_micro_batch})) {
      stage.run_segment(call, segment);
      device.end_once();
    }
    if (chunk.activations) chunk.activations->after(call.pass, segment, call.slot);
    chunk.gradients->after(call.pass, segment);
  }
}

void PipelineRunner::make_gradients(Chunk& chunk, const Action& action, Pass pass,
                                    const Schedule& schedule, const StepBlock* block,
                                    Observer* observer) {
  chunk.gradients->begin_pass(action.micro_batch + 1 == schedule.micro_batches);
  run_pass(chunk, {pass, slot_of(action), block, action.micro_batch == 0, observer,
                   chunk.gradients->fixed_point()});
}

void PipelineRunner::take_slot(const Action& action) {
  slots_.take(action.chunk, action.micro_batch);
  note_slots();
}

void PipelineRunner::release_slot(const Action& action) {
  slots_.release(action.chunk, action.micro_batch);
  note_slots();
}

void PipelineRunner::note_slots() {
  if (trace_)
    trace_->holds("micro-batches in flight", slots_.taken() * slot_bytes_,
                  std::chrono::steady_clock::now());
}

Slot PipelineRunner::slot_of(const Action& action) const {
  return {slots_.of(action.chunk, action.micro_batch),
          chunks_[action.chunk].late_slot(action.micro_batch).late};
}

void PipelineRunner::forward(Chunk& chunk, const Action& action, PipelineClient& client,
                             const StepBlock* block, Observer* observer) {
  const std::int64_t m = action.micro_batch;
  take_slot(action);
  const Slot slot = slot_of(action);
  activation_out_[slot.index].wait();  // send of the micro-batch that used the slot before
  client.load(action.chunk, slot.index, m);
  expect(chunk, Pass::forward, slot);
  const void* input = nullptr;
  if (Chunk* before = chunk_of_stage(chunk.number - 1)) {
    input = before->stage->stage_output(slots_.of(placement_.chunk_of(before->number), m));
  } else if (!is_first(chunk)) {
    chunk.activation_in[m % chunk.buffers.activations].wait();
    input = activation_buffer(chunk, m);
  }
  if (input)
    chunk.stage->device().queue().copy(chunk.stage->stage_input(slot), input, message_bytes());
  const TraceSpan span(trace_, "forward", action.chunk, m);
  run_pass(chunk, {Pass::forward, slot, block, false, observer});
}

void PipelineRunner::backward(Chunk& chunk, const Action& action, PipelineClient& client,
                              const Schedule& schedule, const StepBlock* block,
                              Observer* observer) {
  const std::int64_t m = action.micro_batch;
  const bool split = splits_backward(schedule.kind);
  const Slot slot = slot_of(action);
  expect(chunk, Pass::backward, slot);
  const void* gradient = nullptr;
  if (Chunk* behind = chunk_of_stage(chunk.number + 1)) {
    TRIREME_CHECK(split);  // only then late slots keep their input gradients
    gradient = behind->stage->input_grad(behind->late_slot(m));
  } else if (!is_last(chunk)) {
    chunk.gradient_in[m % chunk.buffers.gradients].wait();
    gradient = gradient_buffer(chunk, m);
  }
  if (gradient)
    chunk.stage->device().queue().copy(chunk.stage->output_grad(slot), gradient, message_bytes());
  {
    const TraceSpan span(trace_, split ? "input gradient" : "backward", action.chunk, m);
    make_gradients(chunk, action, Pass::backward, schedule, block, observer);
  }
  if (is_last(chunk)) client.losses_ready(action.chunk, slot.index, m);
  if (!split) release_slot(action);
}

// Sends a copy, since the stage may need the memory for the next micro-batch immediately.
void PipelineRunner::send_gradient(Chunk& chunk, const Action& action) {
  const int out = next_out_;
  next_out_ = 1 - next_out_;
  gradient_out_[out].wait();
  std::byte* copy = sent_.data() + out * room_;
  const Stage& stage = *chunk.stage;
  stage.device().queue().copy(copy, stage.input_grad(chunk.late_slot(action.micro_batch)),
                              message_bytes());
  gradient_out_[out] = pipeline_->send(copy, message_bytes(), DType::u8, action.peer,
                                       {"gradients of activations", action.micro_batch});
}

void PipelineRunner::evaluate(PipelineClient& client, Observer* observer) {
  for (int s = 0; s < placement_.stages(); ++s) {
    Chunk* chunk = chunk_of_stage(s);
    if (!chunk) continue;
    activation_out_[0].wait();  // all stages use the first slot
    client.load(placement_.chunk_of(s), 0, 0);
    expect(*chunk, Pass::evaluate, 0);
    if (Chunk* before = chunk_of_stage(s - 1)) {
      chunk->stage->device().queue().copy(chunk->stage->stage_input(0),
                                          before->stage->stage_output(0), message_bytes());
    } else if (s > 0) {
      pipeline_
          ->receive(chunk->stage->stage_input(0), message_bytes(), DType::u8,
                    placement_.rank_of(s - 1), "activations of an evaluation")
          .wait();
    }
    run_pass(*chunk, {Pass::evaluate, 0, nullptr, false, observer});
    if (!is_last(*chunk) && !chunk_of_stage(s + 1)) {
      activation_out_[0] =
          pipeline_->send(chunk->stage->stage_output(0), message_bytes(), DType::u8,
                          placement_.rank_of(s + 1), "activations of an evaluation");
    }
    if (is_last(*chunk)) client.losses_ready(placement_.chunk_of(s), 0, 0);
  }
}

}  // namespace trireme
