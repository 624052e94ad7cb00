// Update rules of the optimizers, one file each: the step on a range of a parameter's states and,
// for rules on unsharded 2-D parameters, on a matrix.
#pragma once

#include <memory>

#include "backend/device.h"
#include "config/config.h"
#include "config/optimizers.h"

namespace trireme {

// A range of states in the arithmetic type (Acc of the compute type), in device memory.
struct UpdateRange {
  const StepBlock* block;
  double decay;                        // of weights
  double lr_ratio = 1, eps_ratio = 1;  // to the block's learning rate and the rule's epsilon
  void* master;
  void* moments[2];
  void* gradient;
  void* copy;  // in the compute type; null if the master is the compute copy
  std::int64_t count;
};

// Elementwise: the result does not depend on the split into ranges.
using RangeUpdate = void (*)(Device&, DType compute, const OptimizerConfig&, const UpdateRange&);

// In-place step of a rule on a full matrix [rows, cols] of directions, in the arithmetic type. The
// order of operations depends only on the shape.
class MatrixStep {
 public:
  virtual ~MatrixStep() = default;
  // Device memory that run() needs for a matrix of that shape.
  virtual std::int64_t scratch_bytes(std::int64_t rows, std::int64_t cols) const = 0;
  // Relative cost, without a unit.
  virtual double cost(std::int64_t rows, std::int64_t cols) const = 0;
  virtual void run(void* matrix, std::int64_t rows, std::int64_t cols, std::byte* scratch) = 0;
};

struct UpdateRule {
  // Computes master, moments and copy from the gradient; for rules on matrices, master and copy
  // from the direction, which is stored in place of the gradient.
  RangeUpdate update;
  // Rules on matrices: first converts the gradient to the direction, using the moments;
  RangeUpdate direct = nullptr;
  // then processes each matrix as a whole;
  std::unique_ptr<MatrixStep> (*matrix_step)(Device&, DType compute,
                                             const OptimizerConfig&) = nullptr;
  // this rule handles the parameters that are not matrices.
  OptimizerKind rest = OptimizerKind::adamw;
};

const UpdateRule& rule_of(OptimizerKind kind);

}  // namespace trireme
