#!/usr/bin/env python3
"""Counts the cycles by which attention is bound, from the compiled code: of a processor's shared memory, matrix units,
special functions and instruction slots, per tile of 64 queries and 64 keys of one head. Nothing is run.

usage: attention_cycles.py SIZES DISASSEMBLER REGISTERED TABLE [--update]

SIZES is the program that prints the blocks of the kernels, DISASSEMBLER is nvdisasm or llvm-objdump, REGISTERED the
program that extracts a plug-in's images. TABLE has the bounds; a bound that grew fails.
"""

import math
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

from code_objects import code_objects, fat_binary, bundle, plain_names
from instructions import amd_branch, amd_kernels, blocks_of, main_loops, nvidia_branch, nvidia_kernels, path_of
from resources import images

COLUMNS = ["architecture", "kernel", "shared", "matrix", "special", "issue", "bound"]
TILE = 64 * 64
PRODUCTS = {"forward_kernel": 2, "keys_kernel": 4, "queries_kernel": 3}
GROWTH = 1.05


@dataclass
class Architecture:
    unit: str
    product: float  # cycles of all matrix units of a processor for one product instruction
    elements: int  # multiply-adds of one product instruction
    special: float  # cycles of a processor for a wave's exponentials
    issue: float  # cycles of a processor for an instruction of a wave
    units: int = 1  # of which a wave uses one, if they are counted by wave


# mma.sync m16n8k16 has 2,048 multiply-adds: sm_80 does 1,024 per cycle and multiprocessor; sm_90 2,048, of which mma.sync
# reaches 62% (measured by others; wgmma reaches all). MFMA 16x16x16 takes 32 cycles of a SIMD on gfx90a, 16 on gfx942.
ARCHITECTURES = {
    "sm_80": Architecture("mma", 2, 2048, 2, 0.25),
    "sm_90": Architecture("mma", 1 / 0.62, 2048, 2, 0.25),
    "gfx90a": Architecture("mfma", 8, 4096, 4, 0.25, 4),
    "gfx942": Architecture("mfma", 4, 4096, 4, 0.25, 4),
}
LDS, REGISTERS, STEP = 64 * 1024, 512, 8  # of a compute unit and of a SIMD's lane


def nvidia_shared(text):
    """Cycles of shared memory for an instruction of a warp, 128 bytes each."""
    if m := re.search(r"\bLDSM\S*\.(\d)\b", text) or re.search(r"\bLDSM\S*\.M88\.(\d)", text):
        return int(m[1])
    if "LDSM" in text:
        return 1
    if m := re.search(r"\b(LDS|STS|LDGSTS)\b(\S*)", text):
        return 4 if ".128" in m[2] else 2 if ".64" in m[2] else 1
    return 0


def amd_shared(text):
    """Cycles of LDS for an instruction of a wave of 64, 128 bytes each."""
    m = re.match(r"ds_(?:read|write|load|store)(2?)\S*?_(?:[bu]|i)(\d+)", text)
    if m:
        return max(2, (2 if m[1] else 1) * int(m[2]) * 64 // 8 // 128)
    return 2 if text.startswith("ds_") else 0


def is_product(text):
    return "HMMA" in text or text.startswith("v_mfma")


def is_special(text):
    return "MUFU" in text or text.startswith(("v_exp_f32", "v_rcp_f32"))


def copies(text):
    return "LDGSTS" in text or text.startswith("global_load_dwordx4")


def reads_published(text):  # the weights of the other team
    return re.search(r"\bLDS\.128", text) or text.startswith(("ds_read_b128", "ds_read2_b64"))


def publishes(text):
    return re.search(r"\bSTS\.128", text) or text.startswith(("ds_write_b128", "ds_write2_b64"))


def worth(text):
    return 1000 * is_product(text) + copies(text)


def features(team):
    """A path of the team, with its exponentials; the shortest one has no masks."""
    return lambda block: frozenset(
        f.__name__ for f in (team, is_special) if sum(map(bool, map(f, block))) >= 8 or (f is team and any(map(f, block)))
    )


def any_team(text):
    return False


def read_sizes(program):
    head, *rows = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [dict(zip(head.split("\t"), row.split("\t"))) for row in rows]


def measure(architecture, size, registers, instructions):
    """Returns the cycles per tile of each resource; one path for each team of waves."""
    a = ARCHITECTURES[architecture]
    kernel, threads, head_dim = size["kernel"], int(size["threads"]), int(size["head_dim"])
    branch, shared = (nvidia_branch, nvidia_shared) if a.unit == "mma" else (amd_branch, amd_shared)
    blocks = blocks_of(instructions, branch)
    loop = next(l for l in main_loops(blocks, is_product) if path_of(blocks, l, worth, features(any_team)))
    teams = [publishes, reads_published] if kernel == "keys_kernel" else [any_team]
    paths = [path_of(blocks, loop, worth, features(team)) for team in teams]
    waves = threads // (32 if a.unit == "mma" else 64)

    def total(count):
        return sum(map(count, (t for path in paths for t in path))) * waves / len(paths)

    tiles = total(is_product) * a.elements / (PRODUCTS[kernel] * TILE * head_dim)
    used = a.units
    if a.unit == "mfma":  # a wave's products are on one SIMD
        resident = 4 * (REGISTERS // (math.ceil(registers / STEP) * STEP)) // waves
        used = min(4, waves * max(1, min(resident, LDS // int(size["shared"]))))
    cycles = [
        total(shared) / tiles,
        total(is_product) * a.product * a.units / used / tiles,
        total(is_special) * a.special / tiles,
        total(lambda t: 1) * a.issue / tiles,
    ]
    return [round(c) for c in cycles]


def codes(registered, disassembler):
    for image, _ in images(registered):
        resources = {c.architecture: c.kernels for c in code_objects(image)}
        if image.startswith(b"__CLANG"):
            found = [(t.split("--")[-1], amd_kernels(disassembler, code)) for t, code in bundle(image) if not t.startswith("host")]
        else:
            found = [("sm_%d" % n, nvidia_kernels(disassembler, code)) for kind, n, code in fat_binary(image) if kind == "elf"]
        for architecture, kernels in found:
            if architecture in ARCHITECTURES and any("forward_kernel" in k or "keys_kernel" in k for k in resources[architecture]):
                yield architecture, kernels, resources[architecture]


def table(sizes, registered, disassembler):
    rows = []
    for architecture, kernels, resources in codes(registered, disassembler):
        a = ARCHITECTURES[architecture]
        names = plain_names(resources)
        for name, instructions in kernels:
            for s in sizes:
                wanted = "%s<bf16, %s, %s>" % (s["kernel"], s["head_dim"], s["form"])
                if s["unit"] != a.unit or names.get(name) != wanted:
                    continue
                cycles = measure(architecture, s, resources[name].registers, instructions)
                rows.append([architecture, "%s %s" % (s["kernel"], s["head_dim"])] + cycles + [max(cycles)])
    return sorted(rows)


def main(sizes, disassembler, registered, path, *options):
    rows = table(read_sizes(sizes), registered, disassembler)
    path = pathlib.Path(path)
    old = [line.split("\t") for line in path.read_text().splitlines()[1:]] if path.exists() else []
    measured = {r[0] for r in rows}
    if "--update" in options:
        rows = sorted(rows + [r for r in old if r[0] not in measured], key=lambda r: r[:2])
        path.write_text("\n".join("\t".join(map(str, r)) for r in [COLUMNS] + rows) + "\n")
        return 0
    stored = {(r[0], r[1]): r for r in old if r[0] in measured}
    bad = stored.keys() ^ {(r[0], r[1]) for r in rows}
    for row in rows:
        before = stored.get((row[0], row[1]))
        if before and row[6] > GROWTH * int(before[6]):
            print("%s %s: bound by %d cycles per tile; the table has %s" % (row[0], row[1], row[6], before[6]))
            bad = bad | {(row[0], row[1])}
    for name in stored.keys() ^ {(r[0], r[1]) for r in rows}:
        print("%s %s: only in the table, or not in it" % name)
    print("%d kernels of %s" % (len(rows), ", ".join(sorted(measured))))
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
