// Tests of offloading states, parameters and activations to files, and of splitting layer inputs
// across ranks: identical bits, remaining memory, and disk errors.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "named.h"
#include "parallel/states/transfer_file.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Offload : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("trireme_offload_{}", ::getpid());
  }
  void TearDown() override { fs::remove_all(folder_); }

  Config in_file(Config config) const {
    config.offload.optimizer = OffloadPlace::file;
    config.offload.path = folder_.string();
    return config;
  }

  fs::path folder_;
};
class SlowOffload : public Offload {};

TEST_F(Offload, GivesTheSameBits) {
  struct Case {
    const char *optimizer, *precision, *moments;
    int ranks = 1, zero = 0, pp = 1;
  };
  for (const Case& c :
       {Case{"adamw", "bf16", "fp32"}, Case{"adamw", "fp32", "fp32"}, Case{"adamw", "bf16", "bf16"},
        Case{"sgd", "bf16", "fp32"}, Case{"muon", "bf16", "fp32"}, Case{"muon", "fp32", "bf16"},
        Case{"adamw", "bf16", "fp32", 2, 1}, Case{"muon", "bf16", "bf16", 4, 3, 2}}) {
    SCOPED_TRACE(fmt::format("{} {}, moments {}, {} ranks, ZeRO {}", c.optimizer, c.precision,
                             c.moments, c.ranks, c.zero));
    Config config = config_of(c.precision, 4, "llama");
    config.optimizer.name = named(c.optimizer);
    config.optimizer.moment_dtype = named(c.moments);
    config.parallel.zero = c.zero;
    config.parallel.pp = c.pp;
    const Result expected = train(config, c.ranks, 4);
    const Result result = train(in_file(config), c.ranks, 4);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);  // and moments, as checkpoints read them
    EXPECT_TRUE(fs::is_empty(folder_));               // files are unlinked
  }
}

// The routers' biases and expert loads are stored with the states and updated by a rule of their
// own.
TEST_F(Offload, RoutersBiasesAndLoadsGiveTheSameBits) {
  for (const char* family : {"experts", "residual"}) {
    for (const int zero : {1, 3}) {
      SCOPED_TRACE(fmt::format("{}, ZeRO {}", family, zero));
      Config config = config_of("bf16", 4, family);
      config.parallel.zero = zero;
      const Result expected = train(config, 2, 3), result = train(in_file(config), 2, 3);
      EXPECT_EQ(result.losses, expected.losses);
      EXPECT_EQ(result.norms, expected.norms);
      EXPECT_TRUE(result.weights == expected.weights);
    }
  }
}

// A parameter larger than all slots together, in parts that are not multiples of a block.
TEST_F(Offload, BlocksPassThroughAFewSlots) {
  Config config = config_of("bf16", 2, "gpt");
  config.model.vocab_size = 70000;
  config.model.hidden_size = 96;
  config.model.ffn_hidden_size = 384;
  config.model.head_dim = 24;
  config.train.global_batch_size = batch * 2;
  const Result expected = train(config, 1, 2);
  const Result result = train(in_file(config), 1, 2);
  EXPECT_EQ(result.norms, expected.norms);
  EXPECT_TRUE(result.weights == expected.weights);
  const Engine engine(in_file(config), build_options(config), {});
  std::int64_t in_flight = 0;
  for (const MemoryRegion& region : engine.memory().regions) {
    if (region.name == "states in flight") in_flight = region.bytes;
    if (region.name == "master weights" || region.name == "first moments" ||
        region.name == "second moments") {
      EXPECT_EQ(region.bytes, 0) << region.name;
    }
  }
  EXPECT_EQ(in_flight, 4 * 12 * (std::int64_t{1} << 20));
  EXPECT_GT(engine.stored(OffloadPlace::file).states, 1.5 * static_cast<double>(in_flight));
}

// Router biases that end at the end of a block of states, start at the start of one, and would
// cross the boundary without the alignment of parameters: none is split.
TEST_F(SlowOffload, BlocksLeaveRoutersBiasesWhole) {
  constexpr std::int64_t block = std::int64_t{1} << 20;
  struct Case {
    std::int64_t experts, begin;
  };
  for (const Case& c : {Case{250, block - 256}, Case{252, block}, Case{253, block + 256}}) {
    SCOPED_TRACE(fmt::format("{} experts", c.experts));
    Config config = config_of("bf16", 1, "llama");
    ModelConfig& m = config.model;
    m.num_layers = 1;
    m.hidden_size = 128;
    m.num_heads = m.num_kv_heads = 8;
    m.head_dim = 248;
    m.moe.num_experts = c.experts;
    m.moe.ffn_hidden_size = 1;
    m.moe.score = RouterScore::sigmoid;
    m.moe.expert_bias = true;
    m.moe.bias_update_rate = 0.01;
    const auto engine = Engine(in_file(config), build_options(config), {});
    const auto& parameters = engine.stage().definition().parameters;
    const StateLayout& layout = engine.optimizer().layout();
    const auto bias = std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) {
      return p.spec.counts == ParameterSpec::Counts::bias;
    });
    ASSERT_NE(bias, parameters.end());
    const auto number = static_cast<int>(bias - parameters.begin());
    EXPECT_EQ(layout.slice_of(number, 0).offset, c.begin);
    const Result expected = train(config, 1, 2), result = train(in_file(config), 1, 2);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);
    const std::vector<double>& biases = result.weights.at(bias->name);
    EXPECT_TRUE(std::any_of(biases.begin(), biases.end(), [](double b) { return b != 0; }));
  }
}

Config parameters_in_file(Config config, const fs::path& folder) {
  config.parallel.zero = 3;
  config.offload.parameters = OffloadPlace::file;
  if (config.run.precision == Precision::fp32) config.offload.optimizer = OffloadPlace::file;
  config.offload.path = folder.string();
  return config;
}

struct Parts {
  int ranks;
  const char *precision, *family = "gpt", *optimizer = "adamw", *schedule = "1f1b";
  int pp = 1, tp = 1, ep = 1;
  const char* numerics = "exact";
};

void expect_the_same_bits(const Parts& c, const fs::path& folder) {
  SCOPED_TRACE(fmt::format("{} ranks, {} {} {}, {} pp {}, tp {}, ep {}, {}", c.ranks, c.precision,
                           c.family, c.optimizer, c.schedule, c.pp, c.tp, c.ep, c.numerics));
  Config config = config_of(c.precision, 4, c.family);
  config.optimizer.name = named(c.optimizer);
  config.parallel.schedule = named(c.schedule);
  config.parallel.pp = c.pp;
  config.parallel.tp = c.tp;
  config.parallel.ep = c.ep;
  config.parallel.numerics = named(c.numerics);
  config.parallel.zero = 3;
  if (config.parallel.schedule == ScheduleKind::interleaved) config.parallel.virtual_stages = 2;
  const Result expected = train(config, c.ranks, 4);
  const Result result = train(parameters_in_file(config, folder), c.ranks, 4);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_EQ(result.norms, expected.norms);
  EXPECT_TRUE(result.weights == expected.weights);  // and moments
  EXPECT_TRUE(fs::is_empty(folder));                // files are unlinked
}

// Also covers a rank that shares its states with no other rank.
TEST_F(Offload, ParametersGiveTheSameBits) {
  for (const Parts& c :
       {Parts{1, "bf16"}, Parts{1, "fp32", "llama", "adamw", "1f1b", 1, 1, 1, "fast"},
        Parts{2, "bf16", "llama"}, Parts{2, "fp32"}, Parts{4, "bf16", "gpt", "muon", "zbv", 2}})
    expect_the_same_bits(c, folder_);
}

TEST_F(SlowOffload, ParametersGiveTheSameBits) {
  for (const Parts& c :
       {Parts{4, "fp16", "llama", "adamw", "interleaved", 2},
        Parts{4, "bf16", "gpt", "sgd", "zb1p", 2}, Parts{4, "bf16", "llama", "lion", "1f1b", 1, 2},
        Parts{4, "bf16", "experts", "adamw", "1f1b", 1, 1, 2},
        Parts{4, "bf16", "residual", "adamw", "vhalf", 2, 1, 2}, Parts{3, "fp32", "gpt", "muon"},
        Parts{4, "bf16", "llama", "adamw", "1f1b", 2, 1, 1, "fast"}})
    expect_the_same_bits(c, folder_);
}

// Offloads states, parameters and activations at once.
TEST_F(Offload, EverythingInFilesGivesTheSameBits) {
  Config config = config_of("bf16", 4, "llama");
  config.parallel.zero = 3;
  const Result expected = train(config, 2, 3);
  Config files = parameters_in_file(in_file(config), folder_);
  files.offload.activations = OffloadPlace::file;
  const Result result = train(files, 2, 3);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_TRUE(result.weights == expected.weights);
}

constexpr TransferUse use = {"what a test moves", "buy a disk", "read",    "write",
                             "from a file",       "to a file",  "from it", "to it"};

std::int64_t bytes_of(const Engine& engine, const std::string& region) {
  for (const MemoryRegion& one : engine.memory().regions)
    if (one.name == region) return one.bytes;
  return 0;
}

Config in_files(Config config, const fs::path& folder, std::int64_t layers) {
  config.offload.activations = OffloadPlace::file;
  config.offload.activation_layers = layers;
  config.offload.path = folder.string();
  return config;
}

struct Activations {
  std::int64_t layers;  // offloaded, per stage
  int ranks = 1;
  std::string schedule = "1f1b";
  int pp = 1, tp = 1, zero = 0;
  std::string recompute = "none", family = "gpt", precision = "bf16";
};

// Tests stages with more layers than windows, equally many, and fewer.
void expect_the_same_bits(const Activations& c, const fs::path& folder) {
  SCOPED_TRACE(fmt::format("{} layers, {} ranks, {}, pp {}, tp {}, ZeRO {}, recompute {}, {} {}",
                           c.layers, c.ranks, c.schedule, c.pp, c.tp, c.zero, c.recompute, c.family,
                           c.precision));
  Config config = config_of(c.precision, 4, c.family);
  config.model.num_layers = 8;
  config.parallel.schedule = named(c.schedule);
  config.parallel.pp = c.pp;
  config.parallel.tp = c.tp;
  config.parallel.zero = c.zero;
  config.parallel.recompute = named(c.recompute);
  if (config.parallel.schedule == ScheduleKind::interleaved) config.parallel.virtual_stages = 2;
  const Result expected = train(config, c.ranks, 2);
  const Result result = train(in_files(config, folder, c.layers), c.ranks, 2);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_EQ(result.norms, expected.norms);
  EXPECT_TRUE(result.weights == expected.weights);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Offload, ActivationsGiveTheSameBits) {
  for (const Activations& c :
       {Activations{0}, Activations{5, 1, "1f1b", 1, 1, 0, "selective", "llama", "fp32"},
        Activations{2, 2, "1f1b", 2, 1, 0, "full"}, Activations{0, 2, "zb1p", 2}})
    expect_the_same_bits(c, folder_);
}

TEST_F(SlowOffload, ActivationsGiveTheSameBits) {
  for (const Activations& c :
       {Activations{1}, Activations{2}, Activations{3}, Activations{4, 1, "1f1b", 1, 1, 0, "full"},
        Activations{0, 2, "gpipe", 2}, Activations{0, 4, "interleaved", 2, 1, 3},
        Activations{1, 2, "zbv", 2, 1, 0, "selective", "llama"},
        Activations{2, 4, "vhalf", 2, 2, 0, "none", "gpt", "fp32"},
        Activations{3, 4, "zb1p", 2, 2, 0, "selective", "llama", "fp32"},
        Activations{0, 2, "1f1b", 1, 1, 2, "none", "experts", "fp32"}})
    expect_the_same_bits(c, folder_);
}

// Parts of two segments remain in memory, each bucket's rounded up to whole pages.
TEST_F(Offload, ParametersLeaveMemory) {
  Config config = config_of("bf16", 4, "gpt");
  config.model.num_layers = 12;
  config.parallel.zero = 3;
  const RankOf rank{0, 2};
  const Engine whole(config, build_options(config), {}, rank);
  const Engine engine(parameters_in_file(config, folder_), build_options(config), {}, rank);
  const StateLayout& layout = engine.optimizer().layout();
  const auto room = [&](int bucket) { return (layout.part(bucket) * 2 + 4095) / 4096 * 4096; };
  std::int64_t file = 0, largest = 0;
  for (int b = 0; b < layout.buckets(); ++b) file += room(b);
  for (int s = 0; s < engine.stage().segments(); ++s) {
    std::int64_t sum = 0;
    for (const int b : layout.buckets_of(s)) sum += room(b);
    largest = std::max(largest, sum);
  }
  EXPECT_EQ(bytes_of(whole, "sharded parameters"), layout.state_elements() * 2);
  EXPECT_EQ(bytes_of(engine, "sharded parameters"), 0);
  EXPECT_EQ(bytes_of(engine, "parameters in flight"), 2 * largest);
  EXPECT_EQ(engine.stored(OffloadPlace::file).parameters, file);
  EXPECT_EQ(whole.stored(OffloadPlace::file).parameters, 0);
}

// The next layers' parameters are read while a layer computes: passes never wait for a read that
// could have been issued earlier, and each segment is read once per direction.
TEST_F(Offload, ParametersAreReadAhead) {
  Config config = config_of("bf16", 1, "gpt");
  config.model.num_layers = 12;
  std::string events;
  run_local_ranks(1, {.timeout_s = 60}, [&](Transport& transport) {
    const auto engine = start(parameters_in_file(config, folder_), transport, {.poison = true});
    Trace trace(0);
    engine->set_trace(&trace);
    step(*engine, 0, config, 0);
    engine->set_trace(nullptr);
    events = trace.json();
  });
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (std::size_t at = 0; (at = events.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  // Embedding, layers and head; the head has no forward pass of its own, and whatever the windows
  // and slots still hold when the direction reverses is not read again.
  EXPECT_EQ(count("\"read parameters 5\""), 2);
  EXPECT_EQ(count("\"read parameters 12\""), 1);
  EXPECT_EQ(count("\"read parameters 13\""), 1);
  EXPECT_GT(count("\"write parameters"), 13);
  EXPECT_EQ(count("communicate, from the file"), 1);  // a trace lane
}

TEST_F(Offload, ActivationsLeaveMemory) {
  Config config = config_of("bf16", 4, "gpt");
  config.model.num_layers = 12;
  const Engine whole(config, build_options(config), {});
  const Config offloaded = in_files(config, folder_, 8);
  const Engine engine(offloaded, build_options(config), {});
  const std::int64_t saved = bytes_of(whole, "saved activations") / 12;
  EXPECT_EQ(bytes_of(engine, "saved activations"), 4 * saved);
  const std::int64_t input = batch * seq * config.model.hidden_size * 2;
  EXPECT_EQ(bytes_of(engine, "block inputs"), bytes_of(whole, "block inputs") - 8 * input);
  const std::int64_t window = (input + saved + 4095) / 4096 * 4096;
  EXPECT_EQ(bytes_of(engine, "activations in windows"), 3 * window);
  EXPECT_EQ(engine.stored(OffloadPlace::file).activations, 8 * window);
  EXPECT_EQ(whole.stored(OffloadPlace::file).activations, 0);
}

// Growing sequences change the contents of the windows.
TEST_F(Offload, ActivationsOfSeveralLengths) {
  Config config = config_of("fp32", 2, "llama");
  config.curriculum = {
      .schedule = CurriculumSchedule::fixed_linear, .min_length = 4, .iters = 2, .length_step = 4};
  const auto weights_of = [&](const Config& c) {
    Weights weights;
    run_local_ranks(1, {.timeout_s = 60}, [&](Transport& transport) {
      const auto engine = start(c, transport, {.poison = true});
      for (int s = 0; s < 4; ++s) {
        engine->set_length(s < 2 ? 4 : 8);
        Batch shorter(batch, engine->length());
        for (std::size_t i = 0; i < shorter.tokens.size(); ++i)
          shorter.tokens[i] = shorter.targets[i] = static_cast<std::int32_t>(3 * i + s) % vocab;
        StepInput input;
        input.step = static_cast<std::uint64_t>(s);
        input.micro_batches = 2;
        input.lr = 0.01;
        engine->train_step(input, [&](std::int64_t) { return &shorter; });
      }
      collect(*engine, weights);
    });
    return weights;
  };
  EXPECT_TRUE(weights_of(in_files(config, folder_, 0)) == weights_of(config));
}

TEST(DistributedActivations, GiveTheSameBitsInLessMemory) {
  struct Case {
    int ranks, tp, pp;
    std::int64_t layers;
    const char *schedule, *family;
  };
  for (const Case& c : {Case{2, 2, 1, 0, "1f1b", "gpt"}, Case{4, 4, 1, 5, "1f1b", "llama"},
                        Case{4, 2, 2, 0, "zb1p", "gpt"}}) {
    SCOPED_TRACE(fmt::format("{} ranks, tp {}, pp {}, {} layers", c.ranks, c.tp, c.pp, c.layers));
    Config config = config_of("bf16", 4, c.family);
    config.model.num_layers = 8;
    config.parallel.tp = c.tp;
    config.parallel.pp = c.pp;
    config.parallel.schedule = named(c.schedule);
    config.parallel.recompute = Recompute::full;
    config.parallel.recompute_layers = c.layers;
    Config cut = config;
    cut.parallel.distribute_saved_activations = true;
    const Result expected = train(config, c.ranks, 2);
    const Result result = train(cut, c.ranks, 2);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);
    // On the last stage: inputs of its layers and its head, and its output, per slot, and with a
    // single stage also the input of the embedding.
    const RankOf rank{c.ranks - 1, c.ranks};
    const Engine a(config, build_options(config), {}, rank);
    const Engine b(cut, build_options(cut), {}, rank);
    const std::int64_t input = batch * seq * config.model.hidden_size * 2;
    const std::int64_t layers = c.layers > 0 ? c.layers : 8 / c.pp;
    const std::int64_t slot = (8 / c.pp + (c.pp == 1 ? 3 : 2)) * input;
    const std::int64_t slots = bytes_of(a, "block inputs") / slot;
    EXPECT_EQ(bytes_of(a, "block inputs"), slots * slot);
    EXPECT_EQ(bytes_of(b, "block inputs"), slots * (slot - layers * (input - input / c.tp)));
    EXPECT_EQ(bytes_of(b, "activations in windows"), 3 * 4096);
  }
}

TEST(DistributedActivations, ChangeNothingWithSequenceParallelism) {
  Config config = config_of("fp32", 4, "gpt");
  config.parallel.tp = 2;
  config.parallel.recompute = Recompute::full;
  config.parallel.sequence_parallel = true;
  Config cut = config;
  cut.parallel.distribute_saved_activations = true;
  const Engine a(config, build_options(config), {}, {0, 2}), b(cut, build_options(cut), {}, {0, 2});
  EXPECT_EQ(to_text(a.memory()), to_text(b.memory()));
}

TEST_F(Offload, AFolderThatCannotBeUsed) {
  const auto message_of = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "";
  };
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(message_of([&] { TransferFile(use, folder_.string(), 4096, 60); }),
              testing::AllOf(testing::HasSubstr("cannot create a file there"),
                             testing::HasSubstr("choose a writable folder on a local disk")));
  fs::remove(folder_);
  EXPECT_THAT(message_of([&] { TransferFile(use, folder_.string(), std::int64_t{1} << 60, 60); }),
              testing::AllOf(testing::HasSubstr("which cannot be reserved there"),
                             testing::HasSubstr("free some space, or buy a disk")));
}

TEST_F(Offload, ADiskThatIsTooSlow) {
  static std::vector<std::byte> memory((64 << 20) +
                                       TransferFile::alignment);  // outlives the thread
  auto* const at = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(memory.data()) + TransferFile::alignment - 1) /
      TransferFile::alignment * TransferFile::alignment);
  TransferFile file(use, folder_.string(), 64 << 20, 1e-6);
  const TransferFile::Ticket ticket = file.write({{at, 0, 64 << 20}}, 0);
  try {
    file.wait(ticket);
    ADD_FAILURE() << "64 MiB were written in a microsecond";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), testing::HasSubstr("did not end within train.timeout_s"));
  }
}

}  // namespace
}  // namespace trireme
