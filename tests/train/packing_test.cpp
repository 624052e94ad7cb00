// Tests that in a sample of packed documents each token has the loss it has in its document alone.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "data/dataset_builder.h"
#include "data/indexed_writer.h"
#include "named.h"
#include "train/engine/engine.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

constexpr std::int32_t eod = 0;
constexpr std::int64_t seq = 24, vocab = 17;

Config config_of(const std::string& family) {
  Config config;
  ModelConfig& m = config.model;
  m.family = family == "alibi" ? "gpt" : family;
  if (family == "alibi") m.position = named(family);
  m.num_layers = 2;
  m.hidden_size = 16;
  m.num_heads = 4;
  m.num_kv_heads = family == "llama" ? 2 : 0;
  m.seq_length = m.max_positions = seq;
  m.vocab_size = vocab;
  m.init_std = 0.5;  // so that context matters
  resolve(m);
  config.run.precision = Precision::fp64;
  config.data.split = "1,0,0";
  config.data.reset_position_ids = config.data.reset_attention_mask = config.data.eod_mask_loss =
      true;
  return config;
}

// Runs micro-batches of one sequence.
class Evaluator {
 public:
  Evaluator(Config config, std::int64_t length) {
    config.model.seq_length = length;
    engine_ = std::make_unique<Engine>(config, build_options(config), StageOptions{});
    engine_->allocate();
    engine_->initialize();
  }
  LossSum::Part evaluate(const Batch& batch) {
    return engine_->evaluate(1, [&](std::int64_t) { return &batch; }).words();
  }
  const double* losses() const {
    return static_cast<const double*>(engine_->stage().result(0, ResultOutput::token_loss));
  }

 private:
  std::unique_ptr<Engine> engine_;
};

class Packing : public testing::TestWithParam<std::string> {
 protected:
  Packing() : prefix_(testing::TempDir() + "trireme_packing_" + GetParam()) {
    IndexedDatasetWriter writer(prefix_, TokenType::u16);
    for (int d = 0; d < 40; ++d) {
      std::vector<std::int32_t> document;
      for (int t = 0; t < 2 + d * 5 % 9; ++t) document.push_back(1 + (d * 7 + t * t * 3) % 16);
      document.push_back(eod);
      writer.add_document(document, std::vector{static_cast<std::int32_t>(document.size())});
    }
    writer.finish();
  }
  ~Packing() override {
    for (const char* end : {".bin", ".idx"}) fs::remove(prefix_ + end);
  }

  Batch sample(const Config& config, std::int64_t index) const {
    DataConfig data = config.data;
    data.path = {prefix_};
    const auto dataset =
        DatasetBuilder(data, gpt_options(config, vocab, eod)).build(Split::train, index + 1);
    Batch batch(1, seq);
    dataset->fill(index, batch.row(0));
    return batch;
  }

  std::string prefix_;
};

TEST_P(Packing, GivesTheLossesOfTheDocumentsAlone) {
  const Config config = config_of(GetParam());
  Evaluator packed(config, seq);
  std::map<std::int64_t, Evaluator> alone;  // by document length
  int documents = 0;
  for (std::int64_t index = 0; index < 3; ++index) {
    const Batch batch = sample(config, index);
    const LossSum::Part sum = packed.evaluate(batch);
    double total = 0, tokens = 0;
    for (std::int64_t begin = 0, end; begin < seq; begin = end) {
      for (end = begin + 1; end < seq && batch.first_visible[end] == begin;) ++end;
      ASSERT_EQ(batch.first_visible[begin], begin);
      Evaluator& one = alone.try_emplace(end - begin, config, end - begin).first->second;
      Batch document(1, end - begin);
      std::copy_n(batch.tokens.begin() + begin, end - begin, document.tokens.begin());
      std::copy_n(batch.targets.begin() + begin, end - begin, document.targets.begin());
      one.evaluate(document);
      for (std::int64_t t = begin; t < end; ++t) {
        const double loss = one.losses()[t - begin];
        EXPECT_NEAR(packed.losses()[t], loss, 1e-11) << "position " << t;
        EXPECT_EQ(batch.loss_weights[t], batch.tokens[t] == eod ? 0 : 1);
        if (batch.tokens[t] == eod) continue;
        total += loss;
        ++tokens;
      }
      ++documents;
    }
    EXPECT_NEAR(sum.sum, total, 1e-9);
    EXPECT_EQ(sum.count, tokens);
  }
  EXPECT_GT(documents, 9);
}

// Without the mask the losses differ: the three settings are what isolates documents.
TEST_P(Packing, DoesNotWithoutTheMask) {
  Config config = config_of(GetParam());
  Batch batch = sample(config, 0);
  std::fill(batch.loss_weights.begin(), batch.loss_weights.end(), 1.f);
  Evaluator masked(config, seq);
  config.data.reset_attention_mask = false;
  Evaluator open(config, seq);
  EXPECT_GT(std::abs(masked.evaluate(batch).sum - open.evaluate(batch).sum), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Families, Packing, testing::Values("gpt", "llama", "alibi"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme
