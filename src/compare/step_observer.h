// Condenses what a rank computes in a training step (StepValues).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "compare/graph_places.h"
#include "config/config.h"
#include "train/engine/engine.h"

namespace trireme {

// Shares of the rows of a step's batch: rows are the positions of its samples, in order.
struct BatchRows {
  std::int64_t samples = 0, seq = 0;  // of the global batch
  std::int64_t micro_batch = 0, dp = 1, dp_index = 0;
  SequenceCut cut = {};
  std::int64_t context_ranks = 1;
  std::int64_t tensor_ranks = 1, tensor_rank = 0;
  bool tensor_ranks_share_rows = false;  // sequence parallelism

  BatchRows(const Config& config, const Mesh& mesh, int rank);

  std::int64_t all() const { return samples * seq; }
  // Rows of a micro-batch on this rank, within layers and between them.
  std::int64_t within_layers() const { return micro_batch * seq / context_ranks; }
  std::int64_t between_layers() const {
    return within_layers() / (tensor_ranks_share_rows ? tensor_ranks : 1);
  }
  // The row of the batch that is row `local`, within layers, of this rank's micro-batch k.
  std::int64_t row(std::int64_t k, std::int64_t local) const;
  // Index of the first of a micro-batch's local rows, if a value has that many; -1: of no rows.
  std::int64_t first_of(std::int64_t value_rows) const;
};

class StepObserver : public Observer {
 public:
  // The engine must outlive the observer.
  StepObserver(const Engine& engine, const BatchRows& rows) : engine_(engine), rows_(rows) {}

  // Values of the following step go there.
  void begin_step(StepValues& values);
  void begin(const Stage& stage, const PassCall& call) override;
  void after(const Launch& launch) override;
  // Adds the gradients that this rank holds: after they are complete, before the update.
  void add_gradients();
  // Adds the weights and moments that this rank holds.
  void add_states(Engine& engine);

 private:
  const GraphPlaces& places_of(const Graph& graph);
  // Index among the stage's parameters of one of a graph's.
  int parameter_of(const Launch& launch, int index) const;
  void add_parameter(const Launch& launch, int input);
  void add_rows(StepValues::Entry& entry, const Value& value, std::int64_t first,
                const std::byte* data) const;

  const Engine& engine_;
  const BatchRows rows_;
  StepValues* values_ = nullptr;
  const Stage* stage_ = nullptr;                                  // of the current pass
  std::int64_t micro_batch_ = 0;                                  // of the current pass
  std::map<std::pair<const Stage*, Pass>, std::int64_t> passes_;  // begun in this step
  std::set<std::string> read_;                                    // parameters, in this step
  std::map<const Graph*, std::unique_ptr<GraphPlaces>> places_;
};

}  // namespace trireme
