"""Reads the output of GPU compilers: the code objects of an image, and the resources of their kernels."""

import re
import struct
import subprocess
from dataclasses import dataclass, field


@dataclass
class Kernel:
    name: str  # the mangled name
    threads: int  # maximum per block
    registers: int  # vector registers per thread; on AMD including those for accumulation
    sums: int  # number of them that are AMD's accumulation registers
    scratch: int  # bytes per thread in device memory: spills, and arrays that do not fit registers
    shared: int  # static shared memory per block, in bytes


@dataclass
class CodeObject:
    architecture: str  # "sm_90", "gfx942"
    kernels: dict = field(default_factory=dict)


class Elf:
    """The sections and symbols of a 64-bit little-endian file."""

    def __init__(self, data):
        self.data = data
        (start,), (count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 60)
        self.headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
        self.names = [self.text(names, header[0]) for header in self.headers]

    def text(self, section, offset):
        begin = self.headers[section][4] + offset
        return self.data[begin : self.data.index(b"\0", begin)].decode()

    def content(self, index):
        header = self.headers[index]
        return self.data[header[4] : header[4] + header[5]]

    def sections(self, prefix):
        return [(name, i) for i, name in enumerate(self.names) if name.startswith(prefix)]

    def symbols(self):
        """Maps symbol indices to names."""
        index = self.names.index(".symtab")
        content, strings = self.content(index), self.headers[index][6]
        return [self.text(strings, struct.unpack_from("<I", content, at)[0]) for at in range(0, len(content), 24)]


# --- NVIDIA ---

# Attributes of .nv.info: format 4 has a size and that many bytes, format 3 has two inline bytes; others are shorter.
REGISTERS, FRAME, MOST_THREADS = 0x2F, 0x11, 0x05


def attributes(content):
    at = 0
    while at < len(content):
        form, kind, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == 4:
            yield kind, struct.unpack_from("<%dI" % (size // 4), content, at)
            at += size


def cubin(architecture, data):
    elf, result = Elf(data), CodeObject(architecture)
    symbols = elf.symbols()
    of_all = {}
    for kind, words in attributes(elf.content(elf.names.index(".nv.info"))):
        of_all[kind, symbols[words[0]]] = words[1]
    for section, index in elf.sections(".nv.info."):
        name = section[len(".nv.info.") :]
        own = dict(attributes(elf.content(index)))
        shared = [elf.headers[i][5] for s, i in elf.sections(".nv.shared.") if s == ".nv.shared." + name]
        if int(architecture[3:]) >= 90 and shared:
            shared[0] -= 1024  # the section includes what the system reserves in every block
        x, y, z = own[MOST_THREADS]
        result.kernels[name] = Kernel(
            name, x * y * z, of_all[REGISTERS, name], 0, of_all.get((FRAME, name), 0), sum(shared)
        )
    return result


ZSTD, LZ4 = 0x8000, 0x2000


def fat_binary(image):
    """Yields the cubins and the PTX of an NVIDIA image: (kind, architecture, bytes)."""
    at, end = struct.unpack_from("<H", image, 6)[0], len(image)
    while at < end:
        kind, _, header = struct.unpack_from("<HHI", image, at)
        (size,) = struct.unpack_from("<Q", image, at + 8)
        packed = struct.unpack_from("<I", image, at + 16)[0]
        architecture = struct.unpack_from("<I", image, at + 28)[0]
        flags = struct.unpack_from("<Q", image, at + 40)[0]
        content = image[at + header : at + header + (packed or size)]
        if flags & ZSTD:
            content = subprocess.run(["zstd", "-dcq"], input=content, stdout=subprocess.PIPE, check=True).stdout
        elif flags & LZ4:
            raise ValueError("the image is compressed by LZ4")
        yield {1: "ptx", 2: "elf"}.get(kind, "other"), architecture, content
        at += header + size


# --- AMD ---


def message(data, at):
    """Decodes one MessagePack value, of the kinds used in metadata; returns it and its end."""
    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 0x100, at
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at
    numbers = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    if code in numbers:
        return struct.unpack_from(numbers[code], data, at)[0], at + struct.calcsize(numbers[code])
    sizes = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
    if code in sizes:
        (size,) = struct.unpack_from(sizes[code], data, at)
        at += struct.calcsize(sizes[code])
    else:
        size = code & (0x1F if 0xA0 <= code < 0xC0 else 0x0F)
    if 0xA0 <= code < 0xC0 or code in (0xD9, 0xDA, 0xDB):
        return data[at : at + size].decode(), at + size
    values = []
    for _ in range(size if 0x90 <= code < 0xA0 or code in (0xDC, 0xDD) else 2 * size):
        value, at = message(data, at)
        values.append(value)
    if 0x90 <= code < 0xA0 or code in (0xDC, 0xDD):
        return values, at
    return dict(zip(values[::2], values[1::2])), at


def amd_object(architecture, data):
    elf, result = Elf(data), CodeObject(architecture)
    note = elf.content(elf.names.index(".note"))
    name_size = struct.unpack_from("<I", note, 0)[0]
    metadata, _ = message(note, 12 + (name_size + 3) // 4 * 4)
    code = set(elf.symbols())
    for k in metadata["amdhsa.kernels"]:
        if k[".name"] not in code:
            continue  # declared, but not defined
        result.kernels[k[".name"]] = Kernel(
            k[".name"],
            k[".max_flat_workgroup_size"],
            k[".vgpr_count"],
            k.get(".agpr_count", 0),
            k[".private_segment_fixed_size"],
            k[".group_segment_fixed_size"],
        )
    return result


def bundle(image):
    """Yields the entries of a clang offload bundle: (target, bytes)."""
    if not image.startswith(b"__CLANG_OFFLOAD_BUNDLE__"):
        raise ValueError("not a bundle, or a compressed one")
    at = 32
    for _ in range(struct.unpack_from("<Q", image, 24)[0]):
        offset, size, length = struct.unpack_from("<QQQ", image, at)
        yield image[at + 24 : at + 24 + length].decode(), image[offset : offset + size]
        at += 24 + length


# --- both ---


def code_objects(image):
    if image.startswith(b"__CLANG"):
        return [amd_object(t.split("--")[-1], data) for t, data in bundle(image) if not t.startswith("host")]
    return [cubin("sm_%d" % number, data) for kind, number, data in fat_binary(image) if kind == "elf"]


def plain_names(names):
    """Returns the names as in the source: norm_kernel<bf16, 64>."""
    names = list(names)
    shown = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True).stdout
    result = {}
    for name, text in zip(names, shown.splitlines()):
        text = re.sub(r"trireme::|gpu::|\(anonymous namespace\)::|^void ", "", text)
        text = re.sub(r"\((Form|unsigned char)\)", "", text)
        depth = 0  # parameters begin at the first parenthesis outside of template arguments
        for i, c in enumerate(text):
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0:
                text = text[:i]
                break
        result[name] = text
    return result
