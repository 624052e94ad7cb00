// copies.h with NVIDIA's cp.async; plain synchronous copies elsewhere.
#pragma once

namespace trireme::gpu {

#if TRIREME_CUDA

inline constexpr int copy_stages = 3;

class Copies {
 public:
  // Copies 16 bytes, or writes zeros if not valid; from must be readable in both cases.
  template <class T>
  GPU_FN void copy_pack(T* to, const T* from, bool valid) {
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
  }
  // Copies 4 bytes.
  GPU_FN void copy_word(float* to, const float* from, bool valid) {
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from),
                 "r"(valid ? 4 : 0)
                 : "memory");
  }
  GPU_FN void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  // Waits for all groups but the newest `groups`.
  template <int groups>
  GPU_FN void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
  }
};

#else

inline constexpr int copy_stages = 2;

class Copies {
 public:
  template <class T>
  GPU_FN void copy_pack(T* to, const T* from, bool valid) {
    store_pack(to, valid ? load_pack(from) : Pack<T, pack_width<T> >{});
  }
  GPU_FN void copy_word(float* to, const float* from, bool valid) { *to = valid ? *from : 0.0f; }
  GPU_FN void commit() {}
  template <int groups>
  GPU_FN void wait_for_all_but() {}
};

#endif

}  // namespace trireme::gpu
