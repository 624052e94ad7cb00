// Tests of the corruption guard: it finds a wrong bit and names the faulty rank, and reports
// nothing on healthy runs of any layout.
#include "train/watch/corruption_guard.h"

#include <gmock/gmock.h>

#include <map>

#include "local_ranks.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CorruptionGuard, NamesTheMinorityOfAGroup) {
  const std::vector<std::uint64_t> hashes = {7, 7, 8, 7, 9};
  const int all[] = {0, 1, 2, 3}, two[] = {0, 2}, same[] = {0, 1, 3};
  EXPECT_THAT(ranks_that_differ(all, hashes), ElementsAre(2));
  EXPECT_THAT(ranks_that_differ(two, hashes), ElementsAre(0, 2));
  EXPECT_THAT(ranks_that_differ(same, hashes), IsEmpty());
}

TEST(CorruptionGuard, SuspectsWhoContradictsItselfOrAThird) {
  EXPECT_THAT(suspects_of(1, 0, {{7, 8}, {8, 8}, 0}, false), ElementsAre(1));
  EXPECT_THAT(suspects_of(1, 0, {{7, 7}, {8, 7}, 0}, false), ElementsAre(0));
  EXPECT_THAT(suspects_of(1, 0, {{7, 7}, {8, 8}, 7}, true), ElementsAre(0));
  EXPECT_THAT(suspects_of(1, 0, {{7, 7}, {8, 8}, 8}, true), ElementsAre(1));
  EXPECT_THAT(suspects_of(1, 0, {{7, 7}, {8, 8}, 9}, true), ElementsAre(0, 1));
  EXPECT_THAT(suspects_of(1, 0, {{7, 7}, {8, 8}, 0}, false), ElementsAre(0, 1));
  EXPECT_THAT(suspects_of(0, 0, {{7, 7}, {8, 8}, 0}, false), ElementsAre(0));
}

using Finding = CorruptionGuard::Finding;

// Faults that a rank injects into itself after a step, and into the n-th batch that it computes.
struct Faults {
  std::function<void(Engine&, int rank)> on_states = [](Engine&, int) {};
  std::function<void(Batch&, int rank, int time)> on_batch = [](Batch&, int, int) {};
};

// Returns both findings of rank 0, which all ranks share, after two steps. A third step, whose loss
// goes to `loss`, shows that the checks have changed nothing.
std::pair<Finding, Finding> check(const Config& config, int ranks, const Faults& faults = {},
                                  bool guarded = true, double* loss = nullptr) {
  std::pair<Finding, Finding> found;
  std::mutex mutex;
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    const auto engine = start(config, transport, {.poison = true});
    for (int s = 0; s < 2; ++s) step(*engine, rank, config, s);
    if (guarded) {
      faults.on_states(*engine, rank);
      CorruptionGuard guard(*engine, engine->stage().device(), &transport, true);
      const Finding states = guard.compare_states();
      StepInput input;
      input.step = 1;
      input.micro_batches = config.parallel.pp > 1 ? config.train.global_batch_size / batch /
                                                         engine->mesh().degrees().dp()
                                                   : 1;
      std::map<std::int64_t, Batch> read;
      int time = 0;
      const Finding twice = guard.compute_twice(input, [&](int index, std::int64_t k) {
        read[k] = samples(k * engine->mesh().degrees().dp() + index);
        if (k == 0) faults.on_batch(read[k], rank, time++);
        return static_cast<const Batch*>(&read[k]);
      });
      const std::lock_guard lock(mutex);
      if (rank == 0) {
        found = {states, twice};
      } else {
        EXPECT_EQ(states.suspects,
                  found.first.suspects.empty() ? states.suspects : found.first.suspects);
      }
    }
    const StepResult last = step(*engine, rank, config, 2);
    if (rank == 0 && loss) *loss = last.loss.mean();
  });
  return found;
}

Config layout(const std::string& family, int zero, int tp = 1, int pp = 1, int ep = 1, int cp = 1) {
  Config config = config_of("bf16", 4, family);
  config.parallel.zero = zero;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  config.parallel.ep = ep;
  config.parallel.cp = cp;
  config.parallel.numerics = Numerics::fast;
  config.parallel.sequence_parallel = tp > 1;
  return config;
}

void expect_nothing(const Config& config, int ranks) {
  double with = 0, without = 1;
  const auto [states, twice] = check(config, ranks, {}, true, &with);
  EXPECT_EQ(states.what, "");
  EXPECT_EQ(twice.what, "");
  check(config, ranks, {}, false, &without);
  EXPECT_EQ(with, without);
}

TEST(CorruptionGuard, FindsNothingOnSoundRanks) {
  for (const std::string family : {"gpt", "llama", "experts", "bert"}) {
    SCOPED_TRACE(family);
    if (family != "bert") expect_nothing(layout(family, 0), 1);
    if (family != "bert") expect_nothing(layout(family, 1), 2);
  }
}

TEST(SlowCorruptionGuard, FindsNothingOnSoundRanksInAnyLayout) {
  for (const std::string family : {"gpt", "llama", "experts"}) {
    for (const auto& [zero, tp, pp, cp, ranks] : {std::tuple{0, 1, 1, 1, 4},
                                                  {2, 1, 1, 1, 4},
                                                  {3, 1, 1, 1, 2},
                                                  {1, 2, 1, 1, 4},
                                                  {1, 1, 2, 1, 4},
                                                  {0, 2, 2, 1, 4},
                                                  {1, 1, 1, 2, 4}}) {
      SCOPED_TRACE(family + " zero " + std::to_string(zero) + " tp " + std::to_string(tp) + " pp " +
                   std::to_string(pp) + " cp " + std::to_string(cp));
      expect_nothing(layout(family, zero, tp, pp, 1, cp), ranks);
    }
  }
  for (const int ranks : {2, 4}) expect_nothing(layout("experts", 1, 1, 1, 2), ranks);
  // The expert-parallel groups start in the middle of the context-parallel groups.
  Config crossing = layout("experts", 1, 1, 1, 1, 2);
  crossing.model.moe.capacity_factor = 0;
  crossing.parallel.expert_tp = 3;
  expect_nothing(crossing, 6);
  Config narrow = layout("gpt", 1, 2);
  narrow.run.gradient_dtype = narrow.optimizer.moment_dtype = StateType::bf16;
  expect_nothing(narrow, 4);
  Config exact = layout("gpt", 2, 1, 2);
  exact.parallel.numerics = Numerics::exact;
  expect_nothing(exact, 4);
  Config hybrid = layout("llama", 2);
  hybrid.parallel.dp_replicate = 2;
  expect_nothing(hybrid, 4);
}

void flip_a_bit(std::byte* bytes) {
  bytes[5] ^= std::byte{1};
}

TEST(CorruptionGuard, NamesWhoseWeightsHaveAWrongBit) {
  Faults faults;
  faults.on_states = [](Engine& engine, int rank) {
    if (rank == 2) flip_a_bit(engine.stage().flat_parameters());
  };
  const auto [states, twice] = check(layout("gpt", 1), 4, faults);
  EXPECT_THAT(states.what, HasSubstr("weights of rank 2 differ from those of the 3 other ranks"));
  EXPECT_THAT(states.suspects, ElementsAre(2));
  EXPECT_THAT(twice.suspects, ElementsAre(2)) << twice.what;
}

TEST(CorruptionGuard, NamesWhoseMomentsHaveAWrongBit) {
  Faults faults;
  faults.on_states = [](Engine& engine, int rank) {
    const Optimizer& optimizer = engine.optimizer();
    if (rank == 1) flip_a_bit(optimizer.moment(optimizer.layout().owned().front(), 1));
  };
  EXPECT_THAT(check(layout("gpt", 0), 3, faults).first.suspects, ElementsAre(1));
  EXPECT_THAT(check(layout("gpt", 0), 2, faults).first.suspects, ElementsAre(0, 1));
}

// Changes a token where `wrong` says so for the n-th time that a rank computes.
Finding with_a_wrong_token(int ranks, const std::function<bool(int rank, int time)>& wrong) {
  Faults faults;
  faults.on_batch = [wrong](Batch& batch, int rank, int time) {
    if (wrong(rank, time)) batch.tokens[3] ^= 1;
  };
  Config config = layout("gpt", 0);
  config.train.global_batch_size = batch * ranks;
  return check(config, ranks, faults).second;
}

TEST(CorruptionGuard, NamesWhoComputesWrongNumbers) {
  for (const int ranks : {1, 2, 3, 4}) {
    const int last = ranks - 1;
    const Finding found =
        with_a_wrong_token(ranks, [last](int rank, int time) { return rank == last && time == 0; });
    EXPECT_THAT(found.suspects, ElementsAre(last)) << found.what;
    EXPECT_THAT(found.what, HasSubstr("first in embedding (forward)"));
  }
  const auto always = [](int rank, int) { return rank == 1; };
  EXPECT_THAT(with_a_wrong_token(3, always).suspects, ElementsAre(1));
  EXPECT_THAT(with_a_wrong_token(2, always).suspects, ElementsAre(0, 1));
}

// In a replica of several ranks, the rank where a fault starts is named, not where it spreads.
TEST(CorruptionGuard, NamesTheRankOfAReplicaWhereItBegins) {
  for (const int wrong : {0, 1, 2, 3}) {
    Faults faults;
    faults.on_states = [wrong](Engine& engine, int rank) {
      if (rank != wrong) return;
      // A weight of the first layer's attention, which is sharded and exists on no other rank.
      for (const Parameter& p : engine.stage().definition().parameters)
        if (p.name.find("mlp.down.weight") != std::string::npos)
          return flip_a_bit(engine.stage().flat_parameters() + p.offset * 2);
    };
    const Finding found = check(layout("gpt", 1, 2), 4, faults).second;
    const int twin = (wrong + 2) % 4;
    EXPECT_THAT(found.suspects, ElementsAre(std::min(wrong, twin), std::max(wrong, twin)))
        << wrong << ": " << found.what;
  }
}

}  // namespace
}  // namespace trireme
