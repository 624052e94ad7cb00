"""Tests of folders of torch.save files against transformers: .bin shards, Meta's Llama and Megatron's
legacy checkpoints of random layouts, and our files, as PyTorch loads them."""
import json
import sys
from pathlib import Path

import pytest
import torch

from random_models import KINDS, make_model, random_lines
from test_weights import assert_close, reference_logits, score

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats/data"))
from foreign_layouts import (CORE, LEGACY, OLDEST, save_megatron, save_meta_llama,  # noqa: E402
                             save_sharded_bin)

TYPES = [torch.float32, torch.bfloat16, torch.float16]


def divisible(rng, config):
    """Returns sizes that four tensor-parallel ranks and four stages can share."""
    bert_like = config.model_type in ("gpt2", "megatron-bert")
    layers, heads, head_dim = 4, rng.choice([4, 8]), rng.choice([4, 8])
    if config.model_type == "gpt2":
        config.n_layer, config.n_head, config.n_embd = layers, heads, heads * head_dim
        config.n_inner, config.activation_function = None, "gelu_new"
    else:
        config.num_hidden_layers, config.num_attention_heads = layers, heads
        config.hidden_size, config.intermediate_size = heads * head_dim, rng.choice([24, 56])
    if config.model_type == "megatron-bert":
        config.hidden_act = "gelu"
    if not bert_like:
        config.num_key_value_heads = rng.choice([4, heads])
        config.head_dim = head_dim
        config.attention_bias = config.mlp_bias = False
        config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    else:
        config.tie_word_embeddings = True
    return config


def model_of(kind, rng, dtype, change=divisible):
    config, model_class = KINDS[kind]
    torch.manual_seed(rng.randrange(2**31))
    model = model_class(change(rng, config(rng))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    # Not model.to(dtype), which would also round the frequencies of the rotary positions.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def weights(model):
    """Returns the model's tensors, without those tied to others."""
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def assert_same_bits(trireme, run, model, folder):
    """Converting back to a Hugging Face folder gives the source, bit for bit."""
    trireme("convert", "--to", "hf", run, folder)
    back = type(model).from_pretrained(folder, dtype="auto")
    got = dict(back.named_parameters())
    for name, tensor in model.named_parameters():
        assert got[name].dtype == tensor.dtype and torch.equal(got[name], tensor), name


def assert_same_logits(trireme, rng, run, model, folder):
    model = model.float()
    lines = random_lines(rng, model)
    types = [[rng.randrange(2) for _ in line] for line in lines] \
        if "bert" in model.config.model_type else None
    got = score(trireme, run, lines, folder, types)
    for s, line in enumerate(lines):
        want, order = reference_logits(model, line, types and types[s])
        assert_close(got[f"logits.{s}"], want)
        if order is not None:
            assert_close(got[f"order_logits.{s}"], order)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert", "mixtral"])
def test_bin_shards_are_read(trireme, rng, tries, tmp_path, kind):
    for i in range(tries(3)):
        folder = tmp_path / str(i)
        model = make_model(kind, rng)
        model.config.save_pretrained(folder / "hf")
        state = model.state_dict()
        # Uses the names of transformers 4.
        if kind == "mixtral":
            model.save_pretrained(folder / "new")
            from safetensors.torch import load_file
            state = load_file(folder / "new/model.safetensors")
        save_sharded_bin(state, folder / "hf", rng.choice([1, 2, 3]))
        trireme("convert", folder / "hf", folder / "run")
        assert_same_bits(trireme, folder / "run", model, folder / "back")


@pytest.mark.parametrize("by_columns", [True, False], ids=["llama2", "llama3"])
def test_meta_llama_is_read(trireme, rng, tries, tmp_path, by_columns):
    def change(rng, config):
        divisible(rng, config)
        if not by_columns:
            config.vocab_size = 4 * rng.randint(10, 30)
            config.rope_parameters = {
                "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}
        else:
            config.vocab_size = 4 * rng.randint(10, 30)
        return config

    for i in range(tries(4)):
        folder = tmp_path / str(i)
        folder.mkdir()
        model = model_of("llama", rng, TYPES[i % 3], change)
        save_meta_llama(weights(model), model.config, folder / "meta", rng.choice([1, 2, 4]),
                        by_columns)
        positions = model.config.max_position_embeddings
        trireme("convert", folder / "meta", folder / "run", "--set",
                f"model.max_positions={positions}")
        assert_same_bits(trireme, folder / "run", model, folder / "back")
        assert_same_logits(trireme, rng, folder / "run", model, folder)


LAYOUTS = [(1, 1, 1), (4, 1, 1), (1, 4, 1), (2, 2, 1), (4, 2, 1), (2, 2, 2), (1, 2, 2)]


@pytest.mark.parametrize("kind,names,version", [
    ("gpt2", LEGACY, 3.0), ("gpt2", CORE, 3.0), ("gpt2", OLDEST, 0), ("gpt2", OLDEST, 1.0),
    ("gpt2", LEGACY, 2.0), ("llama", CORE, 3.0), ("llama", LEGACY, 3.0),
    ("megatron_bert", LEGACY, 3.0)],
    ids=["gpt", "gpt_core", "gpt_version0", "gpt_version1", "gpt_version2", "llama_core", "llama",
         "bert"])
def test_megatron_is_read(trireme, rng, tries, tmp_path, kind, names, version):
    for i in range(tries(3)):
        folder = tmp_path / str(i)
        folder.mkdir()
        model = model_of(kind, rng, TYPES[i % 3])
        tp, pp, virtual = rng.choice(LAYOUTS)
        save_megatron(weights(model), model.config, folder / "megatron", tp, pp, virtual, version,
                      names)
        trireme("convert", folder / "megatron", folder / "run", "--set",
                f"model.vocab_size={model.config.vocab_size}")
        assert_same_bits(trireme, folder / "run", model, folder / "back")
        assert_same_logits(trireme, rng, folder / "run", model, folder)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert", "mixtral"])
def test_written_bin_files_are_loaded_by_pytorch(trireme, rng, tries, tmp_path, kind):
    for i in range(tries(2)):
        folder = tmp_path / str(i)
        model = make_model(kind, rng)
        model.save_pretrained(folder / "hf")
        trireme("convert", folder / "hf", folder / "run")
        trireme("convert", "--to", "hf", "--weight-files", "bin", "--max-file-size",
                rng.choice([5, 2e-5]), folder / "run", folder / "back")
        state = {}
        for file in sorted((folder / "back").glob("*.bin")):
            for mmap in (False, True):
                part = torch.load(file, weights_only=True, mmap=mmap)
            state |= part
        index = folder / "back/pytorch_model.bin.index.json"
        if index.exists():
            assert set(json.loads(index.read_text())["weight_map"]) == set(state)
        trireme("convert", "--to", "hf", folder / "run", folder / "safe")
        from safetensors.torch import load_file
        want = {}
        for file in (folder / "safe").glob("*.safetensors"):
            want |= load_file(file)
        assert want.keys() == state.keys()
        for name, tensor in want.items():
            assert state[name].dtype == tensor.dtype and torch.equal(state[name], tensor), name
