// Tests that bugs planted in the PTX of real kernels are detected, by the kernels' tests or by the
// interpreter that runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/gpu/command.h"

namespace trireme {
namespace {

struct Mistake {
  const char* name;
  const char* plant;    // TRIREME_PTX_PLANT
  const char* test;     // the test that runs the kernel
  const char* message;  // of the interpreter; null: results are wrong
};

class PlantedInPtx : public ::testing::TestWithParam<Mistake> {};

std::string run_planted(const std::string& plant, const std::string& test) {
  return run_command("TRIREME_GPU_UNDER_TEST=ptx TRIREME_PTX_PLANT='" + plant +
                     "' " TRIREME_GPU_TEST_PROGRAM " --gtest_filter='" + test + "/emulated'")
      .text;
}

TEST_P(PlantedInPtx, IsFound) {
  const std::string text = run_planted(GetParam().plant, GetParam().test);
  EXPECT_THAT(text, ::testing::HasSubstr("[ RUN      ] " + std::string(GetParam().test)));
  EXPECT_THAT(text, ::testing::HasSubstr(GetParam().message ? GetParam().message : ": Failure\n"));
}

constexpr const char* product = "Maps/OneProduct.OfWholeTilesEqualsTheCpus";
constexpr const char* attention = "Maps/Attention.OfPackedDocumentsEqualsTheCpus";
constexpr const char* norm = "Waves/Norm.NormalizesAsTheCpu";
constexpr const char* update = "Waves/OptimizerStep.OfAdamIsTheCpus";

INSTANTIATE_TEST_SUITE_P(
    Mistakes, PlantedInPtx,
    ::testing::Values(
        Mistake{"missing_barrier", "product_kernel|bar.sync|0|// ", product,
                "since the last barrier"},
        Mistake{"missing_barrier_of_attention", "forward_kernel|bar.sync|0|// ", attention,
                "since the last barrier"},
        Mistake{"missing_barrier_of_a_sum", "norm_kernel|bar.sync|1|// ", norm,
                "since the last barrier"},
        Mistake{"missing_wait", "product_kernel|cp.async.wait_group|0|// ", product, nullptr},
        Mistake{"wait_for_too_few", "keys_kernelINS_4bf16ELi64|wait_group 1|0|wait_group 9",
                attention, nullptr},
        Mistake{"operand_not_transposed", "product_kernelINS_4bf16|.x4.trans.shared|1|.x4.shared",
                product, nullptr},
        Mistake{"lanes_of_another_group", "norm_kernel|shfl.sync.bfly|1|shfl.sync.up", norm,
                nullptr},
        Mistake{"argument_beside_its_place", "product_kernel|_param_0+16]|1|_param_0+24]", product,
                nullptr},
        Mistake{"shift_by_too_much", "AdamStep|, 5;|1|, 15;", update, "an allocation of"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// Control: the same tests pass without the planted bugs.
TEST(PlantedInPtx, NothingIsFoundWhereNothingIsPlanted) {
  for (const char* test : {product, attention, norm, update})
    EXPECT_THAT(run_planted("no kernel has this name|x|1|y", test),
                ::testing::HasSubstr("[  PASSED  ]"));
}

}  // namespace
}  // namespace trireme
