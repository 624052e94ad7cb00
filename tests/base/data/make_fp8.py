#!/usr/bin/env python3
"""Makes fp8.json beside this script, from PyTorch's casts to its four 8-bit types.

values: what each of the 256 bytes is (null: NaN; "inf", "-inf"). bytes: what PyTorch makes of numbers
given by their bits: all finite bf16 numbers (one above the largest of the type is cut to it first, since not
all of PyTorch's casts saturate), as a 64-bit FNV-1a hash, and some by themselves. What becomes of infinity
depends on the type and the version of PyTorch.
"""

import json
import math
import pathlib

import torch

TYPES = dict(e4m3=torch.float8_e4m3fn, e5m2=torch.float8_e5m2, e4m3_fnuz=torch.float8_e4m3fnuz,
             e5m2_fnuz=torch.float8_e5m2fnuz)
# Ties, the edges of subnormal numbers, zeros, infinities and NaN.
SOME = [0.0, -0.0, 1.0, -1.5, 1.0625, 1.1875, 17.0, 19.0, 2.0**-6, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10,
        2.0**-11, -(2.0**-16), 2.0**-17, 2.0**-18, 1.01 * 2.0**-18, 3.1e-40, math.nan]


def plain(x):
    return None if math.isnan(x) else str(x) if math.isinf(x) else x


def cut(x, kind):
    largest = torch.finfo(kind).max
    return torch.where(x.isfinite(), x.clamp(-largest, largest), x)


def fnv(values):
    digest = 0xCBF29CE484222325
    for value in values:
        digest = (digest ^ value) * 0x100000001B3 % 2**64
    return digest


def main():
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    golden = dict(made_with=f"PyTorch {torch.__version__.split('+')[0]}", some=[plain(x) for x in SOME], types={})
    for name, kind in TYPES.items():
        table = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(kind).float()
        numbers = every[every.isfinite()]
        golden["types"][name] = dict(
            values=[plain(x) for x in table.tolist()],
            some=cut(torch.tensor(SOME), kind).to(kind).view(torch.uint8).tolist(),
            hash_of_bf16=str(fnv(cut(numbers, kind).to(kind).view(torch.uint8).tolist())))
    path = pathlib.Path(__file__).parent / "fp8.json"
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
