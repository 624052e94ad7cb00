#!/usr/bin/env python3
"""Compares the kernels' resources with the tables in ../resources, one per architecture, or writes the tables.

usage: resources.py REGISTERED TABLES COMPILER [--update]

REGISTERED is the program that extracts a plug-in's images; COMPILER is the text that names the compiler and its
version. A table of another compiler is not compared: exit code 77.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from code_objects import Kernel, code_objects, plain_names
from occupancy import occupancy

COLUMNS = ["kernel", "threads", "registers", "sums", "scratch", "shared", "occupancy"]
GROWTH = 1.1  # a kernel fails beyond this
# Attention with common head sizes must not use scratch memory, but for an address that is loaded once per tile (sm_100) and
# what WMMA's operands leave no registers for.
NEVER_SPILLS = re.compile(r"^(forward|keys|queries)_kernel<(bf16|f16), (64|128)\b")
SPILLS = {"sm_100": 8, "gfx1100": 52}


def images(registered):
    """Yields (image, kernel names) for each file of a plug-in."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([registered, folder], check=True)
        for path in sorted(pathlib.Path(folder).glob("*.image")):
            yield path.read_bytes(), path.with_suffix(".kernels").read_text().split()


def measure(registered):
    """Returns {architecture: {plain name: Kernel}}."""
    measured = {}
    for image, _ in images(registered):
        for code in code_objects(image):
            names = plain_names(code.kernels)
            for name, kernel in code.kernels.items():
                measured.setdefault(code.architecture, {})[names[name]] = kernel
    return measured


def write_table(path, compiler, architecture, kernels):
    lines = ["# " + compiler, "\t".join(COLUMNS)]
    for name, k in sorted(kernels.items()):
        row = [k.threads, k.registers, k.sums, k.scratch, k.shared, occupancy(architecture, k)]
        lines.append("\t".join([name] + [str(x) for x in row]))
    path.write_text("\n".join(lines) + "\n")


def read_table(path):
    """Returns the compiler, and {plain name: Kernel}."""
    compiler, head, *rows = path.read_text().splitlines()
    if head.split("\t") != COLUMNS:
        raise ValueError("%s has other columns than %s" % (path, COLUMNS))
    cells = [row.split("\t") for row in rows]
    return compiler[2:], {c[0]: Kernel(c[0], *map(int, c[1:6])) for c in cells}


def compare(architecture, table, kernels):
    """Returns descriptions of what is worse than in the table."""
    for name in sorted(table.keys() ^ kernels.keys()):
        yield "%s: %s" % (name, "is not in the table" if name in kernels else "is in the table alone")
    for name, now in sorted(kernels.items()):
        if NEVER_SPILLS.match(name) and now.scratch > SPILLS.get(architecture, 0):
            yield "%s: spills %d bytes, and must not spill" % (name, now.scratch)
        if name not in table:
            continue
        old = table[name]
        if now.threads != old.threads:
            yield "%s: blocks of %d threads; the table has %d" % (name, now.threads, old.threads)
        for what in ("registers", "scratch", "shared"):
            if getattr(now, what) > GROWTH * getattr(old, what):
                yield "%s: %s grew from %d to %d" % (name, what, getattr(old, what), getattr(now, what))


def main(registered, tables, compiler, *options):
    measured = measure(registered)
    bad = skipped = 0
    for architecture, kernels in sorted(measured.items()):
        path = pathlib.Path(tables) / (architecture + ".tsv")
        if "--update" in options:
            write_table(path, compiler, architecture, kernels)
            continue
        if not path.exists():
            print("skipped: there is no table of %s" % architecture)
            skipped += 1
            continue
        by, table = read_table(path)
        if by != compiler:
            print("skipped: the table of %s is that of %s, and this is %s" % (architecture, by, compiler))
            skipped += 1
            continue
        complaints = list(compare(architecture, table, kernels))
        for complaint in complaints:
            print("%s: %s" % (architecture, complaint))
        bad += len(complaints)
        print("%s: %d kernels, %d with scratch" % (architecture, len(kernels), sum(k.scratch > 0 for k in kernels.values())))
    if bad:
        print("what is meant to be so goes into the tables: %s %s %s '%s' --update" % (sys.argv[0], registered, tables, compiler))
    return 1 if bad or not measured else 77 if skipped else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
