"""The states of optimizers in Megatron's older format, which megatron-core's own classes keep on one and several
processes, against what these classes say each parameter has."""
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

MAKE = ROOT / "tests/formats/data/make_megatron_optimizer_folders.py"
CASES = {
    "bf16": dict(llama=True, tp=2, pp=2, dtype="bfloat16"),
    "fp16_tied_over_stages": dict(tp=1, pp=2, dtype="float16"),
    "fp32": dict(tp=2, pp=1, dtype="float32"),
    "bf16_4x2": dict(tp=4, pp=2, dtype="bfloat16"),
    "bert_bf16": dict(bert=True, tp=2, pp=2, dtype="bfloat16"),
    "bert_fp16": dict(bert=True, tp=1, pp=1, dtype="float16"),
}
PARTS = {"weights": "", "exp_avg": "optimizer.first_moment.", "exp_avg_sq": "optimizer.second_moment."}

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")


def make(cases):
    subprocess.run([sys.executable, MAKE, json.dumps({str(folder): case for folder, case in cases.items()})], check=True)


@pytest.fixture(scope="module")
def folders(request, tmp_path_factory):
    """Of all cases that run, made at once."""
    top = tmp_path_factory.mktemp("folders")
    wanted = {item.callspec.params["case"] for item in request.session.items
              if item.path == request.path and hasattr(item, "callspec")}
    make({top / name: CASES[name] for name in wanted})
    return top


@pytest.mark.parametrize("case", CASES)
def test_states_are_read(trireme, tmp_path, folders, case):
    for kind in ("legacy", *PARTS):
        trireme("convert", folders / case / kind, tmp_path / ("run_" + kind))
    got = read_checkpoint(tmp_path / "run_legacy")
    want = {prefix + name: tensor for kind, prefix in PARTS.items()
            for name, tensor in read_checkpoint(tmp_path / ("run_" + kind)).items()}
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name


def test_states_that_are_not_read_are_left_out(trireme, tmp_path):
    """Of other optimizers and of the distributed one: the weights come alone, with a note."""
    make({tmp_path: dict(CASES["fp32"], tp=1)})
    file = next((tmp_path / "legacy").rglob("model_optim_rng.pt"))
    saved = torch.load(file, weights_only=False)
    groups = saved["optimizer"]["param_groups"]
    for number, (optimizer, why) in enumerate([
            ([saved["optimizer"]] * 2, "several optimizers"),
            ({"optimizer": {"param_groups": groups}}, "distrib_optim.pt"),
            ({"state": {0: {"momentum_buffer": torch.zeros(1)}}, "param_groups": groups}, "it was not Adam"),
            ({"state": {}, "param_groups": groups}, "no step"),
            (dict(saved["optimizer"], param_groups=groups * 2), "4 groups of parameters")]):
        torch.save(dict(saved, optimizer=optimizer), file)
        told = trireme("convert", tmp_path / "legacy", tmp_path / f"run{number}")
        assert why in told.stdout + told.stderr
        assert not any(name.startswith("optimizer.") for name in read_checkpoint(tmp_path / f"run{number}"))
