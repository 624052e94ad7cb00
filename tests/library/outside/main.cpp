// An external program: trains, catches errors, destroys everything and trains again, all in one
// process. Its argument is a folder to fill; exit code 0 means that everything works as promised.
#include <trireme/trireme.h>
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

// A dataset that counts up; sample `broken` contains an invalid token.
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

// Leaves the target of a prompt unset, where the loss weight is 0.
class Prompted final : public trireme::Dataset {
 public:
  std::int64_t size() const override { return counting_.size(); }
  void fill(std::int64_t index, trireme::Sample& sample) const override {
    counting_.fill(index, sample);
    sample.targets[1] = (sample.targets[1] + 1) % 32;
    sample.loss_weights[1] = 0;
  }

 private:
  Counting counting_;
};

// The blocks of a Llama, defined a second time.
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

// Trains up to step `until`, saves, and returns the losses.
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
               "sample 5 of the given dataset: the token at position 2 is 32");
  expect_error([&] { train(tiny(folder + "/short").set("train.iters", "900"), 1, options()); },
               ExitCode::bad_input, "has 1000 samples, but the run needs 1800");

  trireme::TrainerOptions prompted = options();
  prompted.train_data = std::make_shared<Prompted>();
  train(tiny(folder + "/prompted"), 1, prompted);
  expect_error([&] { train(tiny(folder + "/modules").set("model.mtp_layers", "1"), 1, prompted); },
               ExitCode::bad_input, "sample 0 of the given dataset: the target at position 1 is");

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
  expect_error([&] { of_family("again"); }, ExitCode::bad_input, "is not one of gpt, llama, bert");
}

void expect_status(trireme_status found, trireme_status status, const std::string& part) {
  expect(found == status && (found == TRIREME_OK ||
                             std::string(trireme_last_error()).find(part) != std::string::npos),
         "a status " + std::to_string(status) + " with '" + part + "', found " +
             std::to_string(found) + ": " + trireme_last_error());
}

// Tests the C interface: creating and releasing handles, and a checkpoint of the runs above.
void check_c(const std::string& folder) {
  expect(trireme_c_version() == TRIREME_C_VERSION, "the version of the interface in C");
  for (int i = 0; i < 1000; ++i) {
    const char* const overrides[] = {"train.iters=7"};
    trireme_config* config = nullptr;
    expect_status(trireme_config_parse("", nullptr, overrides, 1, &config), TRIREME_OK, "");
    if (i == 0) {
      char* json = nullptr;
      expect_status(trireme_config_json(config, &json), TRIREME_OK, "");
      expect(std::string(json).find("\"iters\":7") != std::string::npos, "the key that was set");
      trireme_free(json);
    }
    trireme_config_close(config);
  }
  trireme_config* none = nullptr;
  expect_status(trireme_config_parse("[train]\nitters = 3", "x", nullptr, 0, &none),
                TRIREME_BAD_INPUT, "iters");
  expect_status(trireme_config_load(nullptr, nullptr, 0, &none), TRIREME_BAD_INPUT, "missing");
  expect(none == nullptr, "no output of a call that failed");
  trireme_config_close(nullptr);

  trireme_checkpoint* checkpoint = nullptr;
  expect_status(trireme_checkpoint_open((folder + "/parts").c_str(), &checkpoint), TRIREME_OK, "");
  for (std::int64_t i = 0; i < trireme_checkpoint_count(checkpoint); ++i) {
    trireme_tensor tensor;
    expect_status(trireme_checkpoint_tensor(checkpoint, i, &tensor), TRIREME_OK, "");
    std::vector<char> memory(static_cast<std::size_t>(tensor.bytes));
    expect_status(trireme_checkpoint_read(checkpoint, i, 0, memory.data(), tensor.bytes),
                  TRIREME_OK, "");
    expect_status(trireme_checkpoint_read(checkpoint, i, 0, memory.data(), tensor.bytes - 1),
                  TRIREME_BAD_INPUT, tensor.name);
  }
  trireme_checkpoint_close(checkpoint);

  trireme_model* model = nullptr;
  expect_status(trireme_model_open((folder + "/parts").c_str(), nullptr, 0, &model), TRIREME_OK,
                "");
  const std::int32_t ids[] = {1, 2, 3, 4};
  const std::int64_t offsets[] = {0, 4}, given[] = {1}, too_many[] = {5};
  std::vector<float> logits(4 * 32);
  double sum = 0;
  std::uint8_t greedy = 0;
  expect_status(trireme_model_logits(model, ids, 4, nullptr, logits.data()), TRIREME_OK, "");
  expect_status(
      trireme_model_log_likelihoods(model, ids, offsets, given, 1, &sum, &greedy, nullptr, nullptr),
      TRIREME_OK, "");
  expect(sum < 0 && std::isfinite(sum), "a likelihood");
  expect_status(trireme_model_log_likelihoods(model, ids, offsets, too_many, 1, &sum, &greedy,
                                              nullptr, nullptr),
                TRIREME_BAD_INPUT, "expected 1 to 4");
  trireme_generate_options options;
  trireme_generate_defaults(&options);
  options.max_new_tokens = 3;
  std::int32_t* out = nullptr;
  std::int64_t out_offsets[2] = {};
  expect_status(trireme_model_generate(model, ids, offsets, 1, &options, &out, out_offsets),
                TRIREME_OK, "");
  expect(out_offsets[1] == 7, "three tokens after the prompt");
  trireme_free(out);
  trireme_model_close(model);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = trireme::run_program([&] {
    if (argc != 2) throw trireme::Error(trireme::ExitCode::bad_input, "expected a folder");
    check(argv[1]);
    check_c(argv[1]);
  });
  return code != 0 ? code : faults > 0 ? 1 : 0;
}
