// The rules of the optimizers, one file each: the step on a range of a parameter's states and, for
// rules on unsharded 2-D parameters, on a matrix.
#pragma once

#include <memory>

#include "backend/device.h"
#include "config/config.h"
#include "config/optimizers.h"

namespace trireme {

// A range of states in the type of arithmetic (Acc of the compute type), in device memory.
struct UpdateRange {
  const StepBlock* block;
  double decay;  // of weights
  void* master;
  void* moments[2];
  void* gradient;
  void* copy;  // in the compute type; null where the master is itself what is computed with
  std::int64_t count;
};

// Elementwise, so that any cut into ranges gives the same.
using RangeUpdate = void (*)(Device&, DType compute, const OptimizerConfig&, const UpdateRange&);

// The step of a rule on a whole matrix [rows, cols] of directions, in the type of arithmetic, in
// place. One shape gives one order of operations.
class MatrixStep {
 public:
  virtual ~MatrixStep() = default;
  // Device memory that run() needs for a matrix of that shape.
  virtual std::int64_t scratch_bytes(std::int64_t rows, std::int64_t cols) const = 0;
  // How long it takes, in no unit.
  virtual double cost(std::int64_t rows, std::int64_t cols) const = 0;
  virtual void run(void* matrix, std::int64_t rows, std::int64_t cols, std::byte* scratch) = 0;
};

struct UpdateRule {
  // Computes master, moments and copy from the gradient; for rules on matrices, master and copy
  // from the direction, which is stored in place of the gradient.
  RangeUpdate update;
  // Rules on matrices: first turns the gradient into the direction, with the moments;
  RangeUpdate direct = nullptr;
  // then each matrix is taken as a whole;
  std::unique_ptr<MatrixStep> (*matrix_step)(Device&, DType compute,
                                             const OptimizerConfig&) = nullptr;
  // and this rule takes the parameters that are no matrices.
  OptimizerKind rest = OptimizerKind::adamw;
};

const UpdateRule& rule_of(OptimizerKind kind);

}  // namespace trireme
