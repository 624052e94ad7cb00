"""Reads disassembled kernels as basic blocks, and finds the path that an iteration of the main loop takes."""

import re
import subprocess
import tempfile
from dataclasses import dataclass, field


@dataclass
class Block:
    instructions: list = field(default_factory=list)
    next: list = field(default_factory=list)  # addresses; the end of a program has none


def blocks_of(instructions, branch):
    """Divides [(address, text)] into blocks by address; branch(text) gives (target or None, conditional), or None."""
    branches = {address: branch(text) for address, text in instructions}
    starts = {instructions[0][0]} | {b[0] for b in branches.values() if b and b[0] is not None}
    addresses = [address for address, _ in instructions]
    starts |= {after for at, after in zip(addresses, addresses[1:]) if branches[at]}
    result, now = {}, None
    for i, (address, text) in enumerate(instructions):
        if address in starts:
            if now and not now.next and not ended:
                now.next.append(address)
            now = result[address] = Block()
        now.instructions.append(text)
        ended = False
        if branches[address]:
            target, conditional = branches[address]
            if target is not None:
                now.next.append(target)
            if conditional and i + 1 < len(addresses):
                now.next.append(addresses[i + 1])
            ended = True
    return result


def main_loops(blocks, is_product):
    """Returns (first, last) addresses of loops with products: those with the most first, of these the shortest."""
    count = {at: sum(map(is_product, b.instructions)) for at, b in blocks.items()}
    loops = []
    for at, block in blocks.items():
        for target in block.next:
            if target <= at and target in blocks:
                inside = [a for a in blocks if target <= a <= at]
                loops.append((sum(count[a] for a in inside), -len(inside), target, at))
    return [loop[2:] for loop in sorted(loops, reverse=True) if loop[0]]


def path_of(blocks, loop, worth, features):
    """Returns the instructions of a path from the loop's first block to its last: of those with the most worth the
    shortest that has all features that a path can have. None if there is no path without a step back. worth is of an instruction, features of a block's."""
    first, last = loop
    inside = sorted(a for a in blocks if first <= a <= last)
    value = {a: sum(map(worth, blocks[a].instructions)) for a in inside}
    has = {a: features(blocks[a].instructions) for a in inside}
    best = {first: {has[first]: (value[first], -len(blocks[first].instructions), (first,))}}
    for at in inside:
        for flags, (worth_so_far, length, path) in best.get(at, {}).items():
            for n in blocks[at].next:
                if at < n <= last:
                    now = (worth_so_far + value[n], length - len(blocks[n].instructions), path + (n,))
                    of_next = best.setdefault(n, {})
                    of_next[flags | has[n]] = max(of_next.get(flags | has[n], now), now)
    if last not in best:
        return None
    flags = max(best[last], key=lambda f: (best[last][f][0], len(f)))
    return [text for at in best[last][flags][2] for text in blocks[at].instructions]


# --- NVIDIA ---


def nvidia_kernels(nvdisasm, cubin):
    """Yields (mangled name, instructions) of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([nvdisasm, "-c", file.name], stdout=subprocess.PIPE, text=True, check=True).stdout
    for part in re.split(r"\n\s*\.section\s+\.text\.", text)[1:]:
        name = re.match(r"[\w$]+", part)[0]
        labels, instructions, waiting = {}, [], []
        for line in part.splitlines():
            if m := re.match(r"(\.L_x_\d+):", line):
                waiting.append(m[1])
            elif m := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line):
                at = int(m[1], 16)
                labels.update((label, at) for label in waiting)
                waiting = []
                instructions.append((at, m[2]))
        yield name, [(at, re.sub(r"`\((\.L_x_\d+)\)", lambda m: "@%d" % labels.get(m[1], -1), t)) for at, t in instructions]


def nvidia_branch(text):
    if m := re.search(r"\bBRA\S*\s.*@(-?\d+)", text):
        conditional = text.startswith("@") or ".DIV" in text or re.search(r"BRA\S*\s+!?U?P\d", text)
        return int(m[1]), bool(conditional)
    return (None, text.startswith("@")) if re.search(r"\b(EXIT|RET)\b", text) else None


# --- AMD ---


def amd_kernels(objdump, code):
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(code)
        file.flush()
        text = subprocess.run([objdump, "-d", file.name], stdout=subprocess.PIPE, text=True, check=True).stdout
    for part in re.split(r"\n(?=[0-9a-f]{16} <)", text)[1:]:
        begin, name = re.match(r"([0-9a-f]{16}) <(.*?)>:", part).groups()
        instructions = []
        for line in part.splitlines()[1:]:
            if m := re.match(r"\s+(\S.*?)\s*// ([0-9A-F]{12}):(.*)", line):
                offset = re.search(r"<\S+?\+0x([0-9a-f]+)>", m[3])
                target = " @%d" % (int(begin, 16) + int(offset[1], 16)) if offset else ""
                instructions.append((int(m[2], 16), m[1] + target))
        yield name, instructions


def amd_branch(text):
    if m := re.match(r"s_(c?)branch\S* .*@(\d+)", text):
        return int(m[2]), m[1] == "c"
    return (None, False) if text.startswith("s_endpgm") else None
