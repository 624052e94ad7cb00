"""Distributed checkpoints that megatron-core writes on several processes, against what Megatron's older format
holds of the same model and against the moments that were put in."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from read_checkpoint import read_checkpoint  # noqa: E402

MAKE = ROOT / "tests/interop/data/make_torch_dist_folders.py"
CASES = {
    "gpt": dict(llama=False, tp=1, pp=1),
    "llama": dict(llama=True, tp=2, pp=2),
    "layers_apart": dict(llama=True, tp=2, pp=1, stacked=False),
    "tied_over_stages": dict(llama=False, tp=1, pp=2),
}


@pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")
@pytest.mark.parametrize("case", CASES)
def test_torch_dist_is_read(trireme, tmp_path, case):
    subprocess.run([sys.executable, MAKE, tmp_path, json.dumps(CASES[case])], check=True)
    for kind in ("torch_dist", "legacy"):
        trireme("convert", tmp_path / kind, tmp_path / ("run_" + kind))
    got, want = read_checkpoint(tmp_path / "run_torch_dist"), read_checkpoint(tmp_path / "run_legacy")
    first, second = "optimizer.first_moment.", "optimizer.second_moment."
    assert got.keys() == {kind + name for kind in ("", first, second) for name in want}
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name
        assert torch.equal(got[first + name], 0.5 * tensor), name
        assert torch.equal(got[second + name], tensor**2), name
