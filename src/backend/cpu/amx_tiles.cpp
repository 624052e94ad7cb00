// Compiled for AMX, as namespace amx, and for its emulation: amx_code() returns
// the one that may be called.
//
// Performance (docs/decisions/matmul.md): a step of k multiplies 2 x 2 tiles, which
// takes about as long as loading its four tiles from L2. So a piece of one operand (the outer)
// stays in L1 while the other streams from L2 with a hint not to displace it. All else happens
// during the multiplication, a little at each step: the next outer panel comes into L2 and the next
// sums and lines of the destination into L1, and finished sums are converted and stored. Sums leave
// their tiles one by one between the first products of the next block, so that the matrix unit
// never waits.
#include "backend/cpu/amx_tiles.h"

#include "backend/cpu/amx_instructions.h"
#include "backend/cpu/amx_writer.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t line_bytes = 64;

// Limits in steps of k. A panel's piece fits in L1 next to the stream. A chunk's packed inner
// block, and the sums of a task if k has several chunks, fit in scratch (and nearly in L2).
constexpr std::int64_t max_piece = 16, max_single_chunk = 32, max_chunk = 16;

constexpr std::int64_t inner_bytes = inner_block * max_single_chunk * step_k * 2;
constexpr std::int64_t sums_bytes = scratch_bytes - inner_bytes;

constexpr std::int64_t even_piece(std::int64_t size, std::int64_t most) {
  return ceil_div(size, ceil_div(size, most));
}

// Stores a tile of the previous block and loads, or clears, that of the next one.
template <int tile>
void exchange(float* leaving, const float* entering) {
  store<tile>(leaving + tile * tile_floats);
  if (entering) {
    load<tile>(entering + tile * tile_floats);
  } else {
    clear<tile>();
  }
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

class Runner {
 public:
  explicit Runner(const Task& task)
      : task_(task),
        all_steps_(steps_of(task.inner.k)),
        chunk_steps_(all_steps_ <= max_single_chunk ? all_steps_
                                                    : even_piece(all_steps_, max_chunk)),
        sums_(reinterpret_cast<float*>(task.scratch + inner_bytes)),
        writer_(task.dst) {}

  template <bool inner_is_a>
  void run() {
    leaving_ = {writer_.free_sums(), false, 0, 0};  // the tiles' contents are arbitrary
    const Range all = task_.inner_vectors;
    for (std::int64_t v = all.begin; v < all.end; v += inner_block) {
      const Range vectors{v, min(all.end, v + inner_block)};
      for (std::int64_t step = 0; step < all_steps_; step += chunk_steps_) {
        const Range steps{step, min(all_steps_, step + chunk_steps_)};
        TRIREME_ISA::pack(task_.scratch, steps.length() * step_bytes, task_.inner, vectors,
                          {steps.begin * step_k, min(task_.inner.k, steps.end * step_k)});
        multiply_chunk<inner_is_a>(vectors, steps);
      }
    }
    take_last_sums();
  }

 private:
  // A block whose sums are still in tiles 0 to 3, and their destination.
  struct Leaving {
    float* sums;
    bool finished;  // sums over all of k, to be moved to the destination
    std::int64_t row, col;
  };

  // A block to be multiplied.
  struct Block {
    const char *inner, *outer;  // packed panels
    std::int64_t steps;
    float* sums;       // over the pieces of k
    bool first, last;  // of these pieces
    std::int64_t row, col;
  };

  // Multiplies one chunk of k of a packed inner block by all outer panels.
  template <bool inner_is_a>
  void multiply_chunk(Range inner_vectors, Range chunk) {
    const std::int64_t inner_panels = panels_of(inner_vectors.length());
    const std::int64_t steps = chunk.length(), piece = even_piece(steps, max_piece);
    const std::int64_t outer_panel_bytes = all_steps_ * step_bytes;
    const bool keep_all_sums = chunk_steps_ < all_steps_;
    panel_lines_per_step_ = min(4, ceil_div(step_bytes / line_bytes, inner_panels));
    const char* outer_panel = task_.outer + chunk.begin * step_bytes;
    float* sums = sums_;
    for (std::int64_t v = task_.outer_vectors.begin; v < task_.outer_vectors.end;
         v += panel_vectors) {
      next_panel_ = outer_panel + outer_panel_bytes;
      for (std::int64_t begin = 0; begin < steps; begin += piece) {
        const std::int64_t count = min(piece, steps - begin);
        const bool first = chunk.begin + begin == 0;
        const bool last = chunk.begin + begin + count == all_steps_;
        for (std::int64_t i = 0; i < inner_panels; ++i) {
          const std::int64_t u = inner_vectors.begin + i * panel_vectors;
          multiply<inner_is_a>({task_.scratch + (i * steps + begin) * step_bytes,
                                outer_panel + begin * step_bytes, count, sums + i * block_floats,
                                first, last, inner_is_a ? u : v, inner_is_a ? v : u});
        }
      }
      outer_panel += outer_panel_bytes;
      if (keep_all_sums) sums += inner_panels * block_floats;
    }
  }

  // Adds a block's products to its sums, which stay in tiles 0 to 3. Tiles 4, 5 are A; 6, 7 are B.
  template <bool inner_is_a>
  void multiply(const Block& block) {
    writer_.write(active_, 32);
    const char* inner = block.inner;
    const char* outer = block.outer;
    const float* entering = block.first ? nullptr : block.sums;
    if constexpr (inner_is_a) {
      load_stream<4>(inner);
      load<6>(outer);
      exchange<0>(leaving_.sums, entering);
      multiply_add<0, 4, 6>();
      load<7>(outer + tile_bytes);
      exchange<1>(leaving_.sums, entering);
      multiply_add<1, 4, 7>();
      load_stream<5>(inner + tile_bytes);
      exchange<2>(leaving_.sums, entering);
      multiply_add<2, 5, 6>();
      exchange<3>(leaving_.sums, entering);
      multiply_add<3, 5, 7>();
    } else {
      load_stream<6>(inner);
      load<4>(outer);
      exchange<0>(leaving_.sums, entering);
      multiply_add<0, 4, 6>();
      load<5>(outer + tile_bytes);
      exchange<2>(leaving_.sums, entering);
      multiply_add<2, 5, 6>();
      load_stream<7>(inner + tile_bytes);
      exchange<1>(leaving_.sums, entering);
      multiply_add<1, 4, 7>();
      exchange<3>(leaving_.sums, entering);
      multiply_add<3, 5, 7>();
    }
    active_ =
        leaving_.finished ? writer_.wait(leaving_.row, leaving_.col) : writer_.start_waiting();
    leaving_ = {block.last ? writer_.free_sums() : block.sums, block.last, block.row, block.col};
    Beside beside(*this, block);
    beside.step();
    for (std::int64_t step = 1; step < block.steps; ++step) {
      inner += step_bytes;
      outer += step_bytes;
      if constexpr (inner_is_a) {
        load_stream<4>(inner);
        load<6>(outer);
        multiply_add<0, 4, 6>();
        load<7>(outer + tile_bytes);
        multiply_add<1, 4, 7>();
        load_stream<5>(inner + tile_bytes);
        multiply_add<2, 5, 6>();
        multiply_add<3, 5, 7>();
      } else {
        load_stream<6>(inner);
        load<4>(outer);
        multiply_add<0, 4, 6>();
        load<5>(outer + tile_bytes);
        multiply_add<2, 5, 6>();
        load_stream<7>(inner + tile_bytes);
        multiply_add<1, 4, 7>();
        multiply_add<3, 5, 7>();
      }
      beside.step();
    }
    beside.end();
  }

  // Work done during each step of a block. Holds copies, so that they stay in registers.
  class Beside {
   public:
    Beside(Runner& runner, const Block& block)
        : runner_(runner),
          next_panel_(runner.next_panel_),
          panel_lines_(runner.panel_lines_per_step_),
          next_sums_(reinterpret_cast<const char*>(block.sums + block_floats)),
          sum_lines_(block.first ? 0 : ceil_div(block_floats * 4 / line_bytes, block.steps)),
          rows_(ceil_div(32, block.steps)),
          active_(runner.active_),
          waiting_(runner.writer_.waiting_lines()) {}

    void step() {
      for (std::int64_t i = 0; i < panel_lines_; ++i, next_panel_ += line_bytes) {
        _mm_prefetch(next_panel_, _MM_HINT_T1);
      }
      for (std::int64_t i = 0; i < sum_lines_; ++i, next_sums_ += line_bytes) {
        _mm_prefetch(next_sums_, _MM_HINT_T0);
      }
      const Writer& writer = runner_.writer_;
      if (waiting_) {
        for (std::int64_t i = 0; i < rows_; ++i, waiting_ += writer.row_bytes()) {
          for (std::int64_t line = 0; line < writer.lines_per_row(); ++line) {
            __builtin_prefetch(waiting_ + line * line_bytes, 1, 3);
          }
        }
      }
      if (active_.left > 0) writer.write(active_, rows_);
    }

    void end() {
      runner_.next_panel_ = next_panel_;
      runner_.active_ = active_;
    }

   private:
    Runner& runner_;
    const char* next_panel_;
    std::int64_t panel_lines_;
    const char* next_sums_;
    std::int64_t sum_lines_;
    std::int64_t rows_;
    Rows active_;
    const char* waiting_;
  };

  void take_last_sums() {
    writer_.write(active_, 32);
    exchange<0>(leaving_.sums, nullptr);
    exchange<1>(leaving_.sums, nullptr);
    exchange<2>(leaving_.sums, nullptr);
    exchange<3>(leaving_.sums, nullptr);
    active_ = writer_.wait(leaving_.row, leaving_.col);
    writer_.write(active_, 32);
    active_ = writer_.start_waiting();
    writer_.write(active_, 32);
  }

  const Task& task_;
  std::int64_t all_steps_, chunk_steps_;
  float* sums_;
  Writer writer_;
  Rows active_;
  Leaving leaving_{};
  const char* next_panel_ = nullptr;  // next line of it to be fetched
  std::int64_t panel_lines_per_step_ = 0;
};

}  // namespace

std::int64_t max_outer_vectors(std::int64_t k) {
  if (steps_of(k) <= max_single_chunk) return std::int64_t{1} << 40;
  return sums_bytes / (inner_block * static_cast<std::int64_t>(sizeof(float)));
}

void run(const Task& task) {
  alignas(64) static constexpr TileConfig config;
  _tile_loadconfig(&config);
  Runner runner(task);
  if (task.inner.side == Side::a) {
    runner.run<true>();
  } else {
    runner.run<false>();
  }
  _tile_release();
  _mm_sfence();  // streamed results become visible before the task counts as done
}

}  // namespace trireme::cpu::TRIREME_ISA
