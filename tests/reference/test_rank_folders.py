"""Tests of folders written for programs with one file per rank: legacy checkpoints of Megatron-LM and
Meta's Llama, as torch.load reads them, against another writer's output for the same weights."""
import argparse

import pytest
import torch

from test_torch_folders import TYPES, divisible, model_of, weights
from foreign_layouts import CORE, LEGACY, save_megatron, save_meta_llama

torch.serialization.add_safe_globals([argparse.Namespace])


def flat(tree, prefix=""):
    """Flattens nested dictionaries of tensors, joining their names."""
    tensors = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            tensors |= flat(value, f"{prefix}{name}.")
        elif value is not None:
            tensors[prefix + name] = value
    return tensors


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype and torch.equal(got[name], tensor), name


def without_bias_of_fusion(rng, config):
    divisible(rng, config)
    config.rms_norm_eps = 1e-5
    return config


@pytest.mark.parametrize("kind,names", [("gpt2", LEGACY), ("gpt2", CORE), ("llama", CORE),
                                        ("llama", LEGACY), ("megatron_bert", LEGACY)],
                         ids=["gpt", "gpt_core", "llama_core", "llama", "bert"])
def test_megatron_is_written_back(trireme, rng, tries, tmp_path, kind, names):
    """Compares every tensor of every rank, including rows of vocabulary padding."""
    for i in range(tries(4)):
        folder = tmp_path / str(i)
        folder.mkdir()
        model = model_of(kind, rng, TYPES[i % 3], without_bias_of_fusion)
        tp, pp = rng.choice([(1, 1), (4, 1), (1, 4), (2, 2), (4, 2)])
        save_megatron(weights(model), model.config, folder / "megatron", tp, pp, names=names)
        trireme("convert", folder / "megatron", folder / "run")
        trireme("convert", "--to", "megatron", "--tp", tp, "--pp", pp, "--megatron-names",
                "legacy" if names is LEGACY else "transformer_engine", folder / "run",
                folder / "back")
        assert (folder / "back/latest_checkpointed_iteration.txt").read_text() == "release"
        files = sorted((folder / "megatron").rglob("*.pt"))
        assert len(files) == tp * pp
        for file in files:
            back = folder / "back/release" / file.parent.name / file.name
            # The source also contains one of Megatron's enumerations.
            want = torch.load(file, weights_only=False)
            got = torch.load(back, weights_only=True)
            assert_same(flat(got["model"]), flat(want["model"]))
            assert got["checkpoint_version"] == 3.0
            for key in ("num_layers", "hidden_size", "num_attention_heads", "padded_vocab_size",
                        "make_vocab_size_divisible_by", "tensor_model_parallel_size",
                        "pipeline_model_parallel_size", "ffn_hidden_size", "kv_channels"):
                assert getattr(got["args"], key) == getattr(want["args"], key), key


@pytest.mark.parametrize("by_columns", [True, False], ids=["llama2", "llama3"])
def test_meta_llama_is_written_back(trireme, rng, tries, tmp_path, by_columns):
    def change(rng, config):
        divisible(rng, config)
        config.vocab_size = 4 * rng.randint(10, 30)
        config.tie_word_embeddings = False
        if not by_columns:
            config.rope_parameters = {"rope_type": "default", "rope_theta": 500000.0}
        return config

    for i in range(tries(4)):
        folder = tmp_path / str(i)
        folder.mkdir()
        model = model_of("llama", rng, TYPES[i % 3], change)
        parts = rng.choice([1, 2, 4])
        save_meta_llama(weights(model), model.config, folder / "meta", parts, by_columns)
        trireme("convert", folder / "meta", folder / "run")
        trireme("convert", "--to", "llama", "--tp", parts, folder / "run", folder / "back")
        for rank in range(parts):
            name = f"consolidated.{rank:02d}.pth"
            want = torch.load(folder / "meta" / name, weights_only=True)
            del want["rope.freqs"]  # not a weight
            assert_same(torch.load(folder / "back" / name, weights_only=True), want)
