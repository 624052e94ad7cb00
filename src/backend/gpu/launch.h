// Launches kernels on a queue.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>

#include "backend/gpu/language.h"
#include "backend/gpu/queue.h"

namespace trireme::gpu {

// Grid and block size of a launch; they depend on the problem only, never on the device.
struct Launch {
  Size blocks;
  int threads = 0;               // a multiple of 64
  std::size_t shared_bytes = 0;  // size of dynamic_shared_memory()
};

// Grid for `count` items of work, capped at a number of blocks that fills any device; kernels that
// use for_each() loop over the rest.
inline Launch over(std::int64_t count, int threads = 256) {
  constexpr std::int64_t most_blocks = 4096;
  const std::int64_t blocks = (count + threads - 1) / threads;
  return {.blocks = Size{static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, most_blocks))},
          .threads = threads};
}

// One block per item; count < 2^31.
inline Launch one_block_each(std::int64_t count, int threads) {
  return {.blocks = Size{static_cast<unsigned>(count)}, .threads = threads};
}

// Arguments are copied at the call; memory they point to is read when the kernel runs. An
// empty grid launches nothing.
template <class... Parameters, class... Arguments>
void launch(Queue& queue, const Launch& size, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  if (size.blocks.x == 0 || size.blocks.y == 0 || size.blocks.z == 0) return;
#if TRIREME_EMULATED
  emulated::enqueue(stream_of(queue), [=] {
    emulated::run_grid(size.blocks, static_cast<unsigned>(size.threads), size.shared_bytes,
                       [&] { kernel(static_cast<Parameters>(arguments)...); });
  });
#else
  std::tuple<Parameters...> values{static_cast<Parameters>(arguments)...};
  std::apply(
      [&](Parameters&... each) {
        void* pointers[] = {&each...};
        runtime::launch(reinterpret_cast<const void*>(kernel), size.blocks,
                        static_cast<unsigned>(size.threads), pointers, size.shared_bytes,
                        stream_of(queue));
      },
      values);
#endif
}

}  // namespace trireme::gpu
