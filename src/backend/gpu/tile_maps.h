// Register layouts of 16 x 16 tiles: the element in each lane and register, for the three kinds of
// matrix units. Left operands are rows x steps (the summed dimension), right operands are steps x
// columns. A lane's sums are the cross product of some rows and some columns; `adjacent_sums` that
// follow each other lie beside each other in a row.
#pragma once

namespace trireme::gpu {

// Two adjacent mma.sync m16n8k16; waves of 32.
struct MmaMap {
  static constexpr int operands = 8, sums = 8, adjacent_sums = 2;
  static constexpr int left_row(int lane, int i) { return lane / 4 + 8 * (i / 2 % 2); }
  static constexpr int left_step(int lane, int i) { return lane % 4 * 2 + i % 2 + 8 * (i / 4); }
  static constexpr int right_step(int lane, int i) {
    return lane % 4 * 2 + i % 2 + 8 * (i / 2 % 2);
  }
  static constexpr int right_column(int lane, int i) { return lane / 4 + 8 * (i / 4); }

  static constexpr int sum_rows = 2, sum_columns = 4;  // per lane
  static constexpr int row_slot(int i) { return i / 2 % 2; }
  static constexpr int column_slot(int i) { return i % 2 + 2 * (i / 4); }
  static constexpr int sum_row(int lane, int slot) { return lane / 4 + 8 * slot; }
  static constexpr int sum_column(int lane, int slot) {
    return lane % 4 * 2 + slot % 2 + 8 * (slot / 2);
  }
};

// v_mfma_f32_16x16x16; waves of 64.
struct MfmaMap {
  static constexpr int operands = 4, sums = 4, adjacent_sums = 1;
  static constexpr int left_row(int lane, int) { return lane % 16; }
  static constexpr int left_step(int lane, int i) { return 4 * (lane / 16) + i; }
  static constexpr int right_step(int lane, int i) { return 4 * (lane / 16) + i; }
  static constexpr int right_column(int lane, int) { return lane % 16; }

  static constexpr int sum_rows = 4, sum_columns = 1;
  static constexpr int row_slot(int i) { return i; }
  static constexpr int column_slot(int) { return 0; }
  static constexpr int sum_row(int lane, int slot) { return 4 * (lane / 16) + slot; }
  static constexpr int sum_column(int lane, int) { return lane % 16; }
};

// v_wmma_f32_16x16x16 of gfx11; waves of 32, where lanes 16 to 31 repeat the
// operands of the lower half.
struct WmmaMap {
  static constexpr int operands = 16, sums = 8, adjacent_sums = 1;
  static constexpr int left_row(int lane, int) { return lane % 16; }
  static constexpr int left_step(int, int i) { return i; }
  static constexpr int right_step(int, int i) { return i; }
  static constexpr int right_column(int lane, int) { return lane % 16; }

  static constexpr int sum_rows = 8, sum_columns = 1;
  static constexpr int row_slot(int i) { return i; }
  static constexpr int column_slot(int) { return 0; }
  static constexpr int sum_row(int lane, int slot) { return 2 * slot + lane / 16; }
  static constexpr int sum_column(int lane, int) { return lane % 16; }
};

}  // namespace trireme::gpu
