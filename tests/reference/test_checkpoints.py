"""Tests that examples/read_checkpoint.py reads the program's checkpoints, saved on any number of ranks."""
import os
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from conftest import ROOT
from test_training import write_indexed_tokens

sys.path.insert(0, str(ROOT / "examples"))
from read_checkpoint import read_checkpoint  # noqa: E402

EXAMPLE = ROOT / "examples/read_checkpoint.py"

LAYOUTS = {
    "alone": (1, []),
    "zero 1": (2, ["parallel.zero=1"]),
    "pipeline and zero 2": (4, ["parallel.pp=2", "parallel.zero=2"]),
    "zero 3": (4, ["parallel.zero=3"]),
}


@pytest.fixture(scope="module")
def runs(trireme, tmp_path_factory):
    """Returns {layout: folder}: the same three steps, bit-equal because numerics are exact."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun was not found")
    folder = tmp_path_factory.mktemp("checkpoints")
    write_indexed_tokens(folder / "tokens", [i * i % 301 for i in range(2000)])
    (folder / "run.toml").write_text(f"""
[model]
family = "llama"
num_layers = 2
hidden_size = 48
num_heads = 4
num_kv_heads = 2
seq_length = 16
vocab_size = 301
[data]
path = ["{folder / 'tokens'}"]
split = "1,0,0"
[train]
iters = 3
micro_batch_size = 2
global_batch_size = 8
eval_interval = 0
[optimizer]
lr = 1e-2
[parallel]
numerics = "exact"
""")
    for name, (ranks, settings) in LAYOUTS.items():
        trireme("train", *(["--nproc", ranks] if ranks > 1 else []), folder / "run.toml",
                f"run.dir={folder / name}", *settings, env={"TRIREME_THREADS": "1"})
    return {name: folder / name for name in LAYOUTS}


def test_layouts_give_the_same_tensors(runs):
    alone = read_checkpoint(runs["alone"])
    assert len(alone) > 40
    for name, folder in runs.items():
        tensors = read_checkpoint(folder)
        assert tensors.keys() == alone.keys(), name
        for key, tensor in tensors.items():
            assert tensor.dtype == alone[key].dtype and torch.equal(tensor, alone[key]), (name, key)


def test_weights_are_those_of_the_export(trireme, runs, tmp_path):
    wanted = {
        "embedding.word.weight": "model.embed_tokens.weight",
        "layers.1.mlp.down.weight": "model.layers.1.mlp.down_proj.weight",
        "layers.0.attention.out.weight": "model.layers.0.self_attn.o_proj.weight",
    }
    for name, folder in runs.items():
        trireme("convert", "--to", "hf", folder, tmp_path / name)
        exported = load_file(tmp_path / name / "model.safetensors")
        tensors = read_checkpoint(folder / "checkpoints", wanted.__contains__)
        assert tensors.keys() == wanted.keys()
        for key, tensor in tensors.items():
            assert torch.equal(tensor.to(exported[wanted[key]].dtype), exported[wanted[key]]), key


def test_the_example_lists_what_inspect_lists(trireme, runs):
    folder = runs["zero 3"]
    done = subprocess.run([sys.executable, EXAMPLE, folder], capture_output=True, text=True,
                          env=os.environ)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(read_checkpoint(folder))
    listed = trireme("inspect", folder, "--tensors").stdout
    for line in done.stdout.splitlines():
        assert line.split()[0] in listed


def test_it_names_a_folder_without_a_checkpoint(tmp_path):
    done = subprocess.run([sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "there is no checkpoint in" in done.stderr
