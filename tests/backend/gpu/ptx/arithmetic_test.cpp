// Tests of the results of single instructions.
#include <cmath>
#include <limits>

#include "backend/gpu/ptx/contract.h"
#include "backend/gpu/ptx/ptx_test.h"

namespace trireme::ptx {
namespace {

// Formats a float like "0f3F800000".
std::string literal(float x) {
  char text[16];
  std::snprintf(text, sizeof text, "0f%08X", std::bit_cast<std::uint32_t>(x));
  return text;
}
float of_floats(const std::string& operation, const std::vector<float>& values) {
  std::string text = operation + " %f0";
  for (const float x : values) text += ", " + literal(x);
  return float_result(text + ";");
}

TEST(Integers, WrapShiftAndDivideAsTheProcessor) {
  EXPECT_EQ(result("add.s32 %r0, 2147483647, 1;"), 0x80000000u);
  EXPECT_EQ(result("mul.hi.s32 %r0, -2, 3;"), 0xffffffffu);
  EXPECT_EQ(result("mul.hi.u32 %r0, -2, 3;"), 2u);
  EXPECT_EQ(result("mad.lo.s32 %r0, 7, -3, 1;"), static_cast<std::uint32_t>(-20));
  EXPECT_EQ(result("shl.b32 %r0, 1, 32;"), 0u);
  EXPECT_EQ(result("shr.s32 %r0, -8, 40;"), 0xffffffffu);
  EXPECT_EQ(result("shr.u32 %r0, -8, 2;"), 0x3ffffffeu);
  EXPECT_EQ(result("div.s32 %r0, -7, 2;"), static_cast<std::uint32_t>(-3));
  EXPECT_EQ(result("rem.s32 %r0, -7, 2;"), static_cast<std::uint32_t>(-1));
  EXPECT_EQ(result("div.u32 %r0, 5, 0;"), 0xffffffffu);
  EXPECT_EQ(result("min.u32 %r0, -1, 3;"), 3u);
  EXPECT_EQ(result("min.s32 %r0, -1, 3;"), 0xffffffffu);
}

TEST(Integers, FieldsBytesAndFunnels) {
  EXPECT_EQ(result("bfe.u32 %r0, 0xabcd1234, 8, 12;"), 0xd12u);
  EXPECT_EQ(result("bfe.s32 %r0, 0x00000f00, 8, 4;"), 0xffffffffu);
  EXPECT_EQ(result("bfi.b32 %r0, 0x5, 0xffffffff, 4, 4;"), 0xffffff5fu);
  EXPECT_EQ(result("prmt.b32 %r0, 0x44332211, 0x88776655, 0x7531;"), 0x88664422u);
  EXPECT_EQ(result("prmt.b32 %r0, 0x00008000, 0, 0x4449;"), 0x000000ffu);
  EXPECT_EQ(result("shf.l.wrap.b32 %r0, 0x80000000, 1, 33;"), 3u);
  EXPECT_EQ(result("shf.r.clamp.b32 %r0, 1, 0x80000000, 40;"), 0x80000000u);
  EXPECT_EQ(result("lop3.b32 %r0, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96;"),
            0xf0f0f0f0u ^ 0xccccccccu ^ 0xaaaaaaaau);
  EXPECT_EQ(result("popc.b32 %r0, 0xff00ff00;"), 16u);
  EXPECT_EQ(result("clz.b32 %r0, 0x00010000;"), 15u);
}

TEST(Floats, RoundAsAsked) {
  const float tiny = 0x1p-30f;
  EXPECT_EQ(of_floats("add.rn.f32", {1, tiny}), 1);
  EXPECT_EQ(of_floats("add.rp.f32", {1, tiny}), std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(of_floats("add.rm.f32", {1, -tiny}), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(of_floats("add.rz.f32", {-1, tiny}), -std::nextafter(1.0f, 0.0f));
  // The product alone rounds to 1: only a fused multiply-add keeps the rest.
  const float a = 1 + 0x1p-12f, b = 1 - 0x1p-12f;
  EXPECT_EQ(of_floats("fma.rn.f32", {a, b, -1}), -0x1p-24f);
  EXPECT_EQ(of_floats("fma.rm.f32", {1 + 0x1p-23f, 1, 0x1p23f}), 0x1p23f + 1);
  EXPECT_EQ(of_floats("fma.rm.f32", {-0.25f, 1, 0x1p23f}), 0x1p23f - 0.5f);
  EXPECT_EQ(of_floats("mul.rz.f32", {1 + 0x1p-23f, 1 + 0x1p-23f}), 1 + 0x1p-22f);
}

TEST(Floats, TreatNaNZerosAndSmallNumbersAsTheProcessor) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(of_floats("min.f32", {nan, 3}), 3);
  EXPECT_EQ(of_floats("max.f32", {2, nan}), 2);
  EXPECT_TRUE(std::isnan(of_floats("max.NaN.f32", {2, nan})));
  EXPECT_FALSE(std::signbit(of_floats("max.f32", {-0.0f, 0.0f})));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(of_floats("add.f32", {nan, 1})), 0x7fffffffu);
  const float small = 0x1p-130f;
  EXPECT_EQ(of_floats("mul.f32", {small, 1}), small);
  EXPECT_EQ(of_floats("mul.ftz.f32", {small, 1}), 0);
  EXPECT_EQ(of_floats("fma.rn.sat.f32", {2, 3, 0}), 1);
  EXPECT_EQ(of_floats("copysign.f32", {-1, 5}), -5);
}

TEST(Floats, ApproximationsAreOffByLittleAndExactWhereTheyCanBe) {
  EXPECT_EQ(of_floats("ex2.approx.f32", {-3}), 0.125f);
  EXPECT_EQ(of_floats("rcp.approx.ftz.f32", {0.25f}), 4);
  EXPECT_EQ(of_floats("lg2.approx.f32", {1}), 0);
  EXPECT_EQ(of_floats("ex2.approx.ftz.f32", {-200}), 0);
  int different = 0;
  for (int i = 0; i < 50; ++i) {
    const float x = 0.37f + 0.11f * static_cast<float>(i), exact = std::exp2(x);
    const float approximated = of_floats("ex2.approx.f32", {x});
    EXPECT_NEAR(approximated / exact, 1, 0x1p-21);
    different += approximated != exact;
  }
  EXPECT_GT(different, 0);
}

TEST(Contraction, FusesWhatNamesNoRounding) {
  const auto fused = [](const std::string& text) {
    ModuleText module = parse(kernel_text({text}));
    parse_body(module.kernels[0]);
    return contract(module.kernels[0]);
  };
  EXPECT_EQ(fused("mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f5, %f1;"), 1);
  EXPECT_EQ(fused("mul.rn.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f5, %f1;"), 0);
  EXPECT_EQ(fused("mul.f32 %f1, %f2, %f3;\nadd.rn.f32 %f4, %f5, %f1;"), 0);
  EXPECT_EQ(fused("mul.f32 %f1, %f2, %f3;\nmov.f32 %f2, %f7;\nadd.f32 %f4, %f5, %f1;"), 0);
  EXPECT_EQ(fused("mul.f32 %f1, %f2, %f3;\nL:\nadd.f32 %f4, %f5, %f1;"), 0);
}

TEST(Conversions, RoundSaturateAndExtend) {
  EXPECT_EQ(result("cvt.rni.s32.f32 %r0, 0f40200000;"), 2u);  // 2.5
  EXPECT_EQ(result("cvt.rpi.s32.f32 %r0, 0f40200000;"), 3u);
  EXPECT_EQ(result("cvt.rzi.s32.f32 %r0, 0fC0200000;"), static_cast<std::uint32_t>(-2));
  EXPECT_EQ(result("cvt.rzi.u32.f32 %r0, 0fC0200000;"), 0u);
  EXPECT_EQ(result("cvt.rzi.s32.f32 %r0, 0f7F800000;"), 0x7fffffffu);
  EXPECT_EQ(result("cvt.rzi.s32.f32 %r0, 0f7FC00000;"), 0u);
  EXPECT_EQ(result("mov.u32 %r2, 0x1ff;\ncvt.s32.s8 %r0, %r2;"), 0xffffffffu);
  EXPECT_EQ(result("mov.u32 %r2, 0x1ff;\ncvt.u32.u8 %r0, %r2;"), 0xffu);
  EXPECT_EQ(result("mov.u32 %r2, 300;\ncvt.sat.u8.u32 %r0, %r2;"), 0xffu);
  EXPECT_EQ(float_result("mov.s64 %rd2, -16777217;\ncvt.rn.f32.s64 %f0, %rd2;"), -16777216.0f);
  EXPECT_EQ(float_result("cvt.sat.f32.f32 %f0, 0f40000000;"), 1);
  // 1 + 2^-8 is halfway between two bf16 numbers, 1 + 2^-11 between two fp16 ones: ties to even.
  EXPECT_EQ(result("cvt.rn.bf16.f32 %rs0, 0f3F808000;\ncvt.u32.u16 %r0, %rs0;"), 0x3f80u);
  EXPECT_EQ(result("cvt.rn.f16.f32 %rs0, 0f3F801000;\ncvt.u32.u16 %r0, %rs0;"), 0x3c00u);
  EXPECT_EQ(result("cvt.rn.f16.f32 %rs0, 0f7FC00000;\ncvt.u32.u16 %r0, %rs0;"), 0x7fffu);
  EXPECT_EQ(float_result("mov.u16 %rs0, 0x0001;\ncvt.f32.f16 %f0, %rs0;"), 0x1p-24f);
  EXPECT_EQ(result("cvt.rn.bf16x2.f32 %r0, 0f3F808000, 0f7FC00000;"), 0x3f807fffu);
  EXPECT_EQ(result("cvt.rn.f16x2.f32 %r0, 0f40000000, 0f3F801000;"), 0x40003c00u);
}

TEST(Predicates, CompareAndChoose) {
  EXPECT_EQ(result("setp.lt.s32 %p1, -1, 0;\nselp.b32 %r0, 5, 6, %p1;"), 5u);
  EXPECT_EQ(result("setp.lt.u32 %p1, -1, 0;\nselp.b32 %r0, 5, 6, %p1;"), 6u);
  EXPECT_EQ(result("setp.neu.f32 %p1, 0f7FC00000, 0f00000000;\nselp.b32 %r0, 5, 6, %p1;"), 5u);
  EXPECT_EQ(result("setp.ne.f32 %p1, 0f7FC00000, 0f00000000;\nselp.b32 %r0, 5, 6, %p1;"), 6u);
  EXPECT_EQ(result("setp.eq.s32 %p1, 1, 2;\nsetp.eq.or.s32 %p2|%p3, 1, 2, %p1;\n"
                   "selp.b32 %r0, 5, 6, %p3;"),
            5u);
  EXPECT_EQ(result("mov.u32 %r0, 1;\nmov.pred %p1, 0;\n@%p1 mov.u32 %r0, 2;\n@!%p1 add.s32 %r0, "
                   "%r0, 6;"),
            7u);
}

}  // namespace
}  // namespace trireme::ptx
