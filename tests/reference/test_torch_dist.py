"""Distributed checkpoints that megatron-core writes on several processes, against what Megatron's older format
holds of the same model and against the moments that were put in."""
import dataclasses
import importlib.util
import json
import pickle
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
    "flat": dict(llama=True, tp=2, pp=2, dp=2, bucket=2000),
    "flat_one_rank": dict(llama=False, tp=1, pp=1, dp=1),
    "flat_tied_over_stages": dict(llama=False, tp=1, pp=2, dp=3, bucket=5000, stacked=False),
    "reshardable": dict(llama=True, tp=2, pp=1, dp=2, sharding="fully_reshardable"),
    "flat_virtual": dict(llama=False, tp=2, pp=2, dp=1, virtual=2, bucket=3000),
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


@pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")
def test_states_of_other_weights_are_left_out(trireme, tmp_path):
    """Where the weights of the optimizer, rounded, are not the model's: in buffers of two ranks that change places, and
    where megatron-core 0.16.1 itself shifts what it gathers from several small buckets."""
    swapped, shifted = tmp_path / "swapped", tmp_path / "shifted"
    case = dict(llama=True, tp=2, pp=1, dp=1, layers=1, bucket=2000)
    subprocess.run([sys.executable, MAKE, swapped, json.dumps(case)], check=True)
    file = next(swapped.rglob(".metadata"))
    metadata = pickle.loads(file.read_bytes())
    places = {index: metadata.storage_data[index] for index in metadata.storage_data if ".bucket_idx_0." in index.fqn}
    assert len(places) > 6
    for index in places:
        other = index.fqn.replace("group_idx_0", "group_idx_x").replace("group_idx_1", "group_idx_0")
        metadata.storage_data[index] = places[dataclasses.replace(index, fqn=other.replace("idx_x", "idx_1"))]
    file.write_bytes(pickle.dumps(metadata))
    subprocess.run([sys.executable, MAKE, shifted, json.dumps(dict(case, dp=2, sharding="fully_reshardable"))], check=True)
    for folder in (swapped, shifted):
        told = trireme("convert", folder / "torch_dist", folder / "run")
        assert "the states of its optimizer are left out" in told.stdout + told.stderr
        assert "its weights in fp32" in told.stdout + told.stderr
        trireme("convert", folder / "legacy", folder / "want")
        got, want = read_checkpoint(folder / "run"), read_checkpoint(folder / "want")
        assert got.keys() == want.keys()
        for name, tensor in want.items():
            assert torch.equal(got[name], tensor.bfloat16().to(got[name].dtype)), name


@pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")
def test_states_that_are_not_certain_are_left_out(trireme, tmp_path):
    """Moments whose step is not certain stay out, with a note; numbers that no run has are refused."""
    subprocess.run([sys.executable, MAKE, tmp_path, json.dumps(CASES["gpt"])], check=True)
    step = next((tmp_path / "torch_dist").glob("iter_*"))
    saved = torch.load(step / "common.pt", weights_only=False)

    def convert(code=0, steps=None, arguments=None, **values):
        common = {**saved, **values}
        common["args"] = type(saved["args"])(**{**vars(saved["args"]), **(arguments or {})})
        if steps is not None:
            common["optimizer"] = {"state": {"common_step": steps[0]},
                                   "param_groups": [{"step": count} for count in steps[1:]]}
        torch.save(common, step / "common.pt")
        out = tmp_path / "run"
        subprocess.run(["rm", "-rf", out], check=True)
        told = trireme("convert", tmp_path / "torch_dist", out, code=code)
        return told.stdout + told.stderr, set(read_checkpoint(out)) if code == 0 else set()

    left_out = "the states of its optimizer are left out"
    text, whole = convert()
    assert left_out not in text
    weights = {name for name in whole if not name.startswith("optimizer.")}
    assert len(whole) == 3 * len(weights)
    assert convert(steps=[3, 3, 3])[1] == whole
    for steps in ([3, 3, 2], [2.5, 2.5], [0, 0], [-1], [4], [float("nan")]):
        text, names = convert(steps=steps)
        assert left_out in text and names == weights, steps
    for value in (float("inf"), float("nan"), 1e300, -1.0, 0.5):
        text, _ = convert(code=2, arguments={"consumed_train_samples": value})
        assert "consumed_train_samples" in text and "a whole number" in text, value
    text, _ = convert(code=2, iteration=10**12, arguments={"consumed_train_samples": None, "global_batch_size": 10**12})
    assert "no run can read" in text
