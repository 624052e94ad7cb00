"""Models with gated delta nets (Qwen3-Next and 3.5) or Mamba-2 (Granite 4, Nemotron-H), and Llama 4 in
64 bits, over sequences of several chunks: logits and 20 training steps are those of transformers,
whose code computes in 32 bits unless told otherwise."""
import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from random_models import make_model
from test_weights import WRITTEN_AS
from test_training import (BATCH, STEPS, model_section, optimizer_settings, run_file,
                           train_in_pytorch)

SEQ = 96


class DoubleTorch:
    """torch, with fp64 where code asks for fp32."""
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture
def in_double(monkeypatch):
    """Returns in_double(model), after which the model computes in 64 bits, or None if this script
    does not implement a form of the rotary angles."""
    def convert(model):
        config = model.config
        rotary = getattr(model.model, "rotary_emb", None)
        parameters = config.rope_parameters if rotary else {"rope_type": "default", "rope_theta": 1.0}
        if parameters["rope_type"] not in ("default", "linear"):
            return None
        turned = int(config.head_dim * parameters.get("partial_rotary_factor", 1.0))
        pairs = torch.arange(0, turned, 2, dtype=torch.float64)
        frequencies = parameters["rope_theta"] ** (-pairs / turned) / parameters.get("factor", 1.0)

        def angles(x, position_ids):
            if position_ids.ndim == 3:  # of time, height and width, which are those of the text
                position_ids = position_ids[0]
            turns = position_ids[..., None].double() * frequencies
            if config.model_type == "llama4_text":
                return torch.polar(torch.ones_like(turns), turns)
            turns = torch.cat([turns, turns], -1)
            return turns.cos(), turns.sin()

        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
        monkeypatch.setattr(sys.modules[type(model).__module__], "torch", DoubleTorch())
        model = model.double()
        if hasattr(config, "num_experts") or config.model_type in ("granitemoehybrid", "nemotron_h"):
            model.set_experts_implementation("eager")
        if rotary is not None:
            rotary.forward = angles
        return model
    return convert


def make_double(kind, rng, in_double):
    while True:
        model = make_model(kind, rng)
        has_some = kind == "llama4" or "linear_attention" in model.config.layer_types
        if has_some and in_double(model):
            return model


def in_names_of_parts(state, config):
    """The tensors of a Qwen3-Next under the names that Qwen3.5 has, which splits the projections of
    linear attention."""
    keys = config.linear_num_key_heads
    key, value = (config.linear_key_head_dim,
                  config.linear_num_value_heads // keys * config.linear_value_head_dim)
    each = config.linear_num_value_heads // keys
    parts = {}
    for name, weight in state.items():
        by_head = weight.reshape(keys, -1, weight.shape[-1]) if "in_proj_" in name else None
        if name.endswith("in_proj_qkvz.weight"):
            q, k, v, z = by_head.split([key, key, value, value], 1)
            parts[name.replace("qkvz", "qkv")] = torch.cat([x.flatten(0, 1) for x in (q, k, v)])
            parts[name.replace("qkvz", "z")] = z.flatten(0, 1)
        elif name.endswith("in_proj_ba.weight"):
            b, a = by_head.split([each, each], 1)
            parts[name.replace("ba", "b")] = b.flatten(0, 1)
            parts[name.replace("ba", "a")] = a.flatten(0, 1)
        else:
            parts[name] = weight
    return parts


MODELS = ["qwen3_next", "qwen3_5", "qwen3_5_moe", "llama4", "granite_hybrid", "nemotron_h"]


@pytest.mark.parametrize("kind", MODELS)
def test_logits_are_those_of_transformers(trireme, rng, tries, tmp_path, in_double, kind):
    for number in range(tries(4)):
        folder = tmp_path / str(number)
        model = make_double(kind, rng, in_double)
        model.save_pretrained(folder / "hf")
        trireme("convert", "--from", "hf", folder / "hf", folder / "run")
        lines = [[rng.randrange(model.config.vocab_size) for _ in range(count)]
                 for count in (1, 63, 64, 150, 200)]
        (folder / "ids.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        # Scores are written as numbers of 32 bits.
        for precision, tolerance in (("fp64", 1e-7), ("fp32", 1e-4)):
            trireme("score", folder / "run", "--ids", folder / "ids.jsonl", "--output",
                    folder / "logits.safetensors", "--set", f"run.precision={precision}",
                    "--set", "model.seq_length=200", "--set", "model.max_positions=200")
            got = load_file(folder / "logits.safetensors")
            for s, line in enumerate(lines):
                with torch.no_grad():
                    want = model(input_ids=torch.tensor([line])).logits[0]
                difference = (got[f"logits.{s}"] - want).abs().max() / want.abs().max()
                assert difference <= tolerance, (precision, len(line), difference)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_fp64_training_follows_pytorch(trireme, tmp_path, rng, in_double, optimizer, kind):
    model = make_double(kind, rng, in_double)
    model.save_pretrained(tmp_path / "hf")
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "start")
    settings = optimizer_settings(optimizer, rng)
    settings["lr"] /= 10  # routers amplify rounding differences
    tokens = [rng.randrange(model.config.vocab_size) for _ in range(4 * STEPS * BATCH * SEQ)]
    file = run_file(tmp_path, model_section(tmp_path / "start"), tokens, settings)
    overrides = [f"model.seq_length={SEQ}", f"model.max_positions={SEQ}", "moe.aux_loss_coeff=0",
                 "model.attention_dropout=0", "model.hidden_dropout=0"]
    if any("correction_bias" in name for name, _ in model.named_buffers()):
        overrides.append("moe.bias_update_rate=0")  # transformers does not balance them
    samples = [s["tokens"] for s in trireme.lines(
        "data", "samples", file, "--tokens", "--json", "--first", STEPS * BATCH, *overrides)]
    trireme("train", file, f"run.dir={tmp_path / 'run'}", f"checkpoint.load={tmp_path / 'start'}",
            "checkpoint.finetune=true", *overrides)
    expected = train_in_pytorch(model, samples, settings)
    metrics = [json.loads(line)
               for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [m["loss"] for m in metrics] == pytest.approx(expected, rel=1e-8)
    trireme("convert", "--to", "hf", tmp_path / "run", tmp_path / "trained")
    trained = WRITTEN_AS.get(kind, type(model)).from_pretrained(tmp_path / "trained",
                                                                dtype=torch.float64)
    ours, theirs = trained.state_dict(), model.state_dict()
    if kind in WRITTEN_AS:
        ours = in_names_of_parts(ours, model.config)
    assert ours.keys() == theirs.keys()
    for name, want in theirs.items():
        difference = ((ours[name] - want).abs().max() / want.abs().max()).item()
        assert difference <= 1e-8, f"{name}: {difference:.1e} with {settings}"


def test_modules_come_back(trireme, rng, tmp_path, in_double):
    """Published files hold a module of multi-token prediction, which transformers leaves out."""
    while True:
        model = make_model("qwen3_next", rng)
        config = model.config
        if config.layer_types[-1] == "full_attention" and len(config.mlp_only_layers) == 0 \
                and config.decoder_sparse_step == 1:
            break
    model.save_pretrained(tmp_path / "hf")
    weights = load_file(tmp_path / "hf/model.safetensors")
    last = f"model.layers.{config.num_hidden_layers - 1}."
    for name, weight in list(weights.items()):
        if name.startswith(last):
            weights[name.replace(last, "mtp.layers.0.")] = torch.randn_like(weight)
    h = config.hidden_size
    weights["mtp.fc.weight"] = torch.randn(h, 2 * h)
    for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        weights[f"mtp.{norm}.weight"] = torch.randn(h)
    save_file(weights, tmp_path / "hf/model.safetensors")
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "ours")
    assert "mtp_layers = 1" in model_section(tmp_path / "ours")
    trireme("convert", "--to", "hf", tmp_path / "ours", tmp_path / "back")
    back = load_file(tmp_path / "back/model.safetensors")
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weight) for name, weight in weights.items())
