"""Tests of folders that DeepSpeed writes on several processes, against the fp32 weights and the moments that
DeepSpeed itself returns. DeepSpeed is not among the requirements: DS_BUILD_OPS=0 pip install deepspeed."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from read_checkpoint import read_checkpoint  # noqa: E402
from test_dcp import losses_of  # noqa: E402
from test_training import write_indexed_tokens  # noqa: E402

HF = ROOT / "tests/formats/data/hf"
MAKE = ROOT / "tests/formats/data/make_deepspeed_folders.py"
CASES = {
    "pipeline": dict(model="gpt2", tp=2, pp=2, dp=2, stage=1, dtype="bf16", pipeline=True),
    "untied": dict(model="llama", tp=2, pp=2, dp=1, stage=1, dtype="bf16", pipeline=True),
    "no_zero": dict(model="llama", tp=2, pp=1, dp=1, stage=0, dtype="fp32", pipeline=True),
    "fp32": dict(model="gpt2", tp=1, pp=1, dp=2, stage=1, dtype="fp32", pipeline=False),
    "zero2": dict(model="llama", tp=1, pp=1, dp=4, stage=2, dtype="bf16", pipeline=False),
    "zero3": dict(model="gpt2", tp=1, pp=1, dp=3, stage=3, dtype="bf16", pipeline=False),
    "zero3_tp": dict(model="llama", tp=2, pp=1, dp=2, stage=3, dtype="bf16", pipeline=False),
    "fp16_zero1": dict(model="llama", tp=1, pp=1, dp=2, stage=1, dtype="fp16", pipeline=False, groups=True, steps=8),
    "fp16_zero2": dict(model="llama_tied", tp=1, pp=1, dp=3, stage=2, dtype="fp16", pipeline=False, steps=8),
    "fp16_zero3": dict(model="llama", tp=1, pp=1, dp=2, stage=3, dtype="fp16", pipeline=False, groups=True, steps=8),
    "fp16_pipeline": dict(model="gpt2", tp=2, pp=2, dp=1, stage=1, dtype="fp16", pipeline=True, steps=8),
    "fp16_flat": dict(model="gpt2", tp=1, pp=1, dp=1, stage=0, dtype="fp16", pipeline=False, groups=True, steps=8,
                      optimizer="fused"),
    "fp16_unfused": dict(model="llama", tp=2, pp=1, dp=1, stage=0, dtype="fp16", pipeline=False, groups=True, steps=8),
    "no_zero_modules": dict(model="gpt2", tp=1, pp=1, dp=2, stage=0, dtype="fp32", pipeline=False, groups=True),
    "bert": dict(model="megatron_bert", tp=1, pp=1, dp=2, stage=1, dtype="fp32", pipeline=False, groups=True),
    "bert_tp_fp16": dict(model="megatron_bert", tp=2, pp=1, dp=2, stage=2, dtype="fp16", pipeline=False, steps=8),
    "bert_zero3": dict(model="megatron_bert", tp=1, pp=1, dp=2, stage=3, dtype="bf16", pipeline=False),
    "universal_pipeline": dict(model="gpt2", tp=2, pp=2, dp=1, stage=1, dtype="bf16", pipeline=True, universal=True),
    "universal_untied": dict(model="llama", tp=2, pp=1, dp=2, stage=1, dtype="bf16", pipeline=True, universal=True),
    "universal_bert": dict(model="megatron_bert", tp=1, pp=1, dp=2, stage=1, dtype="fp32", pipeline=False,
                           universal=True),
    "universal_fp16": dict(model="llama", tp=1, pp=1, dp=2, stage=2, dtype="fp16", pipeline=False, steps=8,
                           universal=True),
    "universal_zero3": dict(model="llama", tp=1, pp=1, dp=2, stage=3, dtype="bf16", pipeline=False, universal=True),
}


needs_deepspeed = pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="deepspeed is not installed")


@needs_deepspeed
@pytest.mark.parametrize("case", CASES)
def test_deepspeed_is_read(trireme, tmp_path, case):
    folder = tmp_path / "deepspeed"
    subprocess.run([sys.executable, MAKE, folder, json.dumps(CASES[case])], check=True)
    told = trireme("convert", folder, tmp_path / "run").stdout
    assert ("continues after step" in told) == any(name.startswith("optimizer.") for name in
                                                 load_file(folder / "expected.safetensors"))
    got, want = read_checkpoint(tmp_path / "run"), load_file(folder / "expected.safetensors")
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name


STEPS, RANKS = 20, 2


@needs_deepspeed
@pytest.mark.parametrize("stage,universal", [(1, False), (2, False), (1, True)])
def test_a_run_of_deepspeed_continues_here(trireme, rng, tmp_path, stage, universal):
    """Two ranks train a Llama in fp32 for 20 steps, and save; our next 20 losses must equal theirs."""
    config = json.loads((HF / "llama/config.json").read_text())
    write_indexed_tokens(tmp_path / "tokens", [rng.randrange(config["vocab_size"]) for _ in range(4000)])
    case = dict(model="llama", tp=1, pp=1, dp=RANKS, stage=stage, dtype="fp32", pipeline=False, groups=True,
                steps=STEPS, samples=str(tmp_path / "samples.json"), universal=universal)
    trireme("convert", HF / "llama", tmp_path / "start")
    settings = [f"data.path={tmp_path / 'tokens'}", "data.split=1,0,0", f"train.iters={2 * STEPS}",
                f"train.global_batch_size={RANKS}", f"train.micro_batch_size={RANKS}", "train.eval_interval=0",
                "run.precision=fp32"]
    samples = trireme.lines("data", "samples", tmp_path / "start/config.toml", *settings, "--tokens", "--json",
                            "--first", 2 * STEPS * RANKS)
    (tmp_path / "samples.json").write_text(json.dumps([sample["tokens"] for sample in samples]))
    folder = tmp_path / "deepspeed"
    subprocess.run([sys.executable, MAKE, folder, json.dumps(case)], check=True)
    trireme("convert", folder, tmp_path / "run")
    trireme("train", tmp_path / "run/config.toml", *settings)
    got = losses_of(tmp_path / "run/train")
    losses = json.loads((folder / "losses.json").read_text())
    assert len(losses) == 2 * STEPS and len(got) == STEPS
    print("\nlargest difference of a loss:", max(abs(a - b) for a, b in zip(got, losses[STEPS:])))
    assert got == pytest.approx(losses[STEPS:], rel=0, abs=1e-5)


def changed(path, **values):
    content = torch.load(path, weights_only=False)
    content.update(values)
    torch.save(content, path)


@needs_deepspeed
def test_ranks_that_do_not_belong_together(trireme, tmp_path):
    """Files of another step, with other vocabulary padding, or absent: one message states the expected and the actual."""
    folder = tmp_path / "deepspeed"
    subprocess.run([sys.executable, MAKE, folder, json.dumps(CASES["fp16_unfused"])], check=True)
    step = next(path for path in folder.glob("global_step*") if path.is_dir())
    rank = step / "mp_rank_01_model_states.pt"
    sound = rank.read_bytes()

    def refusal():
        told = trireme("convert", folder, tmp_path / "refused", code=2)
        rank.write_bytes(sound)
        assert told.stderr.count("\n") == 1 and not (tmp_path / "refused").exists()
        return told.stderr

    changed(rank, iteration=16)
    assert "not of one step of one run: iteration is 8 in the first and 16 in the second" in refusal()
    arguments = torch.load(rank, weights_only=False)["args"]
    arguments.padded_vocab_size = 80
    changed(rank, args=arguments)
    assert "padded_vocab_size is 64 in the first and 80 in the second" in refusal()
    rank.unlink()
    assert "lacks 'mp_rank_01_model_states.pt': its arguments say 2 x 1 ranks" in refusal()


@needs_deepspeed
def test_universal_checkpoints_that_leave_something_open(trireme, tmp_path):
    """Gate rows of unknown order are refused; the run's step count is not the optimizer's."""
    folder = tmp_path / "deepspeed"
    case = CASES["universal_untied"]
    subprocess.run([sys.executable, MAKE, folder, json.dumps(case)], check=True)
    step = next(path for path in folder.glob("*_universal") if path.is_dir())

    for path in step.glob("mp_rank_*_model_states.pt"):
        changed(path, global_steps=7)
    told = trireme("convert", folder, tmp_path / "run")
    assert "the optimizer took 3 of the 7 steps of the run" in told.stdout + told.stderr
    for path in step.glob("mp_rank_*_model_states.pt"):
        changed(path, global_steps=2)
    told = trireme("convert", folder, tmp_path / "refused", code=2)
    assert "is from step 3 of the optimizer" in told.stderr
    for path in step.glob("mp_rank_*_model_states.pt"):
        changed(path, global_steps=3)
    gates = [path for path in step.glob("zero/*/exp_avg.pt") if "dense_h_to_4h" in str(path)]
    changed(gates[0], param_n_sub_params=1)
    told = trireme("convert", folder, tmp_path / "refused", code=2)
    assert "param_n_sub_params 2" in told.stderr
