"""Writes deepspeed/huggingface_zero<STAGE>/: the models of hf/ (make_hf_models.py) trained by DeepSpeed itself
for some steps under Hugging Face's names, as its Trainer and accelerate do (needs torch, deepspeed,
transformers and safetensors).

    make_deepspeed_huggingface.py                          # the test data
    make_deepspeed_huggingface.py FOLDER STAGE CONFIG RANKS      # one folder, of a model with that config.json

`expected.safetensors` contains the full fp32 weights and the moments according to DeepSpeed, under
Hugging Face's names, with suffixes `.exp_avg` and `.exp_avg_sq` for the moments."""
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
STEPS, WORDS = 3, 61


def worker(out, stage, config_file):
    import deepspeed
    import transformers
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    from safetensors.torch import save_file
    deepspeed.init_distributed("gloo")
    config = transformers.AutoConfig.from_pretrained(config_file)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    vectors = [p for p in model.parameters() if p.dim() == 1]
    known = {id(p) for p in vectors}
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if id(p) not in known], "weight_decay": 0.1},
         {"params": vectors, "weight_decay": 0.0}], lr=2e-3, betas=(0.9, 0.95))
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": stage}, "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True, "gradient_clipping": 1.0})
    random = torch.Generator().manual_seed(torch.distributed.get_rank())
    for _ in range(STEPS):
        batch = torch.randint(0, WORDS, (2, 12), generator=random)
        engine.backward(engine(input_ids=batch, labels=batch).loss)
        engine.step()
    engine.save_checkpoint(out)
    expected = {}
    for name, parameter in model.named_parameters():
        expected[name] = safe_get_full_fp32_param(parameter).clone().contiguous()
        for key in ("exp_avg", "exp_avg_sq"):
            expected[f"{name}.{key}"] = safe_get_full_optimizer_state(parameter, key).clone().contiguous()
    if torch.distributed.get_rank() == 0:
        shutil.copy(Path(config_file), Path(out) / "config.json")
        save_file({name: tensor.float().reshape(tensor.shape) for name, tensor in expected.items()},
                  Path(out) / "expected.safetensors")


def write(out, stage, config_file, ranks):
    shutil.rmtree(out, ignore_errors=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
    running = [subprocess.Popen([sys.executable, __file__, "worker", out, str(stage), config_file],
                                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
               for rank in range(ranks)]
    if any(process.wait() for process in running):
        sys.exit(1)
    for name in ("zero_to_fp32.py",):
        (Path(out) / name).unlink(missing_ok=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif len(sys.argv) > 4:
        write(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        for stage in (2, 3):
            write(str(HERE / f"deepspeed/huggingface_zero{stage}"), stage,
                  str(HERE / "hf/llama_tied/config.json"), 2)
