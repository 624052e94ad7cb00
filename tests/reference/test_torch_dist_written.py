"""Training that begins here continues in megatron-core, which loads the distributed checkpoint that is written of it, on layouts of
its own, and saves one, from which it continues here; its losses and ours, on the same samples. megatron-core 0.16.1 is among the
requirements; newer ones need Python 3.12, and are run in an environment of their own (0.19.2 was):

    python3.12 -m venv ENV && ENV/bin/pip install megatron-core==0.19.2 torch numpy psutil pytest safetensors transformers
    ENV/bin/python -m pytest -rs tests/reference/test_torch_dist_written.py"""
import importlib.util
import json
import math
import os
import sys
from pathlib import Path

import pytest
import torch

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what Megatron compiles runs as it is written

from test_dcp import losses_of
from test_training import write_indexed_tokens

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests/formats/data")]
from make_torch_dist_folders import run_processes  # noqa: E402
from megatron_continues import continue_run  # noqa: E402
from read_checkpoint import read_checkpoint  # noqa: E402

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")

STEPS, BATCH, MICRO_BATCH = 6, 8, 2
LLAMA = dict(family="llama", num_kv_heads=2, tie_embeddings=False, activation="swiglu")
MODELS = {
    "gpt": dict(activation="gelu_erf"), "llama": LLAMA, "qk_norm": dict(LLAMA, qk_norm=True),
    "experts": dict(LLAMA, experts=4), "shared_expert": dict(LLAMA, experts=4, shared=16),
    "some_layers": dict(LLAMA, experts=4, layers=[1, 3]), "sinks": dict(LLAMA, attention_sinks=True),
    "biases": dict(LLAMA, experts=4, bias=True, qkv_bias=True, linear_bias=True, router_bias=True),
    "sigmoid": dict(LLAMA, experts=4, score="sigmoid", expert_bias=True, shared=16, shared_gate=True),
    "modules": dict(LLAMA, mtp_layers=2), "modules_experts": dict(LLAMA, experts=4, mtp_layers=1, layers=[2, 3]),
}
# Settings of the run that continues, which Megatron's arguments here do not have.
CONTINUED = {"data.split": '"1,0,0"', "train.iters": 3 * STEPS, "train.micro_batch_size": MICRO_BATCH,
             "train.global_batch_size": BATCH, "train.eval_interval": 0, "optimizer.clip_grad": 0, "run.precision": "fp32"}
OF_EXPERTS = dict(experts="num_experts", shared="shared_ffn_hidden_size", layers="layers", linear_bias="linear_bias",
                  router_bias="router_bias", score="score", expert_bias="expert_bias", shared_gate="shared_gate")
# `ours` is the layout of our run, the others are of megatron-core's; `saved` is the form in which its optimizer saves.
CASES = {
    "gpt": dict(model="gpt", saved="names"),
    "gpt_shared": dict(model="gpt", dp=2, distributed=True, saved="fully_reshardable"),
    "gpt_tp2_pp2": dict(model="gpt", tp=2, pp=2, distributed=True, saved="dp_reshardable"),
    "gpt_of_tp2": dict(model="gpt", ours=dict(tp=2), pp=2, distributed=True, saved="fully_reshardable"),
    "llama": dict(model="llama", saved="names"),
    "llama_of_tp2_pp2": dict(model="llama", ours=dict(tp=2, pp=2), distributed=True, saved="fully_reshardable"),
    "llama_tp2_sp": dict(model="llama", tp=2, sp=True, saved="names"),
    "llama_pp2_shared": dict(model="llama", ours=dict(tp=2), pp=2, dp=2, distributed=True, saved="dp_reshardable"),
    "qk_norm_tp2": dict(model="qk_norm", tp=2, distributed=True, saved="fully_reshardable"),
    "experts": dict(model="experts", saved="names"),
    "experts_ep2": dict(model="experts", ours=dict(ep=2), dp=2, ep=2, distributed=True, saved="fully_reshardable"),
    "experts_ep4": dict(model="experts", ours=dict(ep=2), dp=4, ep=4, distributed=True, saved="fully_reshardable"),
    "experts_ep2_pp2": dict(model="experts", ours=dict(ep=2), pp=2, dp=2, ep=2, distributed=True, saved="dp_reshardable"),
    "experts_ep2_tp2_sp": dict(model="experts", ours=dict(ep=4), tp=2, sp=True, dp=2, ep=2, distributed=True,
                               saved="fully_reshardable"),
    "shared_expert_pp2": dict(model="shared_expert", ours=dict(pp=4), pp=2, distributed=True, saved="dp_reshardable"),
    "some_layers_tp2_sp": dict(model="some_layers", tp=2, sp=True, saved="names"),
    "sinks_tp2": dict(model="sinks", tp=2, saved="names"),
    # megatron-core 0.16.1 does not train experts with biases on one rank of tensor parallelism.
    "biases": dict(model="biases", distributed=True, still=True), "sigmoid": dict(model="sigmoid", saved="names"),
    "modules": dict(model="modules", tp=2, saved="names"),
    "modules_experts": dict(model="modules_experts", distributed=True, saved="fully_reshardable"),
    "weights_alone": dict(model="llama", tp=2, alone=True), "rounded": dict(model="llama", tp=2, dtype="bf16"),
}


def write_run(file, tokens, model, seed):
    """The configuration of a run; its model has the sizes that make_model() gives every model."""
    of_model = dict(num_layers=4, hidden_size=32, num_heads=4, ffn_hidden_size=24, seq_length=16, vocab_size=64,
                    vocab_multiple=8, **{key: value for key, value in model.items() if key not in OF_EXPERTS})
    sections = {
        "run": dict(precision="fp32", seed=seed, dir=str(file.parent / "run")), "model": of_model,
        "data": dict(path=[str(tokens)], split="1,0,0"),
        "train": dict(iters=3 * STEPS, micro_batch_size=MICRO_BATCH, global_batch_size=BATCH, eval_interval=0),
        "optimizer": dict(name="adamw", lr=1e-2, beta2=0.95, weight_decay=0.1, clip_grad=0, decay_style="constant"),
        "checkpoint": dict(interval=STEPS)}
    if "experts" in model:
        sections["moe"] = dict(top_k=2, ffn_hidden_size=12, **{OF_EXPERTS[key]: value for key, value in model.items()
                                                               if key in OF_EXPERTS})
    file.write_text("".join(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                            for name, keys in sections.items()))


def train(trireme, layout, *more):
    ranks = math.prod(layout.values())
    settings = [f"parallel.{key}={value}" for key, value in layout.items()]
    trireme("train", *(["--nproc", ranks] if ranks > 1 else []), *more, *settings)


def largest_difference(got, want):
    assert len(got) == len(want)
    return max(abs(a - b) for a, b in zip(got, want))


@pytest.mark.parametrize("case", CASES)
def test_megatron_core_continues_what_is_written(trireme, rng, tmp_path, case):
    case = dict(dict(tp=1, pp=1, dp=1, micro_batch=MICRO_BATCH, ours={}), **CASES[case])
    tokens, file = tmp_path / "tokens", tmp_path / "run.toml"
    write_indexed_tokens(tokens, [int(64 * rng.random() ** 3) for _ in range(4000)])
    case["seed"] = rng.randrange(1000)
    write_run(file, tokens, MODELS[case["model"]], case["seed"])
    train(trireme, case["ours"], file)
    lines = trireme.lines("data", "samples", file, "--tokens", "--json", "--first", 3 * STEPS * BATCH)
    samples = [line["tokens"] for line in lines]
    batches = [samples[at:at + BATCH] for at in range(0, len(samples), BATCH)]
    start = next((tmp_path / "run").rglob(f"step-*{STEPS:02d}"))
    if case.get("alone"):
        # Weights that were imported have no states, and so have those that are written of them.
        trireme("convert", "--to", "hf", start, tmp_path / "hf")
        trireme("convert", tmp_path / "hf", tmp_path / "alone")
        start = tmp_path / "alone"
    dtype = ["--dtype", case["dtype"]] if "dtype" in case else []
    trireme("convert", "--to", "torch_dist", "--verify", *dtype, start, tmp_path / "written")
    step = next((tmp_path / "written").glob("*/.metadata")).parent
    assert step.name == ("release" if case.get("alone") else f"iter_{STEPS:07d}")
    run_processes(continue_run, case["tp"] * case["pp"] * case["dp"], tmp_path, step, case, batches[STEPS:2 * STEPS],
                  batches[2 * STEPS:])
    theirs, ours = json.loads((tmp_path / "losses.json").read_text()), losses_of(tmp_path / "run")[STEPS:2 * STEPS]
    steps = 1 if case.get("alone") or case.get("still") else STEPS
    difference = largest_difference(theirs[:steps], ours[:steps])
    print("\nlargest difference of a loss, there:", difference)
    assert difference < (2e-2 if dtype else 1e-5)
    # The steps and the states count.
    assert max(ours) - min(ours) > 1e-2 and (not case.get("alone") or abs(theirs[-1] - ours[-1]) > 1e-4)
    if "saved" in case:
        assert_continues_here(trireme, tmp_path, case, theirs[STEPS:])


def assert_continues_here(trireme, folder, case, theirs):
    """A run from what megatron-core saved after its steps, on another layout than ours was."""
    told = trireme("convert", folder / "saved", folder / "back").stdout
    if case["saved"] == "dp_reshardable" and "experts" in MODELS[case["model"]]:
        assert "the states of its optimizer are left out" in told and "--dist-ckpt-optim-fully-reshardable" in told, told
        return
    assert f"continues after step {2 * STEPS}" in told, told
    more = dict(CONTINUED, **{"run.seed": case["seed"], "data.path": f'["{folder / "tokens"}"]'})
    layout = {} if case["ours"] else dict(ep=2) if "experts" in MODELS[case["model"]] else dict(tp=2)
    if MODELS[case["model"]].get("expert_bias"):
        # Nothing trains this bias, so that no program has moments of it; a run here keeps them nevertheless.
        done = trireme("train", folder / "back/config.toml", *(f"{key}={value}" for key, value in more.items()), code=2)
        assert "has no tensor 'optimizer.first_moment.layers.0.mlp.router.bias'" in done.stderr
        return
    train(trireme, layout, folder / "back/config.toml", *(f"{key}={value}" for key, value in more.items()))
    difference = largest_difference(losses_of(folder / "back/train"), theirs)
    print("largest difference of a loss, back:", difference)
    assert difference < 1e-5


def test_what_is_written_is_read(trireme, rng, tmp_path):
    for name, model in MODELS.items():
        folder = tmp_path / name
        folder.mkdir()
        write_indexed_tokens(folder / "tokens", [rng.randrange(64) for _ in range(4000)])
        write_run(folder / "run.toml", folder / "tokens", model, 1)
        trireme("train", folder / "run.toml", "train.iters=2")
        trireme("convert", "--to", "torch_dist", "--verify", folder / "run", folder / "written")
        trireme("convert", folder / "written", folder / "again")
        got, want = read_checkpoint(folder / "again"), read_checkpoint(folder / "run")
        # No optimizer trains the bias that balances experts, and the moments that a run keeps of it mean nothing.
        unused = {key for key in want if key.startswith("optimizer.") and key.endswith(".mlp.router.bias")}
        assert got.keys() == want.keys() - unused
        for key, tensor in got.items():
            assert torch.equal(tensor, want[key]), key
