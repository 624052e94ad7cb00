// A user-defined model family: parallel attention and MLP in each block (as in GPT-J and PaLM), and
// a narrow bottleneck instead of the MLP in every second block.
//
//   own_family FILE.toml [section.key=value ...]
#include <trireme/trireme.hpp>

#include <memory>

namespace {

class SideBySide final : public trireme::Family {
 public:
  int kind_of(std::int64_t layer) const override { return layer % 2 == 0 ? 0 : 1; }

  trireme::Value block(trireme::Layers& layers, trireme::Value x, int kind) const override {
    const trireme::Value normed = layers.norm(x, "norm");
    const trireme::Value seen = layers.add(x, layers.attention(normed));
    return layers.add(seen, kind == 0 ? layers.mlp(normed) : bottleneck(layers, normed));
  }

 private:
  static trireme::Value bottleneck(trireme::Layers& layers, trireme::Value x) {
    const std::int64_t width = layers.sizes().hidden_size / 2;
    const trireme::Value inner = layers.activation(layers.wide(x, "in", width), "squared_relu");
    return layers.narrow(inner, "out", width);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return trireme::run_program([&] {
    if (argc < 2) throw trireme::Error(trireme::ExitCode::bad_input, "expected a TOML file");
    const trireme::RegisteredFamily family("side_by_side", std::make_shared<SideBySide>(), "llama");
    auto config = trireme::Config::load(argv[1], {argv + 2, argv + argc});
    config.set("model.family", "side_by_side");
    trireme::Job job(config);
    job.run([&] { trireme::Trainer(job, config).run(); });
  });
}
