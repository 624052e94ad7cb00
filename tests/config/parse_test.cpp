// Tests of reading configurations: values of all types, overrides, and the errors with their words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/config.h"
#include "config/fields.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the message with which the text (and overrides) are rejected as bad input.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "run.toml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(ParseConfig, ReadsValuesOfEveryType) {
  const Config config = load_config(TRIREME_TEST_DATA "/small.toml", {});
  EXPECT_EQ(config.run.dir, "runs/small");
  EXPECT_EQ(config.model.num_layers, 2);
  EXPECT_EQ(config.train.samples, 10000);  // an integral float is accepted as an integer
  EXPECT_EQ(config.optimizer.lr, 1.0);     // an integer is accepted as a float
  EXPECT_TRUE(config.data.eod_mask_loss);
  EXPECT_THAT(config.data.path, ElementsAre("0.3", "corpus/a", "0.7", "corpus/b"));
  EXPECT_EQ(config.train.log_interval, TrainConfig{}.log_interval);
}

TEST(ParseConfig, OneStringStandsForAListOfOne) {
  EXPECT_THAT(parse_config("[data]\npath = 'corpus'\n", "t").data.path, ElementsAre("corpus"));
}

TEST(ParseConfig, OverridesApplyInOrder) {
  const Config config =
      load_config(TRIREME_TEST_DATA "/small.toml",
                  {"train.samples=5", "train.samples=7", "run.dir=runs/other",
                   "run.precision=\"bf16\"", "data.path=[\"x\", \"y\"]", "log.tensorboard=true",
                   "optimizer.eps=1e-6", "train.rampup_batch_size=[2, 2, 10]",
                   "checkpoint.load=2024", "data.cache_dir=[a", "data.train_path=a=b"});
  EXPECT_EQ(config.train.samples, 7);
  EXPECT_EQ(config.run.dir, "runs/other");
  EXPECT_EQ(config.run.precision, Precision::bf16);
  EXPECT_THAT(config.data.path, ElementsAre("x", "y"));
  EXPECT_TRUE(config.log.tensorboard);
  EXPECT_EQ(config.optimizer.eps, 1e-6);
  EXPECT_THAT(config.train.rampup_batch_size, ElementsAre(2, 2, 10));
  EXPECT_EQ(config.checkpoint.load, "2024");
  EXPECT_EQ(config.data.cache_dir, "[a");
  EXPECT_THAT(config.data.train_path, ElementsAre("a=b"));
}

TEST(ParseConfig, UnknownKeyNamesPlaceAndNearest) {
  EXPECT_EQ(refusal("[model]\n\nnum_layer = 2\n"),
            "run.toml:3: unknown key \"model.num_layer\"; did you mean \"model.num_layers\"?");
  // The correct name in the wrong section.
  EXPECT_THAT(refusal("[train]\nlr = 0.1\n"), HasSubstr("did you mean \"optimizer.lr\"?"));
  EXPECT_THAT(refusal("[train]\nwarmup_itres = 1\n"),
              HasSubstr("did you mean \"optimizer.warmup_iters\"?"));
  EXPECT_EQ(refusal("[train]\nentirely_different = 1\n"),
            "run.toml:2: unknown key \"train.entirely_different\"");
}

TEST(ParseConfig, UnknownSectionNamesTheSections) {
  EXPECT_THAT(refusal("[optimiz]\nlr = 1\n"),
              AllOf(HasSubstr("run.toml:1: unknown section [optimiz]; the sections are run, model, "
                              "moe, data, train"),
                    HasSubstr("did you mean \"optimizer\"?")));
  EXPECT_THAT(refusal("[nothing]\n"), HasSubstr("unknown section [nothing]; the sections are"));
}

// The config.toml of older runs contains a key that never had an effect.
TEST(ParseConfig, RetiredKeysAreIgnoredInFilesOnly) {
  EXPECT_NO_THROW(parse_config("[checkpoint]\nload_rng = true\n", "run.toml"));
  EXPECT_THAT(refusal("", {"checkpoint.load_rng=true"}), HasSubstr("unknown key"));
}

TEST(ParseConfig, FormerNamesOfKeysAreRead) {
  EXPECT_TRUE(
      parse_config("[model]\nzero_centred_norms = true\n", "run.toml").model.zero_centered_norms);
  EXPECT_TRUE(
      parse_config("", "run.toml", {"model.zero_centred_norms=true"}).model.zero_centered_norms);
  EXPECT_THAT(refusal("[model]\nzero_centred_norms = true\nzero_centered_norms = false\n"),
              HasSubstr("\"zero_centred_norms\" is the former name of \"zero_centered_norms\""));
}

TEST(ParseConfig, KeyOutsideOfASection) {
  EXPECT_THAT(refusal("lr = 0.1\n"),
              HasSubstr("\"lr\" must be a section with keys, as in [optimizer]; did you mean "
                        "\"optimizer.lr\"?"));
  EXPECT_THAT(refusal("[[model]]\nnum_layers = 1\n"), HasSubstr("must be a section"));
}

TEST(ParseConfig, WrongTypeSaysExpectedAndFound) {
  EXPECT_EQ(refusal("[model]\nnum_layers = 'twelve'\n"),
            "run.toml:2: model.num_layers expects an integer, found the string 'twelve'");
  EXPECT_THAT(refusal("[model]\nnum_layers = 2.5\n"),
              HasSubstr("expects an integer, found the number 2.5"));
  EXPECT_THAT(refusal("[model]\nbias = 1\n"),
              HasSubstr("expects true or false, found the integer 1"));
  EXPECT_THAT(refusal("[run]\ndir = 5\n"), HasSubstr("expects a string, found the integer 5"));
  EXPECT_THAT(refusal("[optimizer]\nlr = true\n"), HasSubstr("expects a number, found true"));
  EXPECT_THAT(refusal("[train]\ntrace_steps = ['a']\n"), HasSubstr("expects a list of integers"));
  EXPECT_THAT(refusal("[data]\npath = [true]\n"), HasSubstr("expects a list of strings"));
  EXPECT_THAT(refusal("[run.dir]\na = 1\n"), HasSubstr("expects a string, found a table"));
  EXPECT_THAT(refusal("", {"train.iters=many"}),
              HasSubstr("override 'train.iters=many': train.iters expects an integer"));
}

TEST(ParseConfig, ValuesOutsideTheirSetListTheSet) {
  EXPECT_EQ(refusal("[optimizer]\ndecay_style = 'cosin'\n"),
            "run.toml:2: optimizer.decay_style = \"cosin\" is not one of constant, linear, cosine, "
            "inverse_sqrt, wsd; did you mean \"cosine\"?");
  EXPECT_THAT(refusal("", {"run.precision=fp8"}),
              HasSubstr("is not one of bf16, fp16, fp32, fp64"));
}

TEST(ParseConfig, NumbersOutsideTheirRange) {
  EXPECT_EQ(
      refusal("[model]\nhidden_dropout = 1\n"),
      "run.toml:2: model.hidden_dropout = 1 is out of range: it must be at least 0 and below 1");
  EXPECT_THAT(refusal("[model]\nnum_layers = -1\n"), HasSubstr("at least 0"));
  EXPECT_THAT(refusal("[optimizer]\nlr = nan\n"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("[optimizer]\nlr = inf\n"),
              HasSubstr("out of range: it must be finite and at least 0"));
  EXPECT_THAT(refusal("[optimizer]\neps = 0\n"), HasSubstr("above 0"));
  for (const char* key : {"qk_clip_threshold", "lr", "clip_grad"})
    EXPECT_THAT(refusal(fmt::format("[optimizer]\n{} = 1e-320\n", key)),
                HasSubstr("is out of range: it must be 0 or at least 2.2e-308 away from it"))
        << key;
  EXPECT_THAT(refusal("[model]\nhidden_size = 9223372036854775807\n"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("[train]\nrampup_batch_size = [1, -1, 5]\n"),
              HasSubstr("-1 is out of range"));
}

TEST(ParseConfig, BrokenTomlNamesTheLine) {
  EXPECT_THAT(
      refusal("[run]\nseed = \n"),
      HasSubstr("run.toml:2: not TOML: column 8: expected value, saw '\\n', in a key-value pair"));
  EXPECT_THAT(refusal("[run]\nseed = 1\nseed = 2\n"), HasSubstr("run.toml:3: "));
  EXPECT_THAT(refusal("[run]\ndir = \"\xff\xfe\"\n"), HasSubstr("run.toml:2: "));
}

TEST(ParseConfig, OverridesThatAreNone) {
  EXPECT_THAT(refusal("", {"train.iters"}), HasSubstr("expected section.key=value"));
  EXPECT_THAT(refusal("", {"iters=5"}), HasSubstr("expected section.key=value"));
  EXPECT_THAT(refusal("", {"run.dir=a.b", "iters=5.5"}), HasSubstr("'iters=5.5'"));
  EXPECT_THAT(refusal("", {"train.itres=5"}), HasSubstr("did you mean \"train.iters\"?"));
  EXPECT_THAT(refusal("", {"data.path=[\"x\""}), HasSubstr("is not a TOML value"));
  EXPECT_THAT(refusal("", {"train.iters=1\nlog_interval = 3"}), HasSubstr("expects an integer"));
  EXPECT_THAT(refusal("", {"train.iters=99999999999999999999"}),
              HasSubstr("99999999999999999999 is too large"));
}

TEST(ParseConfig, MissingFileIsBadInput) {
  EXPECT_THROW(load_config("/nonexistent/run.toml", {}), Error);
}

TEST(ToToml, ReadsBackToTheSameText) {
  Config config = load_config(TRIREME_TEST_DATA "/small.toml", {});
  config.run.dir = "quoted \" \\ \n\x01 \xc3\xa9";
  config.optimizer.lr = 0.1 + 0.2;
  config.optimizer.eps = 2.2250738585072014e-308;
  config.train.rampup_batch_size = {2, 2, 100};
  const std::string text = to_toml(config);
  const Config again = parse_config(text, "again");
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.run.dir, config.run.dir);
  EXPECT_EQ(again.optimizer.lr, config.optimizer.lr);
  EXPECT_EQ(again.optimizer.eps, config.optimizer.eps);
  EXPECT_EQ(again.optimizer.initial_loss_scale, 4294967296.0);
  EXPECT_EQ(again.data.path, config.data.path);
}

TEST(ToToml, DefaultsReadBack) {
  const std::string text = to_toml(Config{});
  EXPECT_EQ(to_toml(parse_config(text, "defaults")), text);
}

// Every key can be set on its own to its default, and maps to the member of the same name.
const void* member_of(const void* member) {
  return member;
}
const void* member_of(const ChoiceSlot& choice) {
  return choice.value;
}

TEST(Fields, EachKeyReachesAMemberOfItsOwn) {
  std::set<const void*> members;
  Config config;
  for (const Field& field : all_fields()) {
    SCOPED_TRACE(field.key());
    std::visit([&](const auto& slot) { EXPECT_TRUE(members.insert(member_of(slot)).second); },
               field.slot(config));
    EXPECT_EQ(find_field(field.section, field.name), &field);
    EXPECT_FALSE(field.description.empty());
    EXPECT_NE(field.description.back(), '.');
  }
}

}  // namespace
}  // namespace trireme
