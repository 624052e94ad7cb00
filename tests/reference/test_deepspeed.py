"""Folders that DeepSpeed writes on several processes, against the weights in fp32 and the moments that
DeepSpeed itself gives. DeepSpeed is not among the requirements: DS_BUILD_OPS=0 pip install deepspeed."""
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

MAKE = ROOT / "tests/interop/data/make_deepspeed_folders.py"
CASES = {
    "pipeline": dict(model="gpt2", tp=2, pp=2, dp=2, stage=1, dtype="bf16", pipeline=True),
    "untied": dict(model="llama", tp=2, pp=2, dp=1, stage=1, dtype="bf16", pipeline=True),
    "no_zero": dict(model="llama", tp=2, pp=1, dp=1, stage=0, dtype="fp32", pipeline=True),
    "fp32": dict(model="gpt2", tp=1, pp=1, dp=2, stage=1, dtype="fp32", pipeline=False),
    "zero2": dict(model="llama", tp=1, pp=1, dp=4, stage=2, dtype="bf16", pipeline=False),
    "zero3": dict(model="gpt2", tp=1, pp=1, dp=3, stage=3, dtype="bf16", pipeline=False),
    "universal_pipeline": dict(model="gpt2", tp=2, pp=2, dp=1, stage=1, dtype="bf16", pipeline=True, universal=True),
    "universal_untied": dict(model="llama", tp=2, pp=1, dp=2, stage=1, dtype="bf16", pipeline=True, universal=True),
    "universal_zero3": dict(model="llama", tp=1, pp=1, dp=2, stage=3, dtype="bf16", pipeline=False, universal=True),
}


needs_deepspeed = pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="deepspeed is not installed")


@needs_deepspeed
@pytest.mark.parametrize("case", CASES)
def test_deepspeed_is_read(trireme, tmp_path, case):
    folder = tmp_path / "deepspeed"
    subprocess.run([sys.executable, MAKE, folder, json.dumps(CASES[case])], check=True)
    trireme("convert", folder, tmp_path / "run")
    got, want = read_checkpoint(tmp_path / "run"), load_file(folder / "expected.safetensors")
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name


@needs_deepspeed
def test_universal_checkpoints_that_leave_something_open(trireme, tmp_path):
    """Rows of gates whose order is not said are refused; a count of the run's steps is not the optimizer's."""
    folder = tmp_path / "deepspeed"
    case = CASES["universal_untied"]
    subprocess.run([sys.executable, MAKE, folder, json.dumps(case)], check=True)
    step = next(path for path in folder.glob("*_universal") if path.is_dir())

    def change(path, **values):
        content = torch.load(path, weights_only=False)
        content.update(values)
        torch.save(content, path)

    for path in step.glob("mp_rank_*_model_states.pt"):
        change(path, global_steps=7)
    told = trireme("convert", folder, tmp_path / "run")
    assert "the optimizer took 3 of the 7 steps of the run" in told.stdout + told.stderr
    for path in step.glob("mp_rank_*_model_states.pt"):
        change(path, global_steps=2)
    told = trireme("convert", folder, tmp_path / "refused", code=2)
    assert "is of step 3 of the optimizer" in told.stderr
    for path in step.glob("mp_rank_*_model_states.pt"):
        change(path, global_steps=3)
    gates = [path for path in step.glob("zero/*/exp_avg.pt") if "dense_h_to_4h" in str(path)]
    change(gates[0], param_n_sub_params=1)
    told = trireme("convert", folder, tmp_path / "refused", code=2)
    assert "param_n_sub_params 2" in told.stderr
