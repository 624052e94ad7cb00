#!/usr/bin/env bash
# Plants everything that scripts/check-gpu-words looks for in a small tree, and expects it to be reported.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/expect.sh"
check=("$here/../scripts/check-gpu-words" "$scratch")

# A valid tree: the words occur where they may, in comments, and as parts of other words.
fresh() {
  rm -rf "${scratch:?}"/*
  mkdir -p "$scratch"/backend/gpu/{vendor,kernels,emulated} "$scratch"/{base,config}
  cat >"$scratch/backend/gpu/vendor/language.h" <<'END'
#include <cuda_runtime_api.h>
GPU_FN float shuffle(float v, int from) { return __shfl_sync(0xffffffffu, v, from, 32); }
GPU_FN void atomic_add(std::int64_t* to, std::int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
END
  printf '#if TRIREME_CUDA\nusing TileMap = MmaMap;\n#endif\n' >"$scratch/backend/gpu/tile.h"
  printf 'GPU_KERNEL(64)\nk(float* x) {\n  x[0] = 1;  // not cudaMalloc, not atomicAdd(float*)\n  atomic_add(counts + id, 1);\n}\n' \
    >"$scratch/backend/gpu/kernels/k.cpp"
  echo 'const std::uint64_t low = bits & 0xffffffff, shippingHipster = 0; auto kind = DeviceKind::cuda;' >"$scratch/base/mask.cpp"
  echo 'one_of({"cpu", "cuda", "hip", "--enable-cuda-graph", "torch.cuda.is_available"})' >"$scratch/config/fields.cpp"
}

# planted FILE LINE: adds LINE to FILE and expects it to be found there.
planted() {
  fresh
  printf '\n%s\n' "$2" >>"$scratch/$1"
  expect 1 "src/$1:$(wc -l <"$scratch/$1"):" "$2"
}

fresh && expect 0 ''
kernel=backend/gpu/kernels/k.cpp
for line in 'cudaMalloc(&p, n);' 'return hipSuccess;' '#include <cuda_bf16.h>' '#include <hip/hip_runtime.h>' \
  '__nv_bfloat16 x;' 'hip_bfloat16 x;' '__half2 x;' 'v = __shfl_xor_sync(mask, v, 1);' 'v = __shfl_down(v, 1);' \
  'const int w = warpSize;' '__syncwarp();' '  __syncthreads();' 'constexpr unsigned all = 0xffffffff;' \
  'constexpr unsigned all = 0xFFFFFFFFu;' 'const int i = threadIdx.x;' '__shared__ float s[4];' \
  '__builtin_amdgcn_wave_barrier();' 'asm volatile("bar.sync 0;");' '#if TRIREME_HIP' '#ifdef __CUDA_ARCH__' \
  'atomicAdd(counts, 1);' 'ncclAllReduce(a, b, n);' 'cublasLtCreate(&h);'; do
  planted "$kernel" "$line"
done
for line in 'cudaStream_t stream;' '#include <hip/hip_runtime_api.h>' 'std::atomic<float> total;'; do
  planted base/mask.cpp "$line"
done
for line in 'GPU_FN void atomic_add(float* to, float value) {' '  atomicAdd(reinterpret_cast<float*>(to), value);' \
  'asm("red.global.add.f32 [%0], %1;");' 'asm("atom.global.add.noftz.bf16 %0, [%1], %2;");' 'unsafeAtomicAdd(to, value);' \
  '__builtin_amdgcn_global_atomic_fadd_f32(to, value);'; do
  planted backend/gpu/vendor/language.h "$line"
done
planted backend/gpu/emulated/language.h 'inline void atomic_add(double* to, double value) {'
planted backend/gpu/emulated/language.h 'std::atomic_ref<float>(*to) += value;'
exit $failed
