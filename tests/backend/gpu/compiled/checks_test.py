#!/usr/bin/env python3
"""Tests of the checks on compiled kernels, with kernels that violate each of their rules."""

import dataclasses
import unittest

from code_objects import CodeObject, Kernel, message, plain_names
from occupancy import occupancy
from registered import missing
from resources import compare

NORM = Kernel("norm_kernel<bf16, 64>", 64, 40, 0, 0, 16)
SPILLING = Kernel("norm_kernel<float, 64>", 64, 255, 0, 16, 16)


def complaints(table, kernels):
    by_name = lambda all: {k.name: k for k in all}
    return list(compare("sm_80", by_name(table), by_name(kernels)))


class Table(unittest.TestCase):
    def changed(self, kernel, **what):
        return complaints([kernel], [dataclasses.replace(kernel, **what)])

    def test_accepts_what_is_in_it_and_what_is_better(self):
        self.assertEqual(complaints([NORM, SPILLING], [NORM, SPILLING]), [])
        self.assertEqual(self.changed(SPILLING, registers=44, scratch=0), [])
        self.assertEqual(self.changed(NORM, registers=44), [])

    def test_refuses_growth(self):
        self.assertEqual(self.changed(NORM, registers=45), [NORM.name + ": registers grew from 40 to 45"])
        self.assertEqual(self.changed(NORM, shared=32), [NORM.name + ": shared grew from 16 to 32"])
        self.assertEqual(self.changed(SPILLING, scratch=20), [SPILLING.name + ": scratch grew from 16 to 20"])

    def test_refuses_a_first_spill(self):
        self.assertEqual(self.changed(NORM, scratch=4), [NORM.name + ": scratch grew from 0 to 4"])

    def test_refuses_spills_of_attention_even_if_it_has_them(self):
        for name, never in [
            ("forward_kernel<bf16, 64, 0>", True),
            ("keys_kernel<f16, 128, 1>", True),
            ("queries_kernel<bf16, 128, 2>", True),
            ("forward_kernel<bf16, 96, 0>", False),
        ]:
            kernel = Kernel(name, 128, 255, 0, 12, 0)
            self.assertEqual(len(complaints([kernel], [kernel])), 1 if never else 0, name)

    def test_refuses_other_blocks_and_other_kernels(self):
        self.assertEqual(self.changed(NORM, threads=128), [NORM.name + ": blocks of 128 threads; the table has 64"])
        self.assertEqual(complaints([], [NORM]), [NORM.name + ": is not in the table"])
        self.assertEqual(complaints([NORM], []), [NORM.name + ": is in the table alone"])


class Registered(unittest.TestCase):
    WIDE, NARROW = "_Z1kILi64EEvv", "_Z1kILi32EEvv"

    def test_finds_a_kernel_that_the_device_calls_otherwise(self):
        objects = [CodeObject("gfx942", {self.WIDE: None}), CodeObject("gfx1100", {self.NARROW: None})]
        self.assertEqual(list(missing(objects, [self.WIDE], ["gfx942", "gfx1100"])), ["gfx1100 has no k<64>"])

    def test_finds_an_architecture_that_is_not_there(self):
        self.assertEqual(
            list(missing([CodeObject("sm_80", {})], [], ["sm_80", "sm_90"])), ["0 code objects for sm_90"]
        )


class Readers(unittest.TestCase):
    def test_read_messages(self):
        data = b"\x82\xa1a\x93\x01\xff\xcd\x01\x00\xa1b\xd9\x02hi"
        self.assertEqual(message(data, 0), ({"a": [1, -1, 256], "b": "hi"}, len(data)))

    def test_show_names_without_their_parameters(self):
        name = "_ZN7trireme3gpu12_GLOBAL__N_111norm_kernelINS_4bf16ELi64EEEvPKT_"
        self.assertEqual(plain_names([name]), {name: "norm_kernel<bf16, 64>"})


class Occupancy(unittest.TestCase):
    def test_follows_from_registers_and_shared_memory(self):
        def of(architecture, threads, registers, shared=0):
            return occupancy(architecture, Kernel("k", threads, registers, 0, 0, shared))

        self.assertEqual(of("sm_80", 256, 32), 100)
        self.assertEqual(of("sm_80", 256, 128), 25)
        self.assertEqual(of("sm_80", 128, 255), 12)
        self.assertEqual(of("sm_80", 256, 32, 40 * 1024), 50)
        self.assertEqual(of("gfx90a", 256, 64), 100)
        self.assertEqual(of("gfx90a", 256, 256), 25)
        self.assertEqual(of("gfx90a", 64, 512), 12)
        self.assertEqual(of("gfx1100", 256, 96), 100)
        self.assertEqual(of("gfx1100", 256, 256), 25)


if __name__ == "__main__":
    unittest.main()
