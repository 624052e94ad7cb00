// Fuzz target: what launch scripts start. Any argument vector becomes TOML that reads back, or is
// refused.
#include "config/config.h"
#include "fuzz/fuzz.h"
#include "importers/megatron/import.h"

namespace {

// A literal with the zeros that separate its arguments.
template <std::size_t size>
std::string arguments(const char (&text)[size]) {
  return {text, size - 1};
}

}  // namespace

FUZZ_SEEDS({arguments("torchrun\0--nproc_per_node\0002\0pretrain_gpt.py\0--num-layers\0002\0"
                      "--hidden-size\00064\0--bf16\0--split\0'9,1'\0--eval-iters\0-1"),
            arguments("srun\0-N2\0python\0pretrain_bert.py\0--deepspeed_config\0d.json\0--lr=1"),
            arguments("deepspeed\0pretrain_gpt.py\0--glu-activation\0swiglu\0train.iters=3")})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trireme::fuzz_reader([&] {
    trireme::script::ScriptRun run;
    trireme::script::Call& call = run.calls.emplace_back();
    call.arguments.emplace_back();
    for (std::size_t i = 0; i < size; ++i) {
      if (data[i] == 0) {
        call.arguments.emplace_back();
      } else {
        call.arguments.back() += static_cast<char>(data[i]);
      }
    }
    call.files["d.json"] = std::string(data, data + size);
    const auto import = trireme::megatron::import_run(run, "run.sh", {.script = {}, .file = "x"});
    trireme::parse_config(import.toml, "imported");
  });
}
