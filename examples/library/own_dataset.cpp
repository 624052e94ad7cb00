// A user-defined dataset: sums such as "123+45=168", whose answers the model learns. It needs no
// files.
//
//   own_dataset [section.key=value ...]
#include <trireme/trireme.hpp>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr const char* characters = "0123456789+=";  // token ids are indices in it

class Sums final : public trireme::Dataset {
 public:
  // Practically unlimited: each sample is computed when it is needed.
  std::int64_t size() const override { return std::int64_t{1} << 40; }
  std::string identity() const override { return "sums of two numbers below 1000"; }

  // A sample depends only on its index.
  void fill(std::int64_t index, trireme::Sample& sample) const override {
    std::seed_seq seed{index, index >> 32};
    std::mt19937 random(seed);
    const auto a = random() % 1000, b = random() % 1000;
    const std::string question = std::to_string(a) + "+" + std::to_string(b) + "=";
    std::vector<std::int32_t> tokens;
    for (const char c : question + std::to_string(a + b) + "=")
      tokens.push_back(static_cast<std::int32_t>(std::string(characters).find(c)));
    sample.predict_next(tokens);
    // The question is random, so it should not be learned.
    for (std::size_t i = 0; i + 1 < question.size(); ++i) sample.loss_weights[i] = 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return trireme::run_program([&] {
    const auto config = trireme::Config::parse(R"(
      [run]
      dir = "runs/sums"
      precision = "fp32"
      [model]
      family = "llama"
      num_layers = 2
      hidden_size = 64
      num_heads = 4
      seq_length = 16
      vocab_size = 12
      [train]
      micro_batch_size = 32
      iters = 300
      eval_interval = 0
      [optimizer]
      lr = 3e-3
    )",
                                               "own_dataset", {argv + 1, argv + argc});
    trireme::Job job(config);
    job.run([&] { trireme::Trainer(job, config, {.train_data = std::make_shared<Sums>()}).run(); });
  });
}
