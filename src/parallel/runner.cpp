// One switch over the actions; all waiting is for messages that a pass needs or a buffer's reuse.
#include "parallel/runner.h"

#include <cstring>

namespace trireme {

PipelineBuffers buffers_of(const ScheduleReport& report, int pipeline_rank) {
  PipelineBuffers buffers;
  for (const ChunkBuffers& chunk : report.ranks[pipeline_rank].buffers) {
    buffers.slots.push_back(std::max({1, chunk.saved, chunk.saved_or_posted}));
    buffers.gradients.push_back(chunk.gradients);
  }
  return buffers;
}

PipelineRunner::PipelineRunner(std::vector<Stage*> stages, const StagePlacement& placement,
                               int pipeline_rank, const PipelineBuffers& buffers)
    : placement_(placement), rank_(pipeline_rank), bytes_(stages[0]->boundary_bytes()) {
  std::int64_t received = 0;
  bool sends = false;
  for (int c = 0; c < static_cast<int>(stages.size()); ++c) {
    Chunk chunk;
    chunk.stage = stages[c];
    chunk.number = placement.stage(pipeline_rank, c);
    chunk.slots = buffers.slots[c];
    chunk.gradient_buffers = buffers.gradients[c];
    chunk.gradients_offset = received;
    chunk.activation_in.resize(chunk.slots);
    chunk.activation_out.resize(chunk.slots);
    chunk.gradient_in.resize(std::max(1, chunk.gradient_buffers));
    received += chunk.gradient_buffers * bytes_;
    sends |= chunk.number > 0;
    TRIREME_CHECK(chunk.stage->boundary_bytes() == bytes_);
    chunks_.push_back(std::move(chunk));
  }
  memory_.add("received gradients", received);
  memory_.add("gradients on their way out", sends && placement.ranks > 1 ? 2 * bytes_ : 0);
}

void PipelineRunner::allocate(Communicator& pipeline) {
  pipeline_ = &pipeline;
  received_ = MemoryBlock(memory_.regions[0].bytes);
  sent_ = MemoryBlock(memory_.regions[1].bytes);
}

std::byte* PipelineRunner::gradient_buffer(const Chunk& chunk, std::int64_t micro_batch) const {
  return received_.data() + chunk.gradients_offset +
         micro_batch % chunk.gradient_buffers * bytes_;
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
  const int slot = action.micro_batch % chunk.slots;
  const std::int64_t count = bytes_;
  switch (action.kind) {
    case ActionKind::forward:
      return forward(chunk, action, client, block, observer);
    case ActionKind::backward:
    case ActionKind::input_grad:
      return backward(chunk, action, client, block, splits_backward(schedule.kind), observer);
    case ActionKind::weight_grad: {
      client.before_gradients(action.chunk, action.micro_batch);
      const TraceSpan span(trace_, "weight gradient", action.chunk, action.micro_batch);
      return stage.weight_grad(slot, block, action.micro_batch == 0, observer);
    }
    case ActionKind::receive_activation:
      chunk.activation_in[slot] = pipeline_->receive(stage.stage_input(slot), count, DType::u8, action.peer, {"activations", action.micro_batch});
      return;
    case ActionKind::receive_gradient:
      chunk.gradient_in[action.micro_batch % chunk.gradient_buffers] =
          pipeline_->receive(gradient_buffer(chunk, action.micro_batch), count, DType::u8,
                                    action.peer, {"gradients of activations", action.micro_batch});
      return;
    case ActionKind::send_activation:
      chunk.activation_out[slot] = pipeline_->send(stage.stage_output(slot), count, DType::u8, action.peer, {"activations", action.micro_batch});
      return;
    case ActionKind::send_gradient:
      return send_gradient(chunk, action, slot);
    case ActionKind::reduce_gradients:
    case ActionKind::step:
      return;  // hooks reduce each segment as soon as it is complete
  }
}

void PipelineRunner::forward(Chunk& chunk, const Action& action, PipelineClient& client,
                             const StepBlock& block, Observer* observer) {
  const int slot = action.micro_batch % chunk.slots;
  chunk.activation_out[slot].wait();  // of the micro-batch that had the slot before
  client.load(action.chunk, slot, action.micro_batch);
  if (Chunk* before = chunk_of_stage(chunk.number - 1)) {
    std::memcpy(chunk.stage->stage_input(slot),
                before->stage->stage_output(action.micro_batch % before->slots),
                static_cast<std::size_t>(bytes_));
  } else {
    chunk.activation_in[slot].wait();
  }
  const TraceSpan span(trace_, "forward", action.chunk, action.micro_batch);
  chunk.stage->forward(slot, block, observer);
}

void PipelineRunner::backward(Chunk& chunk, const Action& action, PipelineClient& client,
                              const StepBlock& block, bool split, Observer* observer) {
  const int slot = action.micro_batch % chunk.slots;
  if (Chunk* behind = chunk_of_stage(chunk.number + 1)) {
    // Input gradients stay in the slot until its weight gradients are done.
    TRIREME_CHECK(split);
    std::memcpy(chunk.stage->output_grad(slot),
                behind->stage->input_grad(action.micro_batch % behind->slots),
                static_cast<std::size_t>(bytes_));
  } else if (!is_last(chunk)) {
    chunk.gradient_in[action.micro_batch % chunk.gradient_buffers].wait();
    std::memcpy(chunk.stage->output_grad(slot), gradient_buffer(chunk, action.micro_batch),
                static_cast<std::size_t>(bytes_));
  }
  client.before_gradients(action.chunk, action.micro_batch);
  {
    const TraceSpan span(trace_, split ? "input gradient" : "backward", action.chunk,
                         action.micro_batch);
    chunk.stage->backward(slot, block, action.micro_batch == 0, observer);
  }
  if (is_last(chunk)) client.losses_ready(action.chunk, slot, action.micro_batch);
}

// Through a copy: the stage may need the memory for the next micro-batch at once.
void PipelineRunner::send_gradient(Chunk& chunk, const Action& action, int slot) {
  const int out = next_out_;
  next_out_ = 1 - next_out_;
  gradient_out_[out].wait();
  std::byte* copy = sent_.data() + out * bytes_;
  std::memcpy(copy, chunk.stage->input_grad(slot), static_cast<std::size_t>(bytes_));
  gradient_out_[out] = pipeline_->send(copy, bytes_, DType::u8, action.peer, {"gradients of activations", action.micro_batch});
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
