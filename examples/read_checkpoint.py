"""Reads a Trireme checkpoint, written by any number of ranks, into PyTorch tensors.

    python examples/read_checkpoint.py runs/quickstart       lists the tensors
    from read_checkpoint import read_checkpoint              in your own program

Needs torch and safetensors, but not Trireme. It does not verify checksums; `trireme inspect` does.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16,
          "f16": torch.float16, "i32": torch.int32, "i64": torch.int64}


def find(path):
    """Returns the folder of a checkpoint, or of the latest one in a folder of checkpoints or of a run."""
    for folder in (Path(path), Path(path) / "checkpoints"):
        if (folder / "manifest.json").exists():
            return folder
        if (folder / "latest").exists():
            return folder / (folder / "latest").read_text().strip()
    raise FileNotFoundError(f"there is no checkpoint in '{path}'")


def read_checkpoint(path, wanted=lambda name: True):
    """Returns {name: tensor} for all tensors for whose name `wanted(name)` is true, with their full shapes. Weights have
    names such as `layers.0.mlp.up.weight`; optimizer states such as `optimizer.first_moment.layers.0.mlp.up.weight`."""
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
            # A range of the rectangle's elements, counted in row-major order.
            begin, end = part["range"]
            flat = rectangle.flatten()
            flat[begin:end] = data
            rectangle.copy_(flat.view(part["shape"]))
        tensors[name] = tensor
    return tensors


if __name__ == "__main__":
    for name, tensor in read_checkpoint(sys.argv[1]).items():
        print(f"{name:48} {str(tensor.dtype):16} {list(tensor.shape)}")
