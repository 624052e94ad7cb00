"""Reads a checkpoint of Trireme, of any number of ranks, into PyTorch tensors.

    python examples/read_checkpoint.py runs/quickstart       lists the tensors
    from read_checkpoint import read_checkpoint              in a program

Needs torch and safetensors. Checksums are not checked here: `trireme inspect` does that.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16,
          "f16": torch.float16, "i32": torch.int32, "i64": torch.int64}


def find(path):
    """The folder of a checkpoint, of a folder of checkpoints, or of a run: its latest."""
    for folder in (Path(path), Path(path) / "checkpoints"):
        if (folder / "manifest.json").exists():
            return folder
        if (folder / "latest").exists():
            return folder / (folder / "latest").read_text().strip()
    raise FileNotFoundError(f"there is no checkpoint in '{path}'")


def read_checkpoint(path, wanted=lambda name: True):
    """{name: tensor} of all tensors whose name is `wanted`. Weights are named like
    `layers.0.mlp.up.weight`; states of the optimizer have names of their own."""
    folder = find(path)
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = [safe_open(folder / shard["file"], framework="pt") for shard in manifest["shards"]]
    tensors = {}
    for name, stored in manifest["tensors"].items():
        if not wanted(name):
            continue
        tensor = torch.empty(stored["shape"], dtype=DTYPES[stored["dtype"]])
        for part in stored["slices"]:
            rectangle = tensor[tuple(slice(begin, begin + size) for begin, size
                                     in zip(part["offset"], part["shape"]))]
            data = shards[part["shard"]].get_tensor(part["key"]).flatten()
            if "range" not in part:
                rectangle.copy_(data.view(part["shape"]))
                continue
            # Part of the rectangle, counted through its rows.
            begin, end = part["range"]
            flat = rectangle.flatten()
            flat[begin:end] = data
            rectangle.copy_(flat.view(part["shape"]))
        tensors[name] = tensor
    return tensors


if __name__ == "__main__":
    for name, tensor in read_checkpoint(sys.argv[1]).items():
        print(f"{name:48} {str(tensor.dtype):16} {list(tensor.shape)}")
