// Orthogonalization of a matrix by Newton-Schulz iterations (Jordan et al. 2024; the quintic
// coefficients are those of NVIDIA's Emerging-Optimizers), scaled to the update's size.
//
// Products are computed in bf16 if the run computes in bf16, otherwise in the arithmetic type. The
// norm is an exact sum, and the order of operations depends only on the matrix shape: equal
// directions give equal bits on any rank.
#pragma once

#include <map>
#include <utility>

#include "optim/rules.h"

namespace trireme {

class NewtonSchulz final : public MatrixStep {
 public:
  NewtonSchulz(Device& device, DType compute, const OptimizerConfig& config);

  std::int64_t scratch_bytes(std::int64_t rows, std::int64_t cols) const override;
  double cost(std::int64_t rows, std::int64_t cols) const override;
  void run(void* matrix, std::int64_t rows, std::int64_t cols, std::byte* scratch) override;

  // Scale of the update of a matrix [out, in].
  static double scale(const OptimizerConfig& config, std::int64_t out, std::int64_t in);

 private:
  // Products for a matrix x [short, long]: x x^T, its square, and a square matrix times x.
  struct Products {
    std::shared_ptr<const LinearProduct> gram, square, times;
  };
  const Products& products(std::int64_t shorter, std::int64_t longer);
  std::int64_t workspace(std::int64_t shorter, std::int64_t longer) const;

  Device& device_;
  DType type_;  // of the products
  const OptimizerConfig config_;
  std::map<std::pair<std::int64_t, std::int64_t>, Products> products_;
};

}  // namespace trireme
