"""golden_weights.h in numpy: weights, batches and projections from formulas."""

import math

import numpy as np
import torch

from golden_variants import BATCH, BATCHES, PROJECTIONS, SEQ, VOCAB


def hashes(name, indices):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.asarray(indices, np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def weight(name, shape):
    u = ((hashes(name, np.arange(math.prod(shape))) >> np.uint64(48)).astype(np.float64) - 32768) / 32768
    if name.endswith("norm.weight"):
        values = 1.0 + 0.1 * u
    else:
        values = (0.1 if name.endswith(".bias") else 0.2) * u
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def places(step):
    rows = (step % BATCHES) * BATCH + np.arange(BATCH)
    return rows[:, None] * (SEQ + 1) + np.arange(SEQ + 1)


def tokens(step):
    values = (hashes("tokens", places(step)) >> np.uint64(32)) % np.uint64(VOCAB)
    return torch.from_numpy(values.astype(np.int64))


def bert_batch(step):
    """Inputs, targets, loss weights, segments, lengths and order labels."""
    at = places(step)[:, :SEQ]
    position = np.arange(SEQ)
    draws = (hashes("bert", places(step)[:, 0]) >> np.uint64(32)).astype(np.int64)
    lengths = SEQ - draws % 5
    split = 3 + draws % 7
    inside = position < lengths[:, None]
    chosen = (hashes("mask", at) >> np.uint64(32)) % np.uint64(6) == 0
    weights = chosen & inside
    weights[:, 1] = True  # no sample without
    segments = (position >= split[:, None]) & inside
    return (tokens(step)[:, :SEQ] * torch.from_numpy(inside), tokens(step)[:, 1:],
            torch.from_numpy(weights.astype(np.float32)),
            torch.from_numpy(segments.astype(np.int64)), torch.from_numpy(lengths),
            torch.from_numpy(draws // 64 % 2))


def loss_weights(step, masked):
    if not masked:
        return torch.ones(BATCH, SEQ)
    kept = (hashes("mask", places(step)) >> np.uint64(32)) % np.uint64(4) != 0
    kept[2] = False
    return torch.from_numpy(kept[:, :SEQ].astype(np.float32))


def summary(tensor):
    values = tensor.detach().double().numpy().ravel()
    bits = hashes("projection", np.arange(values.size))
    signs = [np.where(bits >> np.uint64(40 + j) & np.uint64(1), 1.0, -1.0) for j in range(PROJECTIONS)]
    return dict(shape=list(tensor.shape), norm=float(np.linalg.norm(values)),
                projections=[float(s @ values) for s in signs], values=values[:4].tolist())


def largest(a, b):
    difference = (a - b).abs().max().item()
    assert difference < 1e-5, difference
    return difference
