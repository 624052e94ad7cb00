"""Passes of megatron-core on its own layouts, and ours on the same ones, from the same weights on the same samples: their
losses and the gradient of every parameter."""
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what Megatron compiles runs as it is written

from test_dcp import losses_of
from test_training import model_section, write_indexed_tokens

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests/formats/data")]
from make_torch_dist_folders import run_processes  # noqa: E402
from megatron_passes import BALANCE, COEFFICIENT, LR, MOMENTUM, train  # noqa: E402
from read_checkpoint import read_checkpoint  # noqa: E402

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("megatron"), reason="megatron-core is not installed")

PASSES, BATCH, MICRO_BATCH, END = 2, 8, 2, 63
STATES = "optimizer.first_moment."

MODELS = {
    "gpt": {}, "llama": dict(llama=True), "qk_norm": dict(llama=True, qk_norm=True),
    "experts": dict(llama=True, experts=4, balance="seq_aux_loss"),
    "shared_expert": dict(llama=True, experts=4, shared=16, balance="aux_loss"),
}
LAYOUTS = {
    "1": {}, "tp2": dict(tp=2), "tp2_sp": dict(tp=2, sp=True), "pp2": dict(pp=2), "dp2": dict(dp=2), "ep2": dict(dp=2, ep=2),
    "tp2_pp2": dict(tp=2, pp=2), "tp2_sp_pp2": dict(tp=2, sp=True, pp=2), "tp2_dp2": dict(tp=2, dp=2),
    "tp2_sp_dp2": dict(tp=2, sp=True, dp=2), "pp2_dp2": dict(pp=2, dp=2), "tp2_sp_ep2": dict(tp=2, sp=True, dp=2, ep=2),
    "pp2_ep2": dict(pp=2, dp=2, ep=2),
}


def fits(model, layout):
    """Megatron's experts need sequence parallelism where there is tensor parallelism."""
    experts = "experts" in MODELS[model]
    if model == "qk_norm":
        return layout.startswith("tp2") and "dp2" not in layout and "ep2" not in layout
    if experts:
        return "tp" not in LAYOUTS[layout] or "sp" in LAYOUTS[layout]
    return "ep" not in LAYOUTS[layout]


CASES = {f"{model}_{layout}": {**MODELS[model], **LAYOUTS[layout]}
         for model in MODELS for layout in LAYOUTS if fits(model, layout)}


def whole(case):
    return dict(dict(tp=1, pp=1, dp=1, ep=1, layers=2, micro_batch=MICRO_BATCH, passes=PASSES), **case)


def ranks_of(case):
    return case["tp"] * case["pp"] * case["dp"]


def settings_of(case, folder):
    settings = {
        "data.path": f'["{folder / "tokens"}"]', "data.split": '"1,0,0"', "train.iters": case["passes"],
        "train.micro_batch_size": case["micro_batch"], "train.global_batch_size": BATCH, "train.eval_interval": 0,
        "optimizer.name": "sgd", "optimizer.lr": LR, "optimizer.momentum": MOMENTUM, "optimizer.decay_style": "constant",
        "optimizer.weight_decay": 0, "optimizer.clip_grad": 0, "run.precision": "fp32", "run.dir": folder / "run",
        "checkpoint.load": folder / "start", "checkpoint.finetune": "true", "parallel.tp": case["tp"],
        "parallel.pp": case["pp"], "parallel.ep": case["ep"], "parallel.sequence_parallel": str("sp" in case).lower()}
    if "experts" in case:
        settings["moe.aux_loss"] = BALANCE[case["balance"]]
    if "end" in case:
        settings.update({"data.tokenizer": "null", "data.eod_mask_loss": "true"})
    return [f"{key}={value}" for key, value in settings.items()]


def samples_of(trireme, file, case, settings):
    """One list for each pass."""
    first = ["--first", case["passes"] * BATCH]
    samples = [s["tokens"] for s in trireme.lines("data", "samples", file, "--tokens", "--json", *first, *settings)]
    return [samples[at:at + BATCH] for at in range(0, len(samples), BATCH)]


def balance_of(case, samples):
    """The weight of the balance loss, which Megatron changes where each token counts the same (docs/from-megatron.md)."""
    if "experts" not in case:
        return []
    inputs = [token for batch in samples for sample in batch for token in sample[:-1]]
    factor = len(inputs) / sum(token != case.get("end") for token in inputs) / case["tp"]
    if case["balance"] == "seq_aux_loss":
        factor /= case["micro_batch"]
    return [f"moe.aux_loss_coeff={COEFFICIENT * (factor if 'per_token' in case else 1)}"]


def run_both(trireme, rng, folder, case):
    """Of both programs: the losses of the passes, and the sums of gradients by the names of parameters."""
    folder.mkdir(exist_ok=True)
    write_indexed_tokens(folder / "tokens", [min(END, int(80 * rng.random() ** 2)) for _ in range(4000)])
    file = folder / "run.toml"
    file.write_text("[model]\nnum_layers = 1\nhidden_size = 8\nnum_heads = 1\nseq_length = 16\nvocab_size = 64\n")
    samples = samples_of(trireme, file, case, settings_of(whole(dict(passes=case["passes"])), folder))
    run_processes(train, ranks_of(case), folder, dict(case, seed=rng.randrange(2**31)), samples)
    for name, run in (("weights", "start"), ("gradients", "expected")):
        trireme("convert", folder / name, folder / run)
    file.write_text(model_section(folder / "start"))
    ranks = ["--nproc", ranks_of(case)] if ranks_of(case) > 1 else []
    trireme("train", *ranks, file, *settings_of(case, folder), *balance_of(case, samples))
    states = read_checkpoint(folder / "run", lambda name: name.startswith(STATES))
    expected = json.loads((folder / "losses.json").read_text()), read_checkpoint(folder / "expected")
    return (losses_of(folder / "run"), {name[len(STATES):]: tensor for name, tensor in states.items()}), expected


def differences(got, want):
    """What differs by more than rounding, and by which share. A part of some gradients is noise (that of a key's bias)."""
    assert got.keys() == want.keys()
    noise = 1e-6 * max(tensor.abs().max() for tensor in want.values())
    shares = {name: ((got[name] - want[name]).abs().max() / (want[name].abs().max() + noise)).item() for name in want}
    print("largest share", max(shares.values()), max(shares, key=shares.get))
    return {name: share for name, share in shares.items() if not share < 2e-5}


@pytest.mark.parametrize("case", CASES)
def test_layouts_have_the_gradients_of_megatron(trireme, rng, tries, tmp_path, case):
    for number in range(tries(1)):
        (losses, got), (expected, want) = run_both(trireme, rng, tmp_path / str(number), whole(CASES[case]))
        assert losses == pytest.approx(expected, rel=1e-6)
        assert differences(got, want) == {}
        name = rng.choice(sorted(want))
        assert list(differences({**got, name: 1.001 * got[name]}, want)) == [name]


FORGOTTEN = {
    "_allreduce_non_tensor_model_parallel_grads": (
        dict(tp=2, sp=True), lambda name: "norm." in name or name.endswith(("out.bias", "down.bias"))),
    "_allreduce_word_embedding_grads": (dict(pp=2), lambda name: name == "embedding.word.weight"),
    "finish_grad_sync": (dict(dp=2), lambda name: True),
}


@pytest.mark.parametrize("function", FORGOTTEN)
def test_a_sum_that_is_forgotten_is_seen(trireme, rng, tmp_path, function):
    case, concerned = FORGOTTEN[function]
    (_, got), (_, want) = run_both(trireme, rng, tmp_path, whole(dict(case, forgotten=function, passes=1)))
    assert set(differences(got, want)) == {name for name in want if concerned(name)}


PER_TOKEN = {
    "gpt_dp2": dict(dp=2, end=END), "gpt_tp2_pp2": dict(tp=2, pp=2, end=END),
    "sequences": dict(MODELS["experts"]), "sequences_end": dict(MODELS["experts"], end=END),
    "sequences_tp2_sp": dict(MODELS["experts"], tp=2, sp=True),
    "batch_dp2": dict(MODELS["shared_expert"], dp=2), "batch_tp2_sp": dict(MODELS["shared_expert"], tp=2, sp=True),
}


@pytest.mark.parametrize("case", PER_TOKEN)
def test_tokens_count_the_same_if_megatron_is_told(trireme, rng, tmp_path, case):
    (losses, got), (expected, want) = run_both(trireme, rng, tmp_path, whole(dict(PER_TOKEN[case], per_token=True, passes=1)))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert differences(got, want) == {}


def test_micro_batches_count_the_same_in_megatron(trireme, rng, tmp_path):
    """Unless it is told otherwise, also where they hold unequal numbers of tokens."""
    (losses, got), (expected, want) = run_both(trireme, rng, tmp_path, whole(dict(dp=2, end=END, passes=1)))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert differences(got, want).keys() == want.keys()
