#!/usr/bin/env python3
"""Writes numpy_golden.json: draws of numpy's RandomState and sample orders built with it.

Run with numpy: python3 make_numpy_golden.py > numpy_golden.json
The orders follow the definition of Megatron's GPTDataset and BlendedDataset sample by sample and
document by document, in the simplest way, so that they verify our token arithmetic independently.
Small arrays are written out, large ones as the CRC-32 of their bytes.
"""
import json
import math
import zlib

import numpy as np


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def draws(seed):
    r = np.random.RandomState(seed)
    shuffled = np.arange(20, dtype=np.int32)
    out = {"seed": seed, "words": [int(r.randint(0, 2**32, dtype=np.uint32)) for _ in range(3)]}
    out["random"] = [r.random_sample() for _ in range(4)]
    out["randint"] = [int(r.randint(low, high)) for low, high in [(0, 1), (1, 4), (5, 1000), (0, 2**32), (0, 2**40)] * 3]
    r.shuffle(shuffled)
    out["shuffle"] = shuffled.tolist()
    n = np.array([1, 2, 3])
    p = (1.0 / n) / (1.0 / n).sum()
    out["choice"] = [int(r.choice(3, p=p)) for _ in range(12)]
    big = np.arange(100_003, dtype=np.uint32)
    r.shuffle(big)
    out["big_shuffle_crc"] = crc(big)
    out["after"] = r.random_sample()
    return out


def walk_samples(sizes, doc_idx, length, samples):
    rows, position, offset = [(0, 0)], 0, 0
    for _ in range(samples):
        left = length + 1
        while True:
            available = int(sizes[doc_idx[position]]) - offset
            if available >= left:
                offset += left - 1
                break
            left -= available
            position, offset = position + 1, 0
        rows.append((position, offset))
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def order(sizes, first, last, length, wanted, seed):
    tokens = int(sum(sizes[first:last]))
    epochs = 1
    while wanted is not None and epochs * tokens < wanted * length + 1:
        epochs += 1
    before_last = ((epochs - 1) * tokens - 1) // length
    apart = epochs > 1 and wanted - before_last < int(0.8 * ((tokens - 1) // length))
    r = np.random.RandomState(seed)
    documents = np.arange(first, last, dtype=np.int32)

    def shuffled(array):
        r.shuffle(array)
        return array

    if apart:
        doc_idx = np.concatenate((shuffled(np.tile(documents, epochs - 1)), shuffled(documents.copy())))
    else:
        doc_idx = shuffled(np.tile(documents, epochs))
    samples = (epochs * tokens - 1) // length
    rows = walk_samples(sizes, doc_idx, length, samples)
    if apart:
        shuffle = np.concatenate((shuffled(np.arange(before_last, dtype=np.uint32)),
                                  shuffled(np.arange(before_last, samples, dtype=np.uint32))))
    else:
        shuffle = shuffled(np.arange(samples, dtype=np.uint32))
    return epochs, apart, doc_idx, rows, shuffle


def order_case(name, sizes, first, last, length, wanted, seed, sizes_rule=None):
    epochs, apart, doc_idx, rows, shuffle = order(sizes, first, last, length, wanted, seed)
    case = {"name": name, "first": first, "last": last, "seq_length": length,
            "samples": -1 if wanted is None else wanted, "seed": seed, "epochs": epochs, "apart": bool(apart),
            "count": len(shuffle)}
    case["sizes"] = sizes_rule if sizes_rule else [int(s) for s in sizes]
    if len(doc_idx) + 3 * len(rows) < 200:
        case.update(doc_idx=doc_idx.tolist(), rows=rows.tolist(), shuffle=shuffle.tolist())
    case.update(doc_crc=crc(doc_idx), position_crc=crc(rows[:, 0]), offset_crc=crc(rows[:, 1].astype(np.int32)),
                shuffle_crc=crc(shuffle))
    return case


def ruled_sizes(count, top):
    """Returns lengths that C++ can reproduce."""
    return [(i * 2654435761 % 2**32) % top for i in range(count)]


def blend(weights, size):
    w = np.array(weights, dtype=np.float64)
    w = w / np.sum(w)
    w = w / np.sum(w)  # upstream normalizes the list and, later, the blend again
    taken, which, sample = [0] * len(w), [], []
    for i in range(size):
        lags = [w[d] * max(float(i), 1.0) - float(taken[d]) for d in range(len(w))]
        d = int(np.argmax(lags))
        which.append(d)
        sample.append(taken[d])
        taken[d] += 1
    return {"weights": weights, "size": size, "taken": taken,
            "share": [math.ceil(size * x) for x in (np.array(weights) / np.sum(np.array(weights))).tolist()],
            "supply": [math.ceil(math.ceil(size * x) * (1 + 0.005))
                       for x in (np.array(weights) / np.sum(np.array(weights))).tolist()],
            "dataset_crc": crc(np.array(which, dtype=np.int16)), "sample_crc": crc(np.array(sample, dtype=np.int64)),
            "head": which[:24]}


def main():
    orders = [
        order_case("one epoch", [5, 3, 8, 1, 7, 2], 0, 6, 4, None, 1234),
        order_case("exactly one epoch", [5, 3, 8, 1, 7, 1], 0, 6, 4, 6, 1234),
        order_case("last epoch together", [5, 3, 8, 1, 7, 2], 0, 6, 4, 12, 7),
        order_case("last epoch apart", [5, 3, 8, 1, 7, 2], 0, 6, 4, 13, 7),
        order_case("empty sequences", [0, 5, 0, 3, 0, 0, 8, 0], 0, 8, 3, 9, 1),
        order_case("part of the corpus", [9, 9, 4, 2, 6, 3, 9], 2, 6, 5, 8, 42),
        order_case("long sequences", [100, 1, 50], 0, 3, 7, 40, 3),
        order_case("short corpus", [2], 0, 1, 8, 10, 5),
    ]
    for count, top, length, wanted, seed in [(3000, 700, 128, 10_000, 1234), (200_000, 40, 64, 50_000, 99),
                                             (200_000, 40, 64, 190_000, 2**32 - 1), (70_000, 9, 33, 17_000, 0)]:
        orders.append(order_case(f"ruled {count} {wanted}", ruled_sizes(count, top), count // 10, count, length,
                                 wanted, seed, {"count": count, "top": top}))
    blends = [blend(w, size) for w, size in [([0.3, 0.7], 1000), ([1, 1, 1], 500), ([30, 70, 11.5, 3], 20_000),
                                             ([0.1] * 9 + [0.7], 5000), ([float(i % 7 + 1) for i in range(150)], 3000)]]
    json.dump({"numpy": np.__version__, "draws": [draws(s) for s in (0, 1234, 2**32 - 1)], "orders": orders,
               "blends": blends}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    import sys
    main()
