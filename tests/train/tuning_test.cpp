// Tests of the record of a library's chosen algorithms, and of how ranks agree on one.
#include "train/engine/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/transport.h"
#include "train/local_ranks.h"
#include "wrapped_device.h"

namespace trireme {
namespace {

using testing::HasSubstr;

const ProductKey everywhere{Product::forward, true, DType::bf16, 64, 32, 96};
const ProductKey bytes{Product::input_grad,
                       false,
                       DType::bf16,
                       64,
                       32,
                       96,
                       {Fp8Type::e5m2, Fp8Type::e4m3, Fp8Recipe::blockwise}};
const ProductKey head{Product::weight_grad, false, DType::bf16, 64, 32, 512};

LibraryChoices choices(std::map<ProductKey, std::string> algorithms,
                       const std::string& version = "1.0") {
  return {"a \"GPU\"", "a library " + version, std::move(algorithms)};
}

// A device that has chosen some algorithms, and stores those that it is told to use.
class ChoosingDevice final : public testing_device::WrappedDevice {
 public:
  explicit ChoosingDevice(LibraryChoices own) : own_(std::move(own)) {}

  void around(const char*, const std::function<void()>& work) override { work(); }
  LibraryChoices choices() const override { return own_; }
  void take(const LibraryChoices& taken) override { taken_ = taken; }

  LibraryChoices own_, taken_;
};

TEST(Tuning, RecordsAreReadAsTheyAreWritten) {
  const LibraryChoices all = choices({{everywhere, "5ca1ab1e"}, {head, "own"}, {bytes, "8b17"}});
  const LibraryChoices read = parse_choices(to_json(all), "a file");
  EXPECT_EQ(read.device, all.device);
  EXPECT_EQ(read.library, all.library);
  EXPECT_EQ(read.algorithms, all.algorithms);
}

TEST(Tuning, RefusesWhatIsNoRecord) {
  const std::string text = to_json(choices({{everywhere, "0"}, {bytes, "1"}}));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  for (const std::string& wrong :
       {std::string(), std::string("[]"), with("\"forward\"", "\"backward\""), with("bf16", "bf17"),
        with("64", "-64"), with("true", "1"), with("\"rows\"", "\"row\""), with("e5m2", "e5m3"),
        with("blockwise", "none")}) {
    try {
      parse_choices(wrong, "runs/x/tuning.json");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("runs/x/tuning.json"));
    }
  }
}

TEST(Tuning, ARecordComesBeforeTheLibrarysOwnAnswers) {
  ChoosingDevice device(choices({{everywhere, "first"}, {head, "first"}}));
  Tuning tuning;
  const std::string record = to_json(choices({{everywhere, "second"}}));
  EXPECT_EQ(tuning.agree(device, nullptr, {record, "a file"}), "");
  const std::map<ProductKey, std::string> agreed = {{everywhere, "second"}, {head, "first"}};
  EXPECT_EQ(device.taken_.algorithms, agreed);
  EXPECT_EQ(parse_choices(tuning.text(device), "").algorithms, agreed);
}

TEST(Tuning, ARecordOfAnotherLibraryIsNotUsed) {
  ChoosingDevice device(choices({{everywhere, "first"}}, "2.0"));
  Tuning tuning;
  const std::string record = to_json(choices({{everywhere, "second"}}, "1.0"));
  const std::string note = tuning.agree(device, nullptr, {record, "a file"});
  EXPECT_EQ(note,
            "the algorithms in a file were chosen on a \"GPU\" with a library 1.0, but this is a "
            "\"GPU\" with a library 2.0: they are not used, so bits will differ");
  EXPECT_EQ(device.taken_.algorithms.at(everywhere), "first");
}

TEST(Tuning, DevicesWithoutALibraryKeepNoRecord) {
  ChoosingDevice device({});
  Tuning tuning;
  EXPECT_EQ(tuning.agree(device, nullptr, {}), "");
  EXPECT_EQ(tuning.text(device), "");
  EXPECT_THAT(tuning.agree(device, nullptr, {to_json(choices({})), "the checkpoint"}),
              HasSubstr("without a library: they are not used"));
}

TEST(Tuning, AllRanksTakeWhatTheFirstOneHas) {
  run_local_ranks(3, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    // Only the last two ranks have the head.
    std::map<ProductKey, std::string> own = {{everywhere, "of rank " + std::to_string(rank)}};
    if (rank > 0) own[head] = "of rank " + std::to_string(rank);
    ChoosingDevice device(choices(own));
    Tuning tuning;
    EXPECT_EQ(tuning.agree(device, &transport, {}), "");
    const std::map<ProductKey, std::string> agreed = {{everywhere, "of rank 0"},
                                                      {head, "of rank 1"}};
    EXPECT_EQ(device.taken_.algorithms, agreed);
    EXPECT_EQ(parse_choices(tuning.text(device), "").algorithms, agreed);
  });
}

}  // namespace
}  // namespace trireme
