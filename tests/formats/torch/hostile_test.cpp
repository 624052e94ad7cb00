// Tests of pickles that try to do more than store weights: each is rejected by name, and quickly,
// before it takes much memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/torch/file.h"
#include "formats/torch/forged.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& pickle) {
  try {
    const Pickle read(pickle, "test.pt");
    torch_entries(read, read.root());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("'test.pt'"));
    return error.what();
  }
  return "accepted";
}

std::string repeated(const std::string& what, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += what;
  return out;
}

TEST(Hostile, CallsOfProgramsAreRefusedByName) {
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"os", "system"},
                                                        {"posix", "system"},
                                                        {"builtins", "eval"},
                                                        {"builtins", "exec"},
                                                        {"builtins", "getattr"},
                                                        {"subprocess", "Popen"},
                                                        {"torch.serialization", "load"},
                                                        {"torch", "load"},
                                                        {"torch.jit", "load"},
                                                        {"runpy", "_run_code"},
                                                        {"megatron.core", "x.system"},
                                                        {"importlib", "import_module"}}) {
    const std::string call = pickle_of(pickle_global(module, name) + pickle_text("id") + "\x85R");
    EXPECT_THAT(refusal(call), HasSubstr(module + "." + name));
    const std::string stacked = "\x80\x04" + pickle_text(module) + pickle_text(name) + "\x93" +
                                pickle_text("id") + "\x85R.";
    EXPECT_THAT(refusal(stacked), HasSubstr(module + "." + name));
    // Naming it is enough for rejection.
    EXPECT_THAT(refusal(pickle_of(pickle_global(module, name))), HasSubstr(module + "." + name));
  }
}

// Training programs store such states and arguments next to the weights: nothing is called.
TEST(Hostile, WhatLiesNextToWeightsIsInert) {
  for (const auto& [module, name] : {std::pair{"torch._C", "Generator"},
                                     {"numpy.random._philox", "Philox"},
                                     {"numpy.random._pcg64", "PCG64DXSM"},
                                     {"random", "Random"},
                                     {"__builtin__", "xrange"},
                                     {"datetime", "timezone"},
                                     {"uuid", "UUID"},
                                     {"functools", "partial"},
                                     {"torch._C._nn", "gelu"},
                                     {"torch.nn.functional", "silu"},
                                     {"omegaconf.dictconfig", "DictConfig"},
                                     {"transformer_engine.common.recipe", "DelayedScaling"}}) {
    const std::string made = pickle_global(module, name) + pickle_global("torch", "device") +
                             pickle_text("cpu") + "\x85R\x85R" + pickle_text("state") + "b";
    EXPECT_EQ(refusal(pickle_of(made)), "accepted") << module;
  }
  EXPECT_THAT(refusal(pickle_of(pickle_global("torch._C", "_jit_eval"))),
              HasSubstr("torch._C._jit_eval"));
}

TEST(Hostile, PythonTwosNamesAreTheSameNames) {
  EXPECT_THAT(refusal(pickle_of(pickle_global("__builtin__", "eval"))), HasSubstr("builtins.eval"));
}

TEST(Hostile, OtherWaysToCallAreRefused) {
  EXPECT_THAT(refusal(pickle_of("(ios\nsystem\n")), HasSubstr("INST"));
  EXPECT_THAT(refusal(pickle_of("(" + pickle_text("id") + "o")), HasSubstr("OBJ"));
  EXPECT_THAT(refusal(pickle_of("\x82\x01")), HasSubstr("EXT"));
  EXPECT_THAT(refusal(pickle_of("Pos\n")), HasSubstr("PERSID"));
  EXPECT_THAT(refusal(pickle_of("S'a'\n")), HasSubstr("protocol 0"));
  EXPECT_THAT(refusal(pickle_of("\x97")), HasSubstr("outside of the file"));
  EXPECT_THAT(refusal(pickle_of(pickle_text("id") + ")R")), HasSubstr("it calls the text"));
  EXPECT_THAT(refusal(pickle_of(pickle_global("torch", "FloatStorage") + ")R")),
              HasSubstr("it calls 'torch.FloatStorage'"));
  EXPECT_THAT(refusal(pickle_of(pickle_text("module") + "Q")), HasSubstr("persistent id"));
}

TEST(Hostile, ChainsOfCallsStayInert) {
  // The result of a call is not a function, so it cannot be called.
  const std::string made = pickle_global("argparse", "Namespace") + ")R";
  EXPECT_THAT(refusal(pickle_of(made + ")R")), HasSubstr("it calls an object"));
  EXPECT_EQ(refusal(pickle_of(made + "}b")), "accepted");
  EXPECT_THAT(refusal(pickle_of(made + "}b}b")), HasSubstr("twice"));
  EXPECT_THAT(refusal(pickle_of(repeated(pickle_global("argparse", "Namespace"), 500) + ")" +
                                repeated("R\x85", 500))),
              HasSubstr("deep within others"));
}

TEST(Hostile, DeepAndEndlessValuesAreRefused) {
  EXPECT_THAT(refusal(pickle_of(")" + repeated("\x85", 1000))), HasSubstr("deep within others"));
  EXPECT_THAT(refusal(pickle_of(repeated("]", 1000) + repeated("a", 999))),
              HasSubstr("deep within others"));
  // A list that contains itself, and a tensor.
  const std::string itself =
      "]q\x01h\x01"
      "a" +
      pickle_tensor({}) + "a";
  EXPECT_THAT(refusal(pickle_of(itself)), HasSubstr("contain each other"));
  // Each tuple contains the previous one twice: 2^40 tensors in a few bytes.
  const std::string doubled = pickle_tensor({}) + repeated("q\x01h\x01\x86", 40);
  EXPECT_THAT(refusal(pickle_of(doubled)), HasSubstr("too many tensors"));
}

TEST(Hostile, MemoryIsBounded) {
  EXPECT_THAT(refusal(pickle_of("Nr" + little(std::uint32_t{0xfffffff0}))),
              HasSubstr("stores a value at place"));
  EXPECT_THAT(refusal(pickle_of(std::string(4'000'000, ']'))), HasSubstr("are allowed"));
  EXPECT_THAT(refusal(pickle_of(std::string(30'000'000, '('))), HasSubstr("are allowed"));
  EXPECT_THAT(refusal(pickle_of("Nq\x01" + repeated("h\x01", 30'000'000))),
              HasSubstr("are allowed"));
  EXPECT_THAT(refusal(pickle_of("X" + little(std::uint32_t{0xfffffff0}))), HasSubstr("cut off"));
  EXPECT_THAT(refusal(pickle_of("\x8d" + little(~std::uint64_t{0}))), HasSubstr("cut off"));
  const std::string text = "q\x01" + pickle_text(std::string(1'000'000, 'a')) + "q\x02";
  const std::string encode = pickle_global("_codecs", "encode");
  EXPECT_THAT(refusal(pickle_of(encode + text + repeated("h\x01h\x02\x85R", 1000))),
              HasSubstr("again and again"));
  // One long list, copied by each of many calls.
  const std::string list = "(" + std::string(100'000, 'N') + "tq\x01";
  EXPECT_THAT(
      refusal(pickle_of(list + repeated(pickle_global("torch", "Size") + "h\x01\x85R", 900))),
      HasSubstr("are allowed"));
}

TEST(Hostile, DamagedProgramsAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("does not begin"));
  EXPECT_THAT(refusal("\x80\x02"), HasSubstr("cut off"));
  EXPECT_THAT(refusal(pickle_of("")), HasSubstr("left on the stack"));
  EXPECT_THAT(refusal(pickle_of("NN")), HasSubstr("left on the stack"));
  EXPECT_THAT(refusal(pickle_of("(N")), HasSubstr("left on the stack"));
  EXPECT_THAT(refusal(pickle_of("\x85")), HasSubstr("an empty stack"));
  EXPECT_THAT(refusal(pickle_of("N(\x85")), HasSubstr("an empty stack"));
  EXPECT_THAT(refusal(pickle_of("t")), HasSubstr("a MARK is missing"));
  EXPECT_THAT(refusal(pickle_of("h\x05")), HasSubstr("nothing was stored"));
  EXPECT_THAT(refusal(pickle_of("Nq\x09h\x05")), HasSubstr("nothing was stored"));
  EXPECT_THAT(refusal(pickle_of("}(Nu")), HasSubstr("a key has no value"));
  EXPECT_THAT(refusal(pickle_of("}Na")), HasSubstr("adds items to a dictionary"));
  EXPECT_THAT(refusal(pickle_of("\xff")), HasSubstr("0xff is not an operation"));
  EXPECT_THAT(refusal("\x80\x63N."), HasSubstr("protocol 99"));
}

TEST(Hostile, TensorsStayWithinTheirStorage) {
  constexpr std::int64_t large = std::int64_t{1} << 62;
  EXPECT_EQ(refusal(pickle_of(pickle_tensor({}))), "accepted");
  const std::vector<ForgedTensor> beyond{{.offset = 1},
                                         {.offset = 4, .shape = {}, .strides = {}},
                                         {.offset = large, .shape = {2}, .strides = {1}},
                                         {.shape = {5}, .strides = {1}},
                                         {.shape = {2, 2}, .strides = {3, 1}},
                                         {.shape = {large, 4}, .strides = {0, 0}},
                                         {.shape = {3}, .strides = {large}},
                                         {.count = large, .shape = {1}, .strides = {1}},
                                         {.offset = 5, .shape = {0}, .strides = {1}}};
  for (const ForgedTensor& tensor : beyond) {
    EXPECT_THAT(refusal(pickle_of(pickle_tensor(tensor))), HasSubstr("beyond its storage"));
  }
  EXPECT_THAT(refusal(pickle_of(pickle_tensor({.offset = -1}))), HasSubstr("is -1"));
  EXPECT_THAT(refusal(pickle_of(pickle_tensor({.shape = {-4}, .strides = {-1}}))), HasSubstr("-4"));
  EXPECT_THAT(refusal(pickle_of(pickle_tensor({.shape = {2, 2}}))), HasSubstr("strides"));
  EXPECT_THAT(refusal(pickle_of(pickle_tensor({.shape = std::vector<std::int64_t>(9, 1),
                                               .strides = std::vector<std::int64_t>(9, 1)}))),
              HasSubstr("9 dimensions"));
  EXPECT_THAT(refusal(pickle_of(pickle_tensor({}) + pickle_tensor({.count = 5}) + "\x86")),
              HasSubstr("two ways"));
}

}  // namespace
}  // namespace trireme
