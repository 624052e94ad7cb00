// `trireme bench`: speed of matrix products, single ops and full training steps.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backend/cpu/gemm_bench.h"
#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/counted.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "config/presets.h"
#include "model/transformer.h"
#include "plan/device_peak.h"
#include "plan/measure_machine.h"
#include "runtime/devices.h"
#include "runtime/join.h"
#include "runtime/memory.h"
#include "train/run/setup.h"
#include "train/step_bench.h"

namespace trireme::cli {
namespace {

struct BenchArguments {
  std::string file;
  std::vector<std::string> overrides;
  int steps = 5;
  std::string precision = "bf16";
  std::vector<std::string> shapes;
  std::string output;
  bool json = false;
};

// GPT-2 124M with micro-batches of 4 x 1024 tokens, the reference of docs/performance.md; or the
// preset named by an override, with its own vocabulary.
Config built_in(const std::vector<std::string>& overrides) {
  constexpr std::string_view key = "model.preset=";
  std::string name = "gpt2-124m";
  for (const std::string& override : overrides)
    if (override.starts_with(key)) name = override.substr(key.size());
  const Preset* const preset = find_preset(name);
  const std::string text = fmt::format(R"(
[model]
preset = "gpt2-124m"
vocab_size = {}
[train]
micro_batch_size = 4
iters = 1
[optimizer]
lr = 1e-4
)",
                                       preset ? preset->vocabulary : 50257);
  return parse_config(text, "the model of bench", overrides);
}

Config config_of(const BenchArguments& a) {
  Config config = a.file.empty() ? built_in(a.overrides) : load_config(a.file, a.overrides);
  resolve_vocabulary(config);
  validate(config);
  return config;
}

// Measurements take minutes on a busy machine: progress goes to stderr, results to stdout.
void say_on_stderr(const std::string& what) {
  fmt::print(stderr, "measuring: {}\n", what);
}

// Model flops utilization of a step: with causal attention, as actually required, and with full
// attention, as other programs report it.
struct Mfu {
  double peak, causal, full;

  Mfu(const Config& config, const StepBench& b)
      : peak(config.run.peak_tflops > 0
                 ? config.run.peak_tflops * 1e12
                 : peak_of_device(device_of(config.run.device).name(), config.run.precision)) {
    const double rate = peak > 0 ? b.tokens_per_second() / peak : 0;
    const double flops = training_flops_per_token(config.model);
    full = rate * flops;
    causal = rate * (flops - attention_flops_per_token(config.model) / 2);
  }
};

nlohmann::json to_json(const Config& config, const StepBench& b) {
  const Mfu mfu(config, b);
  nlohmann::json ops = nlohmann::json::array();
  for (const OpTime& op : b.ops) {
    ops.push_back(
        {{"op", op.op}, {"seconds", op.seconds}, {"flops", op.flops}, {"bytes", op.bytes}});
  }
  return {{"device", device_of(config.run.device).name()},
          {"parameters", parameter_count(config.model)},
          {"mfu_causal", mfu.causal},
          {"mfu_full", mfu.full},
          {"tokens", b.tokens},
          {"seconds", b.seconds},
          {"tokens_per_second", b.tokens_per_second()},
          {"linear_share", b.linear_share()},
          {"of_ceiling", b.of_ceiling()},
          {"ceiling_gflops", b.linear_flops / b.ceiling_seconds / 1e9},
          {"linear_flops", b.linear_flops},
          {"attention_flops", b.attention_flops},
          {"optimizer_seconds", b.optimizer_seconds},
          {"planned_bytes", b.planned_bytes},
          {"peak_resident_bytes", b.peak_resident_bytes},
          {"ops", ops}};
}

void print_ops(const StepBench& b) {
  fmt::print("{:<20} {:>10} {:>7} {:>10} {:>9}\n", "op", "ms/step", "share", "GFLOP/s", "GB/s");
  for (const OpTime& op : b.ops) {
    fmt::print("{:<20} {:>10.2f} {:>6.1f}% {:>10} {:>9.1f}\n", op.op, 1e3 * op.seconds,
               100 * op.seconds / b.seconds,
               op.flops > 0 ? fmt::format("{:.0f}", op.flops / op.seconds / 1e9) : "",
               op.bytes / op.seconds / 1e9);
  }
  fmt::print("{:<20} {:>10.2f} {:>6.1f}%\n", "optimizer, the rest", 1e3 * b.optimizer_seconds,
             100 * b.optimizer_seconds / b.seconds);
}

void step(const BenchArguments& a) {
  const Config config = config_of(a);
  const StepBench b = bench_step(config, a.steps, true, say_on_stderr);
  if (a.json) {
    fmt::print("{}\n", to_json(config, b).dump());
    return;
  }
  print_ops(b);
  fmt::print("\n{} parameters on {}\n", parameter_count(config.model),
             device_of(config.run.device).name());
  fmt::print("{} in {:.3f} s: {:.0f} tokens/s\n", counted(b.tokens, "token"), b.seconds,
             b.tokens_per_second());
  if (const Mfu mfu(config, b); mfu.peak > 0) {
    fmt::print(
        "MFU {:.1f}% of {:.0f} TFLOP/s with causal attention counted half, {:.1f}% in full\n",
        100 * mfu.causal, mfu.peak / 1e12, 100 * mfu.full);
  }
  fmt::print("linear layers: {:.1f}% of the time; whole step {:.0f} GFLOP/s of their flops\n",
             100 * b.linear_share(), b.linear_flops / b.seconds / 1e9);
  fmt::print(
      "the same products without other ops: {:.0f} GFLOP/s; the step reaches {:.1f}% of that\n",
      b.linear_flops / b.ceiling_seconds / 1e9, 100 * b.of_ceiling());
  fmt::print("memory planned {}, peak resident {}{}\n", bytes_to_text(b.planned_bytes),
             bytes_to_text(b.peak_resident_bytes),
             config.run.device == DeviceKind::cpu ? "" : " of host memory");
}

void op(const BenchArguments& a) {
  const Config config = config_of(a);
  const StepBench b = bench_step(config, a.steps, true, say_on_stderr);
  if (a.json) {
    fmt::print("{}\n", to_json(config, b)["ops"].dump());
  } else {
    print_ops(b);
  }
}

std::vector<LinearShape> parse_shapes(const std::vector<std::string>& texts) {
  if (texts.empty()) {
    return {{4096, 768, 2304},
            {4096, 768, 768},
            {4096, 768, 3072},
            {4096, 3072, 768},
            {2048, 768, 50304}};
  }
  std::vector<LinearShape> shapes;
  for (const std::string& text : texts) {
    LinearShape shape{};
    char end = 0;
    if (std::sscanf(text.c_str(), "%ldx%ldx%ld%c", &shape.rows, &shape.in, &shape.out, &end) != 3 ||
        shape.rows < 1 || shape.in < 1 || shape.out < 1) {
      fail_input("expected a shape ROWSxINxOUT such as 4096x768x3072, found '{}'", text);
    }
    shapes.push_back(shape);
  }
  return shapes;
}

void gemm(const BenchArguments& a) {
  const auto shapes = parse_shapes(a.shapes);
  const auto timings =
      with_compute_type(compute_dtype(*find_choice<Precision>(a.precision)),
                        [&]<class T>(T) { return cpu::time_linear_products<T>(shapes); });
  const char* names[] = {"forward", "input_grad", "weight_grad"};
  nlohmann::json rows = nlohmann::json::array();
  if (!a.json)
    fmt::print("{:<12} {:>22} {:>10} {:>10}\n", "product", "rows x in x out", "ms", "GFLOP/s");
  for (const cpu::GemmTiming& t : timings) {
    const char* name = names[static_cast<int>(t.product)];
    rows.push_back({{"product", name},
                    {"rows", t.shape.rows},
                    {"in", t.shape.in},
                    {"out", t.shape.out},
                    {"seconds", t.seconds},
                    {"gflops", t.gflops}});
    if (a.json) continue;
    fmt::print("{:<12} {:>22} {:>10.3f} {:>10.0f}\n", name,
               fmt::format("{} x {} x {}", t.shape.rows, t.shape.in, t.shape.out), 1e3 * t.seconds,
               t.gflops);
  }
  if (a.json) fmt::print("{}\n", rows.dump());
}

void machine(const BenchArguments& a) {
  constexpr double timeout_s = 600;
  const JoinedJob job(DeviceKind::cpu, timeout_s);
  run_guarded(job.transport(), [&] {
    const bool leads = job.transport().place().rank == 0;
    require_new_file(a.output);
    const std::string text = machine_file(measure_machine(
        job.transport(), leads ? say_on_stderr : std::function<void(const std::string&)>()));
    if (!leads) return;
    if (a.output.empty()) {
      fmt::print("{}", text);
    } else {
      write_file_durably(a.output, text);
      fmt::print("machine written to {}: trireme plan FILE.toml --machine {}\n", a.output,
                 a.output);
    }
  });
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Measure matrix products, ops and training steps");
  command->require_subcommand(1);
  auto a = std::make_shared<BenchArguments>();
  auto* products =
      command->add_subcommand("gemm", "Measure the three matrix products of linear layers");
  products->add_option("--shape", a->shapes, "ROWSxINxOUT; default: the shapes of GPT-2 124M");
  products->add_option("--precision", a->precision, "Element type of the operands")
      ->check(CLI::IsMember(names_of<Precision>()))
      ->capture_default_str();
  products->add_flag("--json", a->json, "Print the figures as JSON");
  products->callback([a] { gemm(*a); });
  auto* whole = command->add_subcommand(
      "machine",
      "Measure this machine's processors and write the file that plan --machine reads; under "
      "mpirun: with that many ranks");
  whole->add_option("-o,--output", a->output,
                    "Write to this file, which must not exist, instead of the terminal");
  whole->callback([a] { machine(*a); });
  const auto add = [&](const char* name, const char* help, void (*run)(const BenchArguments&)) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("--config", a->file, "TOML file; default: GPT-2 124M, micro-batch 4 x 1024");
    sub->add_option("overrides", a->overrides, "section.key=value, e.g. run.precision=fp32");
    sub->add_option("--steps", a->steps, "Number of timed steps, after one for warm-up")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    sub->add_flag("--json", a->json, "Print the figures as JSON");
    sub->callback([a, run] { run(*a); });
  };
  add("op", "Measure time, flops and bytes of every op in a training step", op);
  add("step", "Compare a training step with its matrix products", step);
}

}  // namespace trireme::cli
