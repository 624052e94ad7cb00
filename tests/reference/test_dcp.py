"""Tests of torch.distributed.checkpoint folders: we read and train what PyTorch saves, and PyTorch
loads and trains what we write."""
import json
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
import transformers

from test_torch_folders import TYPES, assert_same_bits, divisible, model_of
from test_training import model_section, write_indexed_tokens

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats/data"))
from dcp_folders import huggingface_state, rotated, save, split, titan_name, titan_state  # noqa: E402

LAYOUTS = [((), ()), ((2,), ("rows",)), ((3,), ("rows",)), ((2, 2), ("rows", "columns")),
           ((2, 2), ("copies", "rows")), ((2,), ("columns",))]


def trained(model, settings, steps=2, seed=1):
    """Returns an AdamW whose states differ from those of a new one."""
    torch.manual_seed(seed)
    optimizer = adamw(model, settings)
    for _ in range(steps):
        tokens = torch.randint(model.config.vocab_size, (2, 6))
        model(input_ids=tokens).logits.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def adamw(model, settings, groups=False):
    parameters = list(model.parameters())
    if groups:
        parameters = [dict(params=[p for p in parameters if p.dim() > 1]),
                      dict(params=[p for p in parameters if p.dim() == 1], weight_decay=0.0)]
    return torch.optim.AdamW(parameters, **settings)


SETTINGS = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-7, weight_decay=0.1)


def tensors_of(run):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
    from read_checkpoint import read_checkpoint
    return read_checkpoint(run)


@pytest.mark.parametrize("names", ["huggingface", "titan", "old_titan"])
def test_folders_are_read(trireme, rng, tries, tmp_path, names):
    for i in range(tries(2)):
        folder = tmp_path / str(i)
        folder.mkdir()
        model = model_of("llama", rng, TYPES[i % 3])
        optimizer = trained(model, SETTINGS)
        state = huggingface_state(model, optimizer, 7) if names == "huggingface" else \
            titan_state(model, optimizer, 7, 7 * 4 * 16, old=names == "old_titan")
        shape, kinds = rng.choice(LAYOUTS)
        save(state, folder / "dcp", shape, kinds, threads=rng.choice([1, 2]))
        model.config.save_pretrained(folder)
        out = trireme("convert", folder / "dcp", folder / "run", "--config",
                      folder / "config.json").stdout
        assert "continues after step 7" in out
        assert_same_bits(trireme, folder / "run", model, folder / "back")
        ours = tensors_of(folder / "run")
        own = {name: p for name, p in model.named_parameters()}
        for ours_name, theirs in [("final_norm.weight", "model.norm.weight"),
                                  ("layers.1.attention.out.weight",
                                   "model.layers.1.self_attn.o_proj.weight"),
                                  ("embedding.word.weight", "model.embed_tokens.weight")]:
            moments = optimizer.state[own[theirs]]
            for which, key in [("first", "exp_avg"), ("second", "exp_avg_sq")]:
                got = ours[f"optimizer.{which}_moment.{ours_name}"]
                assert torch.equal(got, moments[key]), (ours_name, key)
        qkv = ours["optimizer.first_moment.layers.0.attention.qkv.weight"]
        heads, d = model.config.num_attention_heads, model.config.head_dim
        q = optimizer.state[own["model.layers.0.self_attn.q_proj.weight"]]["exp_avg"]
        per_group = heads // model.config.num_key_value_heads
        assert torch.equal(qkv[:per_group * d], q[:per_group * d])
        config = json.loads(next((folder / "run").rglob("manifest.json")).read_text())
        assert config["state"]["counters"]["optimizer_steps"] == 2
        assert config["state"]["step"] == 7
        text = config["state"]["config_toml"]
        for line in ["beta2 = 0.95", "weight_decay = 0.1", "decay_vectors = true", "lr = 0.001"]:
            assert line in text, line


def small_llama(rng):
    def change(rng, config):
        divisible(rng, config)
        config.num_hidden_layers, config.max_position_embeddings = 2, 16
        config.attention_dropout = 0.0
        return config
    return model_of("llama", rng, torch.float32, change)


STEPS, BATCH, LENGTH = 20, 4, 16


def run_toml(folder, section, tokens, decay_vectors):
    write_indexed_tokens(folder / "tokens", tokens)
    path = folder / "run.toml"
    path.write_text(f"""{section}
[data]
path = ["{folder / 'tokens'}"]
split = "1,0,0"
[train]
iters = {2 * STEPS}
micro_batch_size = {BATCH}
global_batch_size = {BATCH}
eval_interval = 0
[optimizer]
lr = 1e-3
beta2 = 0.95
eps = 1e-7
weight_decay = 0.1
decay_vectors = {str(decay_vectors).lower()}
clip_grad = 0.0
decay_style = "constant"
[run]
precision = "fp32"
""")
    return path


def train(model, optimizer, samples, first):
    losses = []
    for step in range(first, first + STEPS):
        batch = torch.tensor(samples[step * BATCH:(step + 1) * BATCH])
        logits = model(input_ids=batch[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of(run):
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def job(trireme, rng, tmp_path):
    """A model, the samples for its run, and the configuration of that run."""
    model = small_llama(rng)
    model.save_pretrained(tmp_path / "hf")
    trireme("convert", tmp_path / "hf", tmp_path / "start")
    tokens = [rng.randrange(model.config.vocab_size) for _ in range(4000)]
    return model, tokens, tmp_path


def samples_of(trireme, file):
    return [s["tokens"] for s in trireme.lines("data", "samples", file, "--tokens", "--json",
                                               "--first", 2 * STEPS * BATCH)]


@pytest.mark.parametrize("names", ["huggingface", "titan"])
def test_a_run_of_pytorch_continues_here(trireme, job, names):
    model, tokens, folder = job
    file = run_toml(folder, model_section(folder / "start"), tokens, decay_vectors=True)
    samples = samples_of(trireme, file)
    optimizer = adamw(model, SETTINGS)
    train(model, optimizer, samples, 0)
    state = huggingface_state(model, optimizer, STEPS) if names == "huggingface" else \
        titan_state(model, optimizer, STEPS, STEPS * BATCH * LENGTH)
    save(state, folder / "dcp")
    expected = train(model, optimizer, samples, STEPS)
    trireme("convert", folder / "dcp", folder / "run", "--config", file)
    trireme("train", folder / "run/config.toml")
    got = losses_of(folder / "run/train")
    assert len(got) == STEPS
    print("\nlargest difference of a loss:", max(abs(a - b) for a, b in zip(got, expected)))
    assert got == pytest.approx(expected, rel=0, abs=1e-5)


WRONG = {
    "without metadata": (lambda f: (f / ".metadata").unlink(), "has no '.metadata'"),
    "without a file": (lambda f: (f / "__1_0.distcp").unlink(), "'__1_0.distcp', which its .metadata refers to, is missing"),
    "a short file": (lambda f: (f / "__0_0.distcp").write_bytes(
        (f / "__0_0.distcp").read_bytes()[:-5000]), "__0_0.distcp"),
    "other content": (lambda f: (f / ".metadata").write_bytes(b"\x80\x02cos\nsystem\n."), "os.system"),
    "cut metadata": (lambda f: (f / ".metadata").write_bytes((f / ".metadata").read_bytes()[:-99]),
                     "it is cut off"),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_wrong_folders_are_refused(trireme, job, wrong):
    model, tokens, folder = job
    save(huggingface_state(model, None, 0), folder / "dcp", (2,), ("rows",))
    change, message = WRONG[wrong]
    change(folder / "dcp")
    done = trireme("convert", folder / "dcp", folder / "run", "--config",
                   folder / "hf/config.json", code=2)
    assert message in done.stderr and done.stderr.count("\n") <= 2, done.stderr
    assert not (folder / "run").exists()


def test_a_part_that_is_missing_or_twice_is_refused(trireme, job):
    import pickle
    model, tokens, folder = job
    save(huggingface_state(model, None, 0), folder / "dcp", (2,), ("rows",))
    path = folder / "dcp/.metadata"
    whole = path.read_bytes()
    for change, message in [("hole", "is incomplete: its parts hold"),
                            ("overlap", "overlap"), ("place", "lies in no file"),
                            ("version", "version")]:
        metadata = pickle.loads(whole)
        tensor = metadata.state_dict_metadata["model.model.norm.weight"]
        if change == "hole":
            metadata.storage_data = {k: v for k, v in metadata.storage_data.items()
                                     if (k.fqn, k.offset) != ("model.model.norm.weight",
                                                              tensor.chunks[1].offsets)}
            del tensor.chunks[1]
        elif change == "overlap":
            tensor.chunks[0].sizes = tensor.size
        elif change == "place":
            metadata.storage_data = {k: v for k, v in metadata.storage_data.items()
                                     if k.fqn != "model.model.norm.weight"}
        else:
            metadata.version = "7.0.0"
        path.write_bytes(pickle.dumps(metadata))
        done = trireme("convert", folder / "dcp", folder / "run", "--config",
                       folder / "hf/config.json", code=2)
        assert message in done.stderr, done.stderr


def own_state(model, optimizer, names):
    """Returns zeros in the form that a program loads into."""
    for p in model.parameters():
        p.data.zero_()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    if names == "huggingface":
        return huggingface_state(model, optimizer, 0)
    state = titan_state(model, optimizer, 0, 0)
    del state["dataloader"]
    return state


def take(state, model, optimizer, names):
    """Puts loaded values into model and optimizer, as programs do."""
    from torch.distributed.checkpoint.state_dict import (StateDictOptions,
                                                         set_optimizer_state_dict)
    if names == "huggingface":
        model.load_state_dict(state["model"])
        set_optimizer_state_dict(model, optimizer, state["optimizer"])
        return
    theirs = {titan_name(name): name for name in model.state_dict()}
    head_dim = model.config.head_dim
    model.load_state_dict({name: rotated(state[key], name, head_dim, back=True)
                           for key, name in theirs.items()})
    flat = {}
    for key, value in split(state["optimizer"], model.config).items():
        kind, rest = key.split(".", 1)
        name, what = rest.rsplit(".", 1)
        name = theirs[name]
        if what.startswith("exp_avg"):
            value = rotated(value, name, head_dim, back=True)
        flat[f"{kind}.{name}.{what}"] = value
    set_optimizer_state_dict(model, optimizer, flat,
                             options=StateDictOptions(flatten_optimizer_state_dict=True))


@pytest.mark.parametrize("names,files", [("huggingface", 5), ("huggingface", 2e-5), ("titan", 5)])
def test_a_run_of_ours_continues_in_pytorch(trireme, job, names, files):
    model, tokens, folder = job
    file = run_toml(folder, model_section(folder / "start"), tokens, decay_vectors=False)
    samples = samples_of(trireme, file)
    trireme("train", file, f"run.dir={folder / 'run'}", f"checkpoint.load={folder / 'start'}",
            "checkpoint.finetune=true", f"train.exit_interval={STEPS}")
    trireme("convert", "--to", "torchtitan" if names == "titan" else "dcp", folder / "run",
            folder / "dcp", "--max-file-size", files)
    assert (len(list((folder / "dcp").glob("*.distcp"))) > 1) == (files < 1)
    optimizer = adamw(model, SETTINGS, groups=True)
    state = own_state(model, optimizer, names)
    dcp.load(state, storage_reader=dcp.FileSystemReader(folder / "dcp"), no_dist=True)
    take(state, model, optimizer, names)
    got = train(model, optimizer, samples, STEPS)
    trireme("train", file, f"run.dir={folder / 'run'}")
    expected = losses_of(folder / "run")[STEPS:]
    assert len(expected) == STEPS
    print("\nlargest difference of a loss:", max(abs(a - b) for a, b in zip(got, expected)))
    assert got == pytest.approx(expected, rel=0, abs=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_written_weights_are_loaded(trireme, rng, tries, tmp_path, kind):
    from random_models import make_model
    for i in range(tries(2)):
        folder = tmp_path / str(i)
        model = make_model(kind, rng)
        model.save_pretrained(folder / "hf")
        trireme("convert", folder / "hf", folder / "run")
        trireme("convert", "--to", "dcp", folder / "run", folder / "dcp")
        state = {"model": {name: torch.zeros_like(tensor)
                           for name, tensor in model.state_dict().items()}}
        dcp.load(state, storage_reader=dcp.FileSystemReader(folder / "dcp"), no_dist=True)
        for name, tensor in model.state_dict().items():
            assert torch.equal(state["model"][name], tensor), name
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        dcp_to_torch_save(folder / "dcp", folder / "whole.pt")
        whole = torch.load(folder / "whole.pt", weights_only=True)
        assert whole["model"].keys() == state["model"].keys()
