"""Tests of checkpoints of torchtitan's own checkpoint manager, model and optimizers, which we read, and of ours, which
torchtitan loads. torchtitan is not among the requirements: pip install torchtitan."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
MAKE = ROOT / "tests/formats/data/make_torchtitan_folder.py"
CASES = {
    "fused": dict(ranks=2, fused=True, tied=False),
    "apart": dict(ranks=1, fused=False, tied=False),
    "fused_tied": dict(ranks=3, fused=True, tied=True),
}


def run(folder, case, *more):
    subprocess.run([sys.executable, MAKE, folder, json.dumps(case), *more], check=True)


def assert_same(got, want):
    for kind in ("weight", "exp_avg", "exp_avg_sq"):
        assert got[kind].keys() == want[kind].keys()
        for name, tensor in want[kind].items():
            assert torch.equal(got[kind][name], tensor), (kind, name)
    assert got["train_state"] == want["train_state"]


@pytest.mark.skipif(not importlib.util.find_spec("torchtitan"), reason="torchtitan is not installed")
@pytest.mark.parametrize("name", CASES)
def test_torchtitan_there_and_back(trireme, tmp_path, name):
    case = CASES[name]
    run(tmp_path / "theirs", case)
    want = torch.load(tmp_path / "theirs/expected.pt")
    told = trireme("convert", tmp_path / "theirs/checkpoint/step-3", tmp_path / "run", "--config",
                   tmp_path / "theirs/config.json").stdout
    assert "continues after step 3" in told
    from safetensors.torch import load_file
    trireme("convert", "--to", "hf", tmp_path / "run", tmp_path / "hf")
    weights = load_file(tmp_path / "hf/model.safetensors")
    for tensor_name, tensor in want["weight"].items():
        if tensor_name in weights or not case["tied"]:
            assert torch.equal(weights[tensor_name], tensor), tensor_name
    (tmp_path / "ours/checkpoint").mkdir(parents=True)
    trireme("convert", "--to", "torchtitan", tmp_path / "run", tmp_path / "ours/checkpoint/step-3")
    # We write torchtitan's newest format, with fused queries, keys and values.
    run(tmp_path / "ours", dict(case, fused=True), "load")
    assert_same(torch.load(tmp_path / "ours/loaded.pt"), want)
