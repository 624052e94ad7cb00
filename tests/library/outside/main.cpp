// A program outside of the project: trains, catches errors, destroys everything and trains again,
// all in one process. Run with a folder that it may fill; exit code 0 if everything is as promised.
#include <trireme/trireme.hpp>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

int faults = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what.c_str());
  ++faults;
}

template <class Body>
void expect_error(const Body& body, trireme::ExitCode code, const std::string& part) {
  try {
    body();
  } catch (const trireme::Error& error) {
    const bool as_expected =
        error.code() == code && std::string(error.what()).find(part) != std::string::npos;
    expect(as_expected, "an error with '" + part + "', found: " + error.what());
    return;
  }
  expect(false, "an error with '" + part + "', found none");
}

// Counts up; sample `broken` has a token that there is not.
class Counting final : public trireme::Dataset {
 public:
  explicit Counting(std::int64_t broken = -1) : broken_(broken) {}
  std::int64_t size() const override { return 1000; }
  void fill(std::int64_t index, trireme::Sample& sample) const override {
    std::vector<std::int32_t> text;
    for (std::size_t i = 0; i <= sample.tokens.size(); ++i)
      text.push_back(static_cast<std::int32_t>((static_cast<std::size_t>(index) * 3 + i) % 32));
    sample.predict_next(text);
    if (index == broken_) sample.tokens[2] = 32;
  }

 private:
  std::int64_t broken_;
};

// The blocks of a Llama, said again.
class Again final : public trireme::Family {
 public:
  trireme::Value block(trireme::Layers& l, trireme::Value x, int) const override {
    const trireme::Value y = l.add(x, l.attention(l.norm(x, "input_norm")));
    return l.add(y, l.mlp(l.norm(y, "mlp_norm")));
  }
};

class Broken final : public trireme::Family {
 public:
  trireme::Value block(trireme::Layers& l, trireme::Value x, int) const override {
    l.mlp(x);
    return l.add(x, l.attention(x));
  }
};

trireme::Config tiny(const std::string& folder) {
  return trireme::Config::parse(R"(
    [run]
    precision = "fp32"
    [model]
    family = "llama"
    num_layers = 1
    hidden_size = 32
    num_heads = 2
    seq_length = 16
    vocab_size = 32
    [train]
    micro_batch_size = 2
    iters = 6
    eval_interval = 3
    eval_iters = 1
    [optimizer]
    lr = 1e-2
  )")
      .set("run.dir", folder);
}

trireme::TrainerOptions options(std::int64_t broken = -1) {
  trireme::TrainerOptions given;
  given.train_data = std::make_shared<Counting>(broken);
  given.valid_data = std::make_shared<Counting>();
  given.log = [](std::string_view) {};
  return given;
}

// Losses of the steps up to `until`, after which it saves.
std::vector<double> train(const trireme::Config& config, std::int64_t until,
                          const trireme::TrainerOptions& given) {
  trireme::Job job(config);
  trireme::Trainer trainer(job, config, given);
  std::vector<double> losses;
  while (trainer.step() < until) losses.push_back(trainer.train_step().loss);
  expect(std::isfinite(trainer.evaluate()), "a loss of the validation data");
  trainer.log({{"own", job.sum(1)}});
  trainer.save();
  trainer.finish();
  return losses;
}

void check(const std::string& folder) {
  using trireme::ExitCode;
  const std::vector<double> whole = train(tiny(folder + "/whole"), 6, options());
  expect(whole.size() == 6 && whole.back() < whole.front(), "that training lowers the loss");

  expect_error([] { trireme::Config::parse("[train]\nitters = 3"); }, ExitCode::bad_input, "iters");
  expect_error([&] { train(tiny(folder + "/broken"), 6, options(5)); }, ExitCode::bad_input,
               "sample 5 of the dataset that was given: the token at position 2 is 32");
  expect_error([&] { train(tiny(folder + "/short").set("train.iters", "900"), 1, options()); },
               ExitCode::bad_input, "has 1000 samples, and the run takes 1800");

  // After errors, and with everything destroyed: the same bits again, also in two parts.
  expect(train(tiny(folder + "/again"), 6, options()) == whole, "the same losses a second time");
  std::vector<double> parts = train(tiny(folder + "/parts"), 2, options());
  const std::vector<double> rest = train(tiny(folder + "/parts"), 6, options());
  parts.insert(parts.end(), rest.begin(), rest.end());
  expect(parts == whole, "the same losses in two parts");

  const trireme::Checkpoint saved(folder + "/parts");
  expect(saved.step() == 6, "a checkpoint of step 6");
  expect(saved.read("layers.0.mlp.down.weight").size() == 32 * 64, "a tensor of the checkpoint");
  expect_error([&] { saved.read("layers.7.mlp.down.weight"); }, ExitCode::bad_input, "no tensor");

  trireme::TrainerOptions still = options();
  still.learning_rate = [](const trireme::ScheduleInput&) { return 0.0; };
  const std::vector<double> unmoved = train(tiny(folder + "/still"), 6, still);
  expect(unmoved.front() == whole.front() && unmoved.back() != whole.back(),
         "that a learning rate of one's own counts");

  const auto of_family = [&](const char* name) {
    return tiny(folder + "/family_" + name).set("model.family", name);
  };
  {
    const trireme::RegisteredFamily again("again", std::make_shared<Again>());
    const std::vector<double> same = train(of_family("again"), 6, options());
    expect(same.size() == whole.size(), "as many losses of the same family");
    for (std::size_t i = 0; i < same.size(); ++i)
      expect(std::abs(same[i] - whole[i]) < 1e-5, "that the same family learns the same");
    const trireme::RegisteredFamily broken("broken", std::make_shared<Broken>());
    expect_error([&] { train(of_family("broken"), 6, options()); }, ExitCode::bad_input,
                 "does not depend on the parameter mlp.");
  }
  expect_error([&] { of_family("again"); }, ExitCode::bad_input, "is none of gpt, llama, bert");
}

}  // namespace

int main(int argc, char** argv) {
  const int code = trireme::run_program([&] {
    if (argc != 2) throw trireme::Error(trireme::ExitCode::bad_input, "expected a folder");
    check(argv[1]);
  });
  return code != 0 ? code : faults > 0 ? 1 : 0;
}
