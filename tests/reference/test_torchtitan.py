"""Tests of checkpoints of torchtitan's own checkpoint manager, model and optimizers, which we read and continue, and of ours, which
torchtitan loads and continues. torchtitan is not among the requirements: pip install torchtitan."""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from test_dcp import losses_of
from test_training import write_indexed_tokens

ROOT = Path(__file__).resolve().parents[2]
MAKE = ROOT / "tests/formats/data/make_torchtitan_folder.py"
CASES = {
    "fused": dict(ranks=2, fused=True, tied=False),
    "apart": dict(ranks=1, fused=False, tied=False),
    "fused_tied": dict(ranks=3, fused=True, tied=True),
}
STEPS, BATCH = 6, 4
CONTINUED = {
    "one_rank": dict(ranks=1, fused=True, tied=False, first=STEPS, steps=STEPS),
    "ranks": dict(ranks=2, fused=True, tied=True, first=STEPS, steps=STEPS),
    "qwen3": dict(ranks=1, fused=True, tied=True, first=STEPS, steps=STEPS, qwen3=True),
    "apart": dict(ranks=2, fused=True, tied=False, first=STEPS, steps=STEPS, apart=True),
}

needs_torchtitan = pytest.mark.skipif(not importlib.util.find_spec("torchtitan"), reason="torchtitan is not installed")


def run(folder, case, *more, script=MAKE):
    subprocess.run([sys.executable, script, folder, json.dumps(case), *more], check=True)


def assert_same(got, want):
    for kind in ("weight", "exp_avg", "exp_avg_sq"):
        assert got[kind].keys() == want[kind].keys()
        for name, tensor in want[kind].items():
            assert torch.equal(got[kind][name], tensor), (kind, name)
    assert got["train_state"] == want["train_state"]


@needs_torchtitan
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


QWEN3 = """head_dim = 12
qk_norm = true
norm_eps = 1e-6"""


def run_file(folder, case):
    """The configuration of a run of a model with the sizes of make_torchtitan_folder.py."""
    file = folder / "run.toml"
    file.write_text(f"""[run]
precision = "fp32"
seed = {case["seed"]}
dir = "{folder / 'run'}"
[model]
family = "llama"
num_layers = 2
hidden_size = 32
num_heads = 4
num_kv_heads = 2
ffn_hidden_size = 48
seq_length = 16
vocab_size = 64
vocab_multiple = 1
activation = "swiglu"
tie_embeddings = {str(case["tied"]).lower()}
{QWEN3 if case.get("qwen3") else ""}
[data]
path = ["{folder / 'tokens'}"]
split = "1,0,0"
[train]
iters = {3 * STEPS}
micro_batch_size = {BATCH}
global_batch_size = {BATCH}
eval_interval = 0
[optimizer]
lr = 1e-3
beta2 = 0.95
eps = 1e-7
weight_decay = 0.1
decay_vectors = {str(not case.get("apart")).lower()}
clip_grad = 0
decay_style = "constant"
[checkpoint]
interval = {STEPS}
""")
    return file


@needs_torchtitan
@pytest.mark.parametrize("name", CONTINUED)
def test_training_continues_in_torchtitan_and_back(trireme, rng, tmp_path, name):
    case = dict(CONTINUED[name], seed=rng.randrange(1000))
    write_indexed_tokens(tmp_path / "tokens", [int(64 * rng.random() ** 3) for _ in range(4000)])
    file = run_file(tmp_path, case)
    trireme("train", file)
    lines = trireme.lines("data", "samples", file, "--tokens", "--json", "--first", 3 * STEPS * BATCH)
    samples = [line["tokens"] for line in lines]
    (tmp_path / "samples.json").write_text(json.dumps([samples[at:at + BATCH] for at in range(0, len(samples), BATCH)]))
    (tmp_path / "checkpoint").mkdir()
    start = next((tmp_path / "run").rglob(f"step-*{STEPS:02d}"))
    trireme("convert", "--to", "torchtitan", start, tmp_path / f"checkpoint/step-{STEPS}")
    run(tmp_path, case, script=ROOT / "tests/reference/torchtitan_continues.py")
    theirs, ours = json.loads((tmp_path / "losses.json").read_text()), losses_of(tmp_path / "run")
    print("\nlargest difference of a loss, there:", largest_difference(theirs[:STEPS], ours[STEPS:2 * STEPS]))
    assert theirs[:STEPS] == pytest.approx(ours[STEPS:2 * STEPS], rel=0, abs=1e-5)
    # The steps count.
    assert max(theirs) - min(theirs) > 1e-2
    told = trireme("convert", tmp_path / f"checkpoint/step-{2 * STEPS}", tmp_path / "back", "--config", file).stdout
    assert f"continues after step {2 * STEPS}" in told and "says otherwise" not in told, told
    trireme("train", tmp_path / "back/config.toml", f"run.dir={tmp_path / 'back_run'}")
    back = losses_of(tmp_path / "back_run")
    print("largest difference of a loss, back:", largest_difference(back, theirs[STEPS:]))
    assert back == pytest.approx(theirs[STEPS:], rel=0, abs=1e-5)


def largest_difference(got, want):
    assert len(got) == len(want) == STEPS
    return max(abs(a - b) for a, b in zip(got, want))
