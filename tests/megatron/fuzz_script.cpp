// Fuzz target: launch scripts. Any bytes are read within the limits or refused; what comes out is
// TOML that reads back.
#include "config/config.h"
#include "fuzz.h"
#include "megatron/import.h"

FUZZ_SEEDS(
    {"A=${B:-1}\nif [ $A = 1 ]; then C=\"$C --bf16\"; fi\ntorchrun --nproc_per_node 2 "
     "pretrain_gpt.py --num-layers $((2*3)) ${L[@]} $C\n",
     "L=( --lr 1 # x\n)\nL+=(--fp16)\nfor i in 1 2; do X=$X$i; done\ncase $X in 1*|2) Y=2;; "
     "esac\nf() { eval \"$@\"; }\nf python pretrain_bert.py \"${L[@]}\" ${X%2} ${X//1/3}\n",
     "cat <<E > d.json\n{\"zero_optimization\":{\"stage\":2}}\nE\n[[ $1 == a* || ! -z $2 ]] "
     "&& srun -n 2 bash -c \"python pretrain_gpt.py --deepspeed_config d.json\"\n"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trireme::fuzz_reader([&] {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const trireme::megatron::Import import =
        trireme::megatron::import_script(text, {"run.sh", {"one", "two"}, {}}, "run.toml");
    trireme::parse_config(import.toml, "imported");
  });
}
