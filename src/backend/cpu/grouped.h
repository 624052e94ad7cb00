// Products of rows sorted by group, with one weight per group: one product
// per group, over its rows.
#pragma once

#include <memory>

#include "backend/cpu/gemm.h"

namespace trireme::cpu {

template <class T>
class Grouped final : public GroupedProduct {
 public:
  Grouped(Product product, const GroupedShape& shape);
  ~Grouped() override;
  Grouped(const Grouped&) = delete;
  Grouped& operator=(const Grouped&) = delete;

  void run(Queue&, void* dst, const void* a, const void* b, const std::int32_t* offsets,
           bool accumulate, void* workspace) const override;
  void run_each(Queue&, void* made, const void* a, const void* b, const std::int32_t* offsets,
                void* workspace, const std::function<void(std::int64_t)>& take) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Same, created once and shared by all users of it while any of them holds it.
template <class T>
std::shared_ptr<const GroupedProduct> shared_grouped(Product product, const GroupedShape& shape);

}  // namespace trireme::cpu
