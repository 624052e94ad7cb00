// Tests of interactions of lanes, warps and memory, and of the errors for illegal ones.
#include <cmath>
#include <limits>

#include "backend/gpu/ptx/ptx_test.h"
#include "backend/gpu/tile_maps.h"
#include "base/dtype.h"

namespace trireme::ptx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Divergence, LanesMeetAgainBehindLoopsAndBranches) {
  // Lane l loops l times; then all lanes participate in a shuffle.
  const Body body{
      "mov.u32 %r0, 0;\nmov.u32 %r2, %r1;\n"
      "LOOP:\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra DONE;\n"
      "add.u32 %r0, %r0, 3;\nsub.u32 %r2, %r2, 1;\nbra LOOP;\n"
      "DONE:\nshfl.sync.bfly.b32 %r0, %r0, 1, 31, -1;"};
  const auto found = results(body);
  for (std::uint32_t l = 0; l < 32; ++l) EXPECT_EQ(found[l], 3 * (l ^ 1));
}

TEST(Divergence, AShuffleThatSomeLanesMissIsRefused) {
  EXPECT_THAT(refusal({"setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;"}),
              HasSubstr("some lanes pass by"));
  EXPECT_THAT(refusal({"setp.lt.u32 %p1, %r1, 16;\n@!%p1 bra OUT;\n"
                       "shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;\nbra END;\nOUT:\n"
                       "shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;\nEND:"}),
              HasSubstr("wait for others that never come"));
  EXPECT_THAT(refusal({"setp.lt.u32 %p1, %r1, 16;\n@!%p1 bra OUT;\n"
                       "shfl.sync.idx.b32 %r0, %r1, 20, 31, 0xffff;\nOUT:"}),
              HasSubstr("reads lane 20, which takes no part"));
}

TEST(Shuffles, ReachTheLanesThatTheyName) {
  const auto up = results({"shfl.sync.up.b32 %r0|%p1, %r1, 1, 0, -1;\n@!%p1 mov.u32 %r0, 99;"});
  EXPECT_EQ(up[0], 99u);
  EXPECT_EQ(up[31], 30u);
  const auto down = results({"shfl.sync.down.b32 %r0, %r1, 2, 31, -1;"});
  EXPECT_EQ(down[3], 5u);
  EXPECT_EQ(down[31], 31u);
  const auto segments = results({"shfl.sync.idx.b32 %r0, %r1, 3, 0x181f, -1;"});  // of 8 lanes
  EXPECT_EQ(segments[17], 19u);
  EXPECT_EQ(results({"setp.lt.u32 %p1, %r1, 5;\nvote.sync.ballot.b32 %r0, %p1, -1;"})[9], 31u);
}

constexpr const char* shared_word = ".shared .align 16 .b8 memory[1024];\n";
// Each thread stores its index for a thread of the other warp.
std::string exchange(const std::string& between) {
  return "mov.u32 %r2, memory;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r4, %r2, %r3;\n"
         "st.shared.u32 [%r4], %r1;\n" +
         between + "xor.b32 %r5, %r3, 128;\nadd.u32 %r5, %r2, %r5;\nld.shared.u32 %r0, [%r5];";
}

TEST(Barriers, OrderSharedMemory) {
  for (const std::uint64_t order : {0, 1, 2}) {
    const auto found = results({exchange("bar.sync 0;\n"), shared_word, 64, order});
    for (std::uint32_t t = 0; t < 64; ++t) EXPECT_EQ(found[t], t ^ 32);
  }
}

TEST(Barriers, OneThatIsMissingIsARaceInEveryOrder) {
  for (const std::uint64_t order : {0, 1, 2, 3})
    EXPECT_THAT(refusal({exchange(""), shared_word, 64, order}),
                AllOf(HasSubstr("since the last barrier"), HasSubstr("kernel test"),
                      HasSubstr("PTX line")));
}

TEST(Barriers, ThatSomeMissAreRefused) {
  EXPECT_THAT(refusal({"setp.lt.u32 %p1, %r1, 7;\n@%p1 bar.sync 0;"}),
              HasSubstr("a barrier that lanes pass by"));
  EXPECT_THAT(refusal({"setp.lt.u32 %p1, %r1, 32;\n@%p1 bra B;\nbar.sync 0;\nbra C;\nB:\n"
                       "bar.sync 0;\nC:",
                       "", 64}),
              HasSubstr("other warps wait at another barrier"));
}

TEST(SharedMemory, BeginsAsNaN) {
  const auto found = results({"mov.u32 %r2, memory;\nld.shared.u32 %r0, [%r2+16];", shared_word});
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(found[0])));
}

TEST(Accesses, AreHeldAgainstWhatIsThere) {
  EXPECT_THAT(refusal({"ld.global.u32 %r0, [%rd1+256];"}),
              HasSubstr("a read of byte 256 to 260 of an allocation of 256 bytes"));
  EXPECT_THAT(refusal({"st.global.u32 [%rd1+-4], %r1;"}),
              HasSubstr("a write to 4 bytes in front of an allocation"));
  EXPECT_THAT(refusal({"ld.global.u32 %r0, [%rd1+2];"}), HasSubstr("not aligned"));
  EXPECT_THAT(refusal({"mov.u64 %rd2, 4096;\nld.global.u32 %r0, [%rd2];"}),
              HasSubstr("an address that is not the device's"));
  EXPECT_THAT(refusal({"mov.u32 %r2, memory;\nld.shared.u32 %r0, [%r2+1024];", shared_word}),
              HasSubstr("outside of the block's shared memory"));
  EXPECT_THAT(refusal({"mad.wide.u32 %rd2, %r1, 16, %rd1;\nld.global.v4.u32 {%r2,%r3,%r4,%r5}, "
                       "[%rd2];"}),
              HasSubstr("thread 16,"));
}

TEST(Accesses, ToReleasedMemoryAreRefused) {
  std::uint64_t address = 0;
  {
    const Buffer released(64);
    address = released.address();
  }
  EXPECT_THAT(
      refusal({"mov.u64 %rd2, " + std::to_string(address) + ";\nld.global.u32 %r0, [%rd2];"}),
      HasSubstr("memory that was released"));
}

TEST(Accesses, OfTheHostEndTheProgram) {
  const Buffer buffer(64);
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(buffer.address()) = 1, "");
}

TEST(Atomics, AddUpOverLanesAndWarps) {
  const Buffer buffer(8);
  *buffer.as<std::int64_t>() = 5;
  run({"cvt.u64.u32 %rd2, %r1;\natom.global.add.u64 %rd3, [%rd1], %rd2;", "", 64}, buffer);
  EXPECT_EQ(*buffer.as<std::int64_t>(), 5 + 63 * 64 / 2);
  run({"cvt.s64.s32 %rd2, %r1;\nneg.s64 %rd2, %rd2;\nred.global.min.s64 [%rd1], %rd2;"}, buffer);
  EXPECT_EQ(*buffer.as<std::int64_t>(), -31);
}

// Two 16-byte copies per lane; the second reads no bytes and is filled with zeros.
std::string copies(const std::string& wait) {
  return "mov.u32 %r2, memory;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r2, %r2, %r3;\n"
         "cp.async.cg.shared.global [%r2], [%rd1], 16;\ncp.async.commit_group;\n"
         "add.u32 %r4, %r2, 512;\n"
         "cp.async.cg.shared.global [%r4], [%rd1], 16, 0;\ncp.async.commit_group;\n" +
         wait + "\nld.shared.u32 %r0, [%r2+4];\nld.shared.u32 %r5, [%r4];";
}
std::vector<std::uint32_t> after(const std::string& wait, std::uint64_t order = 0) {
  const Buffer buffer(128);
  for (std::uint32_t i = 0; i < 32; ++i) buffer.as<std::uint32_t>()[i] = 100 + i;
  run({copies(wait) + "\nbar.warp.sync -1;\nst.global.v2.u32 [%rd1+8], {%r0, %r5};", shared_word,
       32, order},
      buffer);
  return {buffer.as<std::uint32_t>()[2], buffer.as<std::uint32_t>()[3]};
}

TEST(LateCopies, ArriveWhenTheyAreWaitedFor) {
  EXPECT_EQ(after("cp.async.wait_group 0;"), (std::vector<std::uint32_t>{101, 0}));
  EXPECT_EQ(after("cp.async.wait_group 1;"), (std::vector<std::uint32_t>{101, ~0u}));
  EXPECT_EQ(after(""), (std::vector<std::uint32_t>{~0u, ~0u}));
  for (const std::uint64_t order : {1, 2, 3})
    EXPECT_EQ(after("cp.async.wait_all;", order), (std::vector<std::uint32_t>{101, 0}));
}

// Multiplies two tiles, loaded with the lane mapping of backend/gpu/tile_maps.h.
TEST(Matrices, MultiplyByTheMapsOfTheKernels) {
  using Map = gpu::MmaMap;
  float a[16][16], b[16][16];
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j)
      a[i][j] = static_cast<float>((7 * i + 3 * j) % 11 - 5),
      b[i][j] = static_cast<float>((5 * i + j) % 7 - 3);
  const Buffer buffer(32 * 48);
  auto* const words =
      buffer.as<std::uint16_t>();  // for each lane: 8 of a, 8 of b, room for 4 floats
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < 8; ++i) {
      words[24 * l + i] = bf16(a[Map::left_row(l, i)][Map::left_step(l, i)]).bits;
      words[24 * l + 8 + i] = bf16(b[Map::right_step(l, i)][Map::right_column(l, i)]).bits;
    }
  }
  for (const int half : {0, 1}) {
    run({"mad.wide.u32 %rd2, %r1, 48, %rd1;\n"
         "ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd2];\n"
         "ld.global.v2.u32 {%r6,%r7}, [%rd2+" +
         std::to_string(16 + 8 * half) +
         "];\n"
         "mov.f32 %f1, 0f3F800000;\n"
         "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2,%f3,%f4,%f5}, "
         "{%r2,%r3,%r4,%r5}, {%r6,%r7}, {%f1,%f1,%f1,%f1};\n"
         "st.global.v4.f32 [%rd2+32], {%f2,%f3,%f4,%f5};"},
        buffer);
    for (int l = 0; l < 32; ++l) {
      for (int e = 0; e < 4; ++e) {
        const int slot = e + 4 * half;
        const int row = Map::sum_row(l, Map::row_slot(slot));
        const int column = Map::sum_column(l, Map::column_slot(slot));
        float sum = 1;
        for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
        EXPECT_EQ(buffer.as<float>()[12 * l + 8 + e], sum) << row << ", " << column;
      }
    }
  }
}

TEST(Matrices, AreLoadedByRowsAndTransposed) {
  // Element (r, c) of matrix m is 64 m + 8 r + c.
  const std::string fill =
      "mov.u32 %r2, memory;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r2, %r2, %r3;\nshl.b32 %r4, %r1, 3;\n"
      "mad.lo.u32 %r5, %r4, 65537, 65536;\nadd.u32 %r6, %r5, 131074;\nadd.u32 %r7, %r6, 131074;\n"
      "add.u32 %r8, %r7, 131074;\nst.shared.v4.u32 [%r2], {%r5,%r6,%r7,%r8};\n";
  const auto plain = results(
      {fill + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9,%r10,%r0,%r11}, [%r2];", shared_word});
  EXPECT_EQ(plain[13], (128u + 8 * 3 + 3) << 16 | (128u + 8 * 3 + 2));
  const auto transposed =
      results({fill + "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r9,%r10,%r0,%r11}, [%r2];",
               shared_word});
  EXPECT_EQ(transposed[13], (128u + 8 * 3 + 3) << 16 | (128u + 8 * 2 + 3));
}

TEST(Decoding, StopsAtWhatItDoesNotKnow) {
  EXPECT_THAT(refusal({"tanh.approx.bf16x2 %r0, %r1;"}),
              AllOf(HasSubstr("an instruction that this interpreter does not know"),
                    HasSubstr("tanh.approx.bf16x2 %r0, %r1")));
  EXPECT_THAT(refusal({"add.rn.relu.f32 %f0, %f1, %f2;"}), HasSubstr("does not know"));
  EXPECT_THAT(refusal({"add.s32 %r0, %rd1, 1;"}), HasSubstr("%rd1 is not of 32 bits"));
}

}  // namespace
}  // namespace trireme::ptx
