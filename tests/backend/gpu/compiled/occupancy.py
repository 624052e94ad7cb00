"""Computes a kernel's occupancy: the percentage of a processor's waves that registers and static shared memory allow.

Dynamic shared memory is not counted: its size is an argument of each launch. NVIDIA's numbers are from the table of
compute capabilities in the CUDA C++ Programming Guide; AMD's from LLVM's AMDGPU backend (AMDGPUBaseInfo.cpp, IsaInfo)
and from the ISA manuals of CDNA 2, CDNA 3 and RDNA 3.
"""

from dataclasses import dataclass


@dataclass
class Processor:
    wave: int
    waves: int  # maximum resident waves
    blocks: int  # maximum resident blocks
    registers: int  # number of 32-bit registers
    register_step: int  # allocation granularity per wave
    shared: int  # bytes
    block_shared: int  # bytes that each block takes in addition to its own


KIB = 1024
PROCESSORS = {
    # A streaming multiprocessor.
    "sm_80": Processor(32, 64, 32, 65536, 256, 164 * KIB, KIB),
    "sm_90": Processor(32, 64, 32, 65536, 256, 228 * KIB, KIB),
    "sm_100": Processor(32, 64, 32, 65536, 256, 228 * KIB, KIB),
    # A compute unit: four SIMDs with 8 waves and 512 registers of 64 lanes each.
    "gfx90a": Processor(64, 32, 32, 4 * 512 * 64, 8 * 64, 64 * KIB, 0),
    "gfx942": Processor(64, 32, 32, 4 * 512 * 64, 8 * 64, 64 * KIB, 0),
    # A workgroup processor: four SIMDs with 16 waves and 1536 registers of 32 lanes each.
    "gfx1100": Processor(32, 64, 32, 4 * 1536 * 32, 24 * 32, 128 * KIB, 0),
}


def occupancy(architecture, kernel):
    """Returns the occupancy in percent, rounded down."""
    p = PROCESSORS[architecture]
    waves = -(-kernel.threads // p.wave)
    step = p.register_step
    per_wave = -(-kernel.registers * p.wave // step) * step
    # The register file has four parts, and a wave's registers are in one of them.
    by_registers = 4 * (p.registers // 4 // per_wave) // waves if per_wave else p.blocks
    shared = kernel.shared + p.block_shared
    by_shared = p.shared // shared if shared else p.blocks
    blocks = min(p.waves // waves, p.blocks, by_registers, by_shared)
    return 100 * blocks * waves // p.waves
