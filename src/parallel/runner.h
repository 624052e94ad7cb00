// Executes a rank's actions of a pipeline schedule by enqueueing a full step: the passes of its
// stages, segment by segment with their parameters and gradients, the messages between ranks, the
// gradient reduction and the optimizer step.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "parallel/gradients.h"
#include "parallel/parameters.h"
#include "parallel/schedule/activation_windows.h"
#include "parallel/schedule/planned_schedules.h"
#include "parallel/states/slot_table.h"
#include "parallel/trace.h"
#include "runtime/stage.h"

namespace trireme {

// Buffer counts that a rank needs for a schedule.
struct PipelineBuffers {
  struct Chunk {
    int late_slots = 1;   // micro-batches between input and weight gradients
    int activations = 0;  // received but not used yet
    int gradients = 0;
  };
  int slots = 1;  // micro-batches in flight, of all chunks together
  std::vector<Chunk> chunks;

  bool hold(const PipelineBuffers& others) const;  // all counts are at least those of `others`
  void join(const PipelineBuffers& others);        // takes the maximum of each count
};
PipelineBuffers buffers_of(const PlannedSchedule& planned, int pipeline_rank);

// Callbacks of the runner during a step, each for a chunk and a micro-batch.
class PipelineClient {
 public:
  virtual ~PipelineClient() = default;
  // Loads the inputs of the micro-batch into the slot.
  virtual void load(int chunk, int slot, std::int64_t micro_batch) = 0;
  // Called when the last stage has its results for this micro-batch.
  virtual void losses_ready(int chunk, int slot, std::int64_t micro_batch) = 0;
  // Called when all micro-batches are done and every gradient reduction has been started.
  virtual void step() = 0;
};

// A stage of this rank and all objects that its passes use. All must outlive the runner.
struct PipelineChunk {
  Stage* stage;
  Parameters* parameters;
  Gradients* gradients;
  ActivationWindows* activations = nullptr;  // null: slots hold all of them
};

class PipelineRunner {
 public:
  // All parts must be allocated before run().
  PipelineRunner(const std::vector<PipelineChunk>& parts, const StagePlacement& placement,
                 int pipeline_rank, const PipelineBuffers& buffers);

  // Memory for messages: received ones and outgoing gradients.
  const MemoryPlan& memory() const { return memory_; }
  void allocate(Communicator& pipeline);

  // Runs one step: all actions of this rank. The schedule must fit into the buffers.
  void run(const Schedule& schedule, PipelineClient& client, const StepBlock* block,
           Observer* observer = nullptr);
  // Runs the forward passes of one micro-batch without dropout, from stage to stage; the client
  // loads slot 0 of each chunk.
  void evaluate(PipelineClient& client, Observer* observer = nullptr);
  // Waits for pending sends of evaluate().
  void finish_evaluation() { activation_out_[0].wait(); }

  // Records when each action runs; null: no trace. The trace must outlive the runner.
  void set_trace(Trace* trace) { trace_ = trace; }
  // Bytes per micro-batch in flight, which the trace plots.
  void set_slot_bytes(std::int64_t bytes) { slot_bytes_ = bytes; }

 private:
  struct Chunk {
    Stage* stage = nullptr;
    Parameters* parameters = nullptr;
    Gradients* gradients = nullptr;
    ActivationWindows* activations = nullptr;
    int number = 0;  // of the stage in the model
    PipelineBuffers::Chunk buffers;
    std::int64_t activations_offset = 0, gradients_offset = 0;  // of its buffers in received_
    std::vector<Work> activation_in, gradient_in;               // by buffer
    // Slot for activation gradients. Micro-batches use the late slots round-robin.
    Slot late_slot(std::int64_t micro_batch) const {
      return {0, static_cast<int>(micro_batch % buffers.late_slots)};
    }
  };
  // Call at the start of a pass, before its input is written to the stage.
  void expect(Chunk& chunk, Pass pass, Slot slot) {
    if (chunk.activations) chunk.activations->begin(pass, slot);
  }
  // Enqueues a pass: fetches parameters before each segment, reduces gradients after it.
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
  // Returns this rank's chunk that holds a stage, or null.
  Chunk* chunk_of_stage(int stage);
  // Size of a message: proportional to the current sequence length.
  std::int64_t message_bytes() const { return chunks_.front().stage->boundary_bytes(); }
  bool is_first(const Chunk& chunk) const { return chunk.number == 0; }
  bool is_last(const Chunk& chunk) const { return chunk.number == placement_.stages() - 1; }

  StagePlacement placement_;
  int rank_;
  MemoryBlock received_, sent_;  // must outlive the operations of chunks_
  std::vector<Chunk> chunks_;
  std::int64_t room_;  // bytes of the longest possible message
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
