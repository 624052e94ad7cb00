"""Token files, and the samples of a run."""

import os
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Dict, Union

from . import _native
from ._errors import InputError
from ._native import Handle, call, path_bytes
from .config import Config, Overrides, Source

if TYPE_CHECKING:
    import numpy

_DTYPES = {"u8": "u1", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "f32": "<f4", "f64": "<f8", "u16": "<u2"}


class TokenFile(Handle):
    """``TokenFile("data/mine_text_document")``: a pair of .bin and .idx, as Megatron's and `trireme preprocess` make
    them. ``tokens[i]`` is sequence i as an array of the file itself, mapped: nothing is copied."""

    _kind = "tokens"

    def __init__(self, prefix: Union[str, "os.PathLike[str]"]):
        pointer = c_void_p()
        call("tokens_open", path_bytes(prefix), byref(pointer))
        self._own(pointer)
        info = _native.TokensInfo()
        _native.library().trireme_tokens_info_of(pointer, byref(info))
        self.sequences: int = info.sequences
        self.documents: int = info.documents
        self.tokens: int = info.tokens  #: of all sequences
        self._dtype = _DTYPES[info.dtype.decode()]

    def __len__(self) -> int:
        return self.sequences

    def __getitem__(self, index: int) -> "numpy.ndarray":
        """[tokens of the sequence], in the type of the file; read-only."""
        numpy = _native.numpy()
        if index < 0:
            index += self.sequences
        if not 0 <= index < self.sequences:
            raise IndexError(f"there are {self.sequences} sequences, and number {index} is asked for")
        data, count = c_void_p(), c_int64()
        call("tokens_sequence", self._handle, index, byref(data), byref(count))
        if count.value == 0:
            return numpy.empty(0, dtype=self._dtype)
        holder = _View()
        holder.owner = self  # keeps the file mapped as long as the array lives
        holder.__array_interface__ = {"data": (data.value, True), "shape": (count.value,), "typestr": numpy.dtype(self._dtype).str, "version": 3}
        return numpy.asarray(holder)

    def document(self, index: int) -> "range":
        """The sequences of a document."""
        bounds = []
        for number in (index, index + 1):
            sequence = c_int64()
            call("tokens_document", self._handle, number, byref(sequence))
            bounds.append(sequence.value)
        return range(*bounds)

    def close(self) -> None:
        """Unmaps the file: arrays of it must not be used any more."""
        super().close()


class _View:
    owner: Any
    __array_interface__: Dict[str, Any]


class Dataset(Handle):
    """The samples of a run in its order, from token files or straight from text, as training reads them.

    ``dataset.step(7)``: what step 7 of the run learns from. ``dataset[i]``: sample i.
    `split`: "train", "valid" or "test". `ranks`: of the run, where batches depend on them (ramp-ups).
    """

    _kind = "samples"

    def __init__(self, config: Source, overrides: Overrides = None, *, split: str = "train", ranks: int = 0):
        pointer = c_void_p()
        whole = Config(config, overrides)
        call("samples_open", whole._handle, split.encode(), ranks, byref(pointer))
        self._own(pointer)
        info = _native.SamplesInfo()
        _native.library().trireme_samples_info_of(pointer, byref(info))
        self.seq_length: int = info.seq_length
        self.steps: int = info.steps  #: of the run
        self._size = info.size

    def __len__(self) -> int:
        return self._size

    def read(self, first: int, count: int = 1) -> "Dict[str, numpy.ndarray]":
        """Samples [first, first + count): `tokens`, `targets`, `positions`, `first_visible`, int32 [count, seq_length],
        and `loss_weights`, float32 of the same shape. Targets are what each position shall predict; `first_visible`
        is the first position that each may attend to."""
        numpy = _native.numpy()
        if count < 0:
            raise InputError(f"{count} samples are asked for")
        shape = (count, self.seq_length)
        arrays = {name: numpy.zeros(shape, dtype=numpy.float32 if name == "loss_weights" else numpy.int32) for name in _NAMES}
        call("samples_read", self._handle, first, count, *[array.ctypes.data for array in arrays.values()])
        return arrays

    def step(self, step: int) -> "Dict[str, numpy.ndarray]":
        """The global batch of a step, from 1, as `read` gives it."""
        first, count = c_int64(), c_int64()
        call("samples_of_step", self._handle, step, byref(first), byref(count))
        return self.read(first.value, count.value)

    def __getitem__(self, index: int) -> "Dict[str, numpy.ndarray]":
        """One sample: arrays [seq_length]."""
        if index < 0:
            index += self._size
        if not 0 <= index < self._size:
            raise IndexError(f"there are {self._size} samples, and number {index} is asked for")
        return {name: array[0] for name, array in self.read(index).items()}


_NAMES = ("tokens", "targets", "loss_weights", "positions", "first_visible")
