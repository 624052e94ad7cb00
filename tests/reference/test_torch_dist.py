"""Tests of checkpoints that megatron-core writes on several processes, distributed ones and those of its distributed
optimizer in Megatron's older format, against the same model in the older format and the moments that were put in."""
import dataclasses
import importlib.util
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from read_checkpoint import read_checkpoint  # noqa: E402

MAKE = ROOT / "tests/formats/data/make_torch_dist_folders.py"
CASES = {
    "gpt": dict(tp=1, pp=1),
    "llama": dict(llama=True, tp=2, pp=2),
    "layers_apart": dict(llama=True, tp=2, pp=1, stacked=False),
    "tied_over_stages": dict(tp=1, pp=2),
    "bert": dict(bert=True, tp=2, pp=2),
}
# Cases with the distributed optimizer.
SHARED_CASES = {
    "flat": dict(llama=True, tp=2, pp=2, dp=2, bucket=2000),
    "flat_one_rank": dict(tp=1, pp=1, dp=1),
    "flat_tied_over_stages": dict(tp=1, pp=2, dp=3, bucket=5000, stacked=False),
    "flat_virtual": dict(tp=2, pp=2, dp=1, virtual=2, bucket=3000),
    "flat_4x2": dict(tp=4, pp=2, dp=1),
    "flat_fp16": dict(llama=True, tp=2, pp=1, dp=2, dtype="float16"),
    "flat_fp32": dict(tp=1, pp=1, dp=2, dtype="float32", hidden=20, bucket=1000),
    "flat_bert": dict(bert=True, tp=2, pp=2, dp=2, bucket=2000),
    "reshardable": dict(llama=True, tp=2, pp=1, dp=2, sharding="fully_reshardable"),
    "tight": dict(tp=2, pp=2, dp=1, older="tight"),
    "buckets": dict(llama=True, tp=1, pp=2, dp=1, older="buckets"),
}
EXPERT_CASES = {
    "experts": dict(llama=True, tp=1, pp=1, experts=4),
    "experts_of_ranks": dict(llama=True, tp=1, pp=2, experts=4, ep=2, shared=10),
    "some_layers": dict(llama=True, tp=2, pp=1, experts=4, ep=2, frequency=[0, 1, 1, 1]),
}
NAMES = {"mlp.experts.up": "mlp.experts.experts.linear_fc1", "mlp.experts.down": "mlp.experts.experts.linear_fc2",
         "mlp.router": "mlp.router", "mlp.shared.up": "mlp.shared_experts.linear_fc1",
         "mlp.shared.down": "mlp.shared_experts.linear_fc2", "attention.qkv": "self_attention.linear_qkv",
         "attention.out": "self_attention.linear_proj"}

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")


def make(cases):
    subprocess.run([sys.executable, MAKE, json.dumps({str(folder): case for folder, case in cases.items()})], check=True)


@pytest.fixture(scope="module")
def folders(request, tmp_path_factory):
    """The folders of all cases that run, created at once."""
    top = tmp_path_factory.mktemp("folders")
    chosen = [item.callspec.params for item in request.session.items
              if item.path == request.path and hasattr(item, "callspec")]
    wanted = {params["case"] for params in chosen if "case" in params} | {"gpt", "flat_bert"}
    all_cases = {**CASES, **SHARED_CASES}
    make({top / name: all_cases[name] for name in wanted})
    return top


def assert_holds_states(got, want):
    first, second = "optimizer.first_moment.", "optimizer.second_moment."
    assert got.keys() == {kind + name for kind in ("", first, second) for name in want}
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name
        assert torch.equal(got[first + name], 0.5 * tensor), name
        assert torch.equal(got[second + name], tensor**2), name


def compare(trireme, folder, kind, tmp_path):
    for one in (kind, "legacy"):
        trireme("convert", folder / one, tmp_path / one)
    assert_holds_states(read_checkpoint(tmp_path / kind), read_checkpoint(tmp_path / "legacy"))


@pytest.mark.parametrize("case", [*CASES, *SHARED_CASES])
def test_torch_dist_is_read(trireme, tmp_path, folders, case):
    compare(trireme, folders / case, "torch_dist", tmp_path)


def read_by_torch(step):
    """Returns all tensors of a folder, as torch.distributed.checkpoint reads them."""
    reader = dcp.FileSystemReader(str(step))
    stored = reader.read_metadata().state_dict_metadata
    state = {name: torch.empty(one.size, dtype=one.properties.dtype) for name, one in stored.items()
             if isinstance(one, TensorStorageMetadata)}
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


@pytest.mark.parametrize("case", EXPERT_CASES)
def test_experts_are_read(trireme, tmp_path, case):
    make({tmp_path / "made": EXPERT_CASES[case]})
    want = read_by_torch(next(tmp_path.glob("made/torch_dist/iter_*")))
    trireme("convert", tmp_path / "made/torch_dist", tmp_path / "run")
    compared = 0
    for name, tensor in read_checkpoint(tmp_path / "run").items():
        _, layer, *module = name.removesuffix(".weight").split(".", 2)
        theirs = NAMES.get(module[0]) if module else None
        if theirs is None:
            continue
        stacked = want.get(f"decoder.layers.{theirs}.weight")
        whole = want[f"decoder.layers.{layer}.{theirs}.weight"] if stacked is None else stacked[int(layer)]
        assert torch.equal(tensor, whole.reshape(tensor.shape)), name
        compared += 1
    assert compared == {"experts": 20, "experts_of_ranks": 28, "some_layers": 17}[case]


@pytest.mark.parametrize("case", SHARED_CASES)
def test_the_distributed_optimizer_is_read(trireme, tmp_path, folders, case):
    """Reads distrib_optim.pt, next to weights in the type of the model."""
    compare(trireme, folders / case, "distributed", tmp_path)


def swap(step, one, other):
    """Swaps the files of two ranks."""
    first, second = step / one / "distrib_optim.pt", step / other / "distrib_optim.pt"
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)


def change(file, edit):
    saved = torch.load(file, weights_only=False)
    edit(saved)
    torch.save(saved, file)


def kept(saved):
    return next(iter(saved[0].values()))


UNFIT = {
    "another_rank": (lambda step: swap(step, "mp_rank_00_000", "mp_rank_01_000"), "has no place where the weights"),
    "another_stage": (lambda step: swap(step, "mp_rank_00_000", "mp_rank_00_001"), "do not fill them"),
    "a_rank_without": (lambda step: (step / "mp_rank_01_001/distrib_optim.pt").unlink(), "is not there"),
    "short": (lambda s: s.update(exp_avg=s["exp_avg"][:-1]), "elements as 'param' and"),
    "long": (lambda s: s.update({key: torch.cat([s[key], torch.zeros(64)]) for key in ("param", "exp_avg", "exp_avg_sq")}),
             "do not fill them"),
    "other_type": (lambda s: s.update(exp_avg_sq=s["exp_avg_sq"].double()), "a whole vector of F32 was expected"),
    "matrix": (lambda s: s.update(param=s["param"][None]), "a whole vector of F32 was expected"),
    "repeated": (lambda s: s.update(exp_avg=torch.zeros(1).expand(len(s["exp_avg"]))), "a whole vector of F32 was expected"),
    "shorter": (lambda s: s.update({key: s[key][:99].clone() for key in ("param", "exp_avg", "exp_avg_sq")}), "which have more"),
    "without_moments": (lambda s: s.pop("exp_avg"), "has no 'exp_avg'"),
    "one_weight": (lambda s: s["param"][-1:].add_(1), "has no place where the weights"),
}


@pytest.mark.parametrize("wrong", UNFIT)
def test_states_that_do_not_fit_are_left_out(trireme, tmp_path, folders, wrong):
    edit, message = UNFIT[wrong]
    run = tmp_path / "distributed"
    shutil.copytree(folders / "flat_bert/distributed", run)
    step = next(run.glob("iter_*"))
    if "rank" in wrong or "stage" in wrong:
        edit(step)
    else:
        change(step / "mp_rank_00_001/distrib_optim.pt", lambda saved: edit(kept(saved)))
    told = trireme("convert", run, tmp_path / "run")
    assert "the states of its optimizer are left out" in told.stdout and message in told.stdout, told.stdout
    trireme("convert", folders / "flat_bert/legacy", tmp_path / "want")
    got, want = read_checkpoint(tmp_path / "run"), read_checkpoint(tmp_path / "want")
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor.bfloat16()), name


def test_states_of_other_weights_are_left_out(trireme, tmp_path):
    """The optimizer's rounded weights differ from the model's: in buffers of two ranks that are swapped, and
    where megatron-core 0.16.1 itself shifts what it gathers from several small buckets."""
    swapped, shifted = tmp_path / "swapped", tmp_path / "shifted"
    case = dict(llama=True, tp=2, pp=1, dp=1, layers=1, bucket=2000)
    make({swapped: case, shifted: dict(case, dp=2, sharding="fully_reshardable")})
    file = next(swapped.rglob(".metadata"))
    metadata = pickle.loads(file.read_bytes())
    places = {index: metadata.storage_data[index] for index in metadata.storage_data if ".bucket_idx_0." in index.fqn}
    assert len(places) > 6
    for index in places:
        other = index.fqn.replace("group_idx_0", "group_idx_x").replace("group_idx_1", "group_idx_0")
        metadata.storage_data[index] = places[dataclasses.replace(index, fqn=other.replace("idx_x", "idx_1"))]
    file.write_bytes(pickle.dumps(metadata))
    for folder in (swapped, shifted):
        told = trireme("convert", folder / "torch_dist", folder / "run")
        assert "the states of its optimizer are left out" in told.stdout + told.stderr
        assert "its weights in fp32" in told.stdout + told.stderr
        trireme("convert", folder / "legacy", folder / "want")
        got, want = read_checkpoint(folder / "run"), read_checkpoint(folder / "want")
        assert got.keys() == want.keys()
        for name, tensor in want.items():
            assert torch.equal(got[name], tensor.bfloat16().to(got[name].dtype)), name


def test_states_that_are_not_certain_are_left_out(trireme, tmp_path, folders):
    """Moments of an uncertain step are left out, with a note; impossible numbers are refused."""
    shutil.copytree(folders / "gpt/torch_dist", tmp_path / "torch_dist")
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
    # An optimizer counts the steps of parameters or those of groups, and the others may be those that it once loaded.
    for steps in ([3, 3, 3], [3, 2, 2], [2, 3, 3], [3]):
        assert convert(steps=steps)[1] == whole, steps
    for steps in ([3, 3, 2], [2, 1, 1], [3, 2, 1], [3, 4, 4], [3, 2.5], [2.5, 2.5], [0, 0], [-1], [4], [float("nan")]):
        text, names = convert(steps=steps)
        assert left_out in text and names == weights, steps
    for value in (float("inf"), float("nan"), 1e300, -1.0, 0.5):
        text, _ = convert(code=2, arguments={"consumed_train_samples": value})
        assert "consumed_train_samples" in text and "a whole number" in text, value
    text, _ = convert(code=2, iteration=10**12, arguments={"consumed_train_samples": None, "global_batch_size": 10**12})
    assert "not a valid position" in text
