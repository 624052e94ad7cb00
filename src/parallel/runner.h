// Walks through a rank's actions of a pipeline schedule and enqueues a whole step: the passes of
// its stages, segment by segment with their parameters and gradients, the messages between ranks,
// the reduction of gradients and the step of the optimizer.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "parallel/activation_windows.h"
#include "parallel/check.h"
#include "parallel/gradients.h"
#include "parallel/parameters.h"
#include "parallel/slot_table.h"
#include "parallel/trace.h"
#include "runtime/stage.h"

namespace trireme {

// Buffers that a rank needs for a schedule.
struct PipelineBuffers {
  struct Chunk {
    int late_slots = 1;   // micro-batches between input and weight gradients
    int activations = 0;  // received and not used yet
    int gradients = 0;
  };
  int slots = 1;  // micro-batches in flight, of all chunks together
  std::vector<Chunk> chunks;

  bool hold(const PipelineBuffers& others) const;  // no less of anything than `others`
  void join(const PipelineBuffers& others);        // the more of each
};
PipelineBuffers buffers_of(const Schedule& schedule, const ScheduleReport& report,
                           int pipeline_rank);

// The questions and reports of the runner while it walks, each for a chunk and a micro-batch.
class PipelineClient {
 public:
  virtual ~PipelineClient() = default;
  // The micro-batch's inputs are to be put into the slot.
  virtual void load(int chunk, int slot, std::int64_t micro_batch) = 0;
  // The last stage has its results for this micro-batch.
  virtual void losses_ready(int chunk, int slot, std::int64_t micro_batch) = 0;
  // All micro-batches have passed, and every reduction of gradients has been started.
  virtual void step() = 0;
};

// A stage of this rank with everything else that its passes read and write. All outlive the runner.
struct PipelineChunk {
  Stage* stage;
  Parameters* parameters;
  Gradients* gradients;
  ActivationWindows* activations = nullptr;  // null: slots have all of them
};

class PipelineRunner {
 public:
  // All parts are allocated before the runner runs.
  PipelineRunner(const std::vector<PipelineChunk>& parts, const StagePlacement& placement,
                 int pipeline_rank, const PipelineBuffers& buffers);

  // Messages that wait: received ones and gradients on their way out.
  const MemoryPlan& memory() const { return memory_; }
  void allocate(Communicator& pipeline);

  // One step: all actions of this rank. The schedule must not need more than the buffers.
  void run(const Schedule& schedule, PipelineClient& client, const StepBlock* block,
           Observer* observer = nullptr);
  // Forward passes of one micro-batch without dropout, from stage to stage; the client loads slot 0
  // of each chunk.
  void evaluate(PipelineClient& client, Observer* observer = nullptr);
  // Waits for what evaluations have sent.
  void finish_evaluation() { activation_out_[0].wait(); }

  // Records what runs when; null: nothing. Must outlive the runner.
  void set_trace(Trace* trace) { trace_ = trace; }
  // Bytes that one micro-batch in flight holds, which a trace plots.
  void set_slot_bytes(std::int64_t bytes) { slot_bytes_ = bytes; }

 private:
  struct Chunk {
    Stage* stage = nullptr;
    Parameters* parameters = nullptr;
    Gradients* gradients = nullptr;
    ActivationWindows* activations = nullptr;
    int number = 0;  // of the stage along the model
    PipelineBuffers::Chunk buffers;
    std::int64_t activations_offset = 0, gradients_offset = 0;  // of its buffers in received_
    std::vector<Work> activation_in, gradient_in;               // by buffer
    // Slot for the gradients of activations. Micro-batches take late slots in rotation.
    Slot late_slot(std::int64_t micro_batch) const {
      return {0, static_cast<int>(micro_batch % buffers.late_slots)};
    }
  };
  // A pass is about to begin: before its input is put into the stage.
  void expect(Chunk& chunk, Pass pass, Slot slot) {
    if (chunk.activations) chunk.activations->begin(pass, slot);
  }
  // Enqueues a pass: parameters come before each segment, gradients leave after it.
  void run_pass(Chunk& chunk, const PassCall& call);
  void make_gradients(Chunk& chunk, const Action& action, Pass pass, const Schedule& schedule,
                      const StepBlock* block, Observer* observer);
  void take_slot(const Action& action);
  void release_slot(const Action& action);
  void note_slots();
  // Slot of a micro-batch in flight.
  Slot slot_of(const Action& action) const;
  void act(const Action& action, const Schedule& schedule, PipelineClient& client,
           const StepBlock* block, Observer* observer);
  void forward(Chunk& chunk, const Action& action, PipelineClient& client, const StepBlock* block,
               Observer* observer);
  void backward(Chunk& chunk, const Action& action, PipelineClient& client,
                const Schedule& schedule, const StepBlock* block, Observer* observer);
  void send_gradient(Chunk& chunk, const Action& action);
  std::byte* activation_buffer(const Chunk& chunk, std::int64_t micro_batch) const;
  std::byte* gradient_buffer(const Chunk& chunk, std::int64_t micro_batch) const;
  // The chunk of this rank that holds a stage, or null.
  Chunk* chunk_of_stage(int stage);
  // Size of a message: shorter sequences make shorter ones.
  std::int64_t message_bytes() const { return chunks_.front().stage->boundary_bytes(); }
  bool is_first(const Chunk& chunk) const { return chunk.number == 0; }
  bool is_last(const Chunk& chunk) const { return chunk.number == placement_.stages() - 1; }

  StagePlacement placement_;
  int rank_;
  MemoryBlock received_, sent_;  // outlive the operations of chunks_
  std::vector<Chunk> chunks_;
  std::int64_t room_;  // bytes of the longest message
  MemoryPlan memory_;
  SlotTable slots_;
  std::vector<Work> activation_out_;  // by slot
  Communicator* pipeline_ = nullptr;
  Work gradient_out_[2];
  int next_out_ = 0;
  Trace* trace_ = nullptr;
  std::int64_t slot_bytes_ = 0;
};

}  // namespace trireme
