"""Token files and the samples of a run."""

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
    """Tokenized data: a pair of files PREFIX.bin and PREFIX.idx, as Megatron and `trireme preprocess` write them.

    ``TokenFile("data/mine_text_document")[i]`` is sequence i: a read-only array of the memory-mapped file, without a
    copy. ``len(tokens)`` is the number of sequences. Raises InputError if the files are missing or damaged.

    Do not truncate or overwrite the files while they are open: reading a lost page ends the process (SIGBUS).
    Several threads may read one TokenFile.
    """

    _kind = "tokens"

    def __init__(self, prefix: Union[str, "os.PathLike[str]"]):
        pointer = c_void_p()
        call("tokens_open", path_bytes(prefix), byref(pointer))
        self._own(pointer)
        info = _native.TokensInfo()
        _native.library().trireme_tokens_info_of(pointer, byref(info))
        self.sequences: int = info.sequences
        self.documents: int = info.documents
        self.tokens: int = info.tokens  #: total of all sequences
        self._dtype = _DTYPES[info.dtype.decode()]

    def __len__(self) -> int:
        return self.sequences

    def __getitem__(self, index: int) -> "numpy.ndarray":
        """Returns sequence `index` as a read-only array [length] in the file's type (uint16, int32 ...)."""
        numpy = _native.numpy()
        if index < 0:
            index += self.sequences
        if not 0 <= index < self.sequences:
            raise IndexError(f"there are {self.sequences} sequences, but number {index} was requested")
        data, count = c_void_p(), c_int64()
        call("tokens_sequence", self._handle, index, byref(data), byref(count))
        if count.value == 0:
            return numpy.empty(0, dtype=self._dtype)
        holder = _View()
        holder.owner = self  # keeps the file mapped while the array exists
        holder.__array_interface__ = {"data": (data.value, True), "shape": (count.value,), "typestr": numpy.dtype(self._dtype).str, "version": 3}
        return numpy.asarray(holder)

    def document(self, index: int) -> "range":
        """Returns the range of sequence numbers of document `index`."""
        bounds = []
        for number in (index, index + 1):
            sequence = c_int64()
            call("tokens_document", self._handle, number, byref(sequence))
            bounds.append(sequence.value)
        return range(*bounds)

    def close(self) -> None:
        """Unmaps the file. Arrays that were read from it must not be used afterwards."""
        super().close()


class _View:
    owner: Any
    __array_interface__: Dict[str, Any]


class Dataset(Handle):
    """The samples of a run in the order in which training reads them, from token files or directly from text.

    ``dataset[i]`` is sample i, ``dataset.step(7)`` the global batch of step 7, ``len(dataset)`` the number of samples.

    `config`, `overrides`: as for `Config`. `split`: "train", "valid" or "test". `ranks`: number of ranks of the run,
    on which batch sizes may depend (ramp-up); 0: the fewest ranks that [parallel] allows.

    Raises InputError if the configuration or its data is wrong, IndexError for ``dataset[i]`` out of range.
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
        self.steps: int = info.steps  #: number of steps of the run
        self._size = info.size

    def __len__(self) -> int:
        return self._size

    def read(self, first: int, count: int = 1) -> "Dict[str, numpy.ndarray]":
        """Returns samples [first, first + count) as arrays [count, seq_length].

        - `tokens`: int32, input ids
        - `targets`: int32, the id that each position predicts (labels, already shifted); with `model.mtp_layers`
          always the token of the next position
        - `loss_weights`: float32, 1 where the loss counts, 0 where it does not (loss mask)
        - `positions`: int32, position ids
        - `first_visible`: int32, the first position that each position may attend to (start of its document, or 0)

        Raises InputError if the dataset does not have these samples.
        """
        numpy = _native.numpy()
        if count < 0:
            raise InputError(f"{count} samples were requested")
        shape = (count, self.seq_length)
        arrays = {name: numpy.zeros(shape, dtype=numpy.float32 if name == "loss_weights" else numpy.int32) for name in _NAMES}
        call("samples_read", self._handle, first, count, *[array.ctypes.data for array in arrays.values()])
        return arrays

    def step(self, step: int) -> "Dict[str, numpy.ndarray]":
        """Returns the global batch of a step (from 1) like `read`: arrays [batch, seq_length]."""
        first, count = c_int64(), c_int64()
        call("samples_of_step", self._handle, step, byref(first), byref(count))
        return self.read(first.value, count.value)

    def __getitem__(self, index: int) -> "Dict[str, numpy.ndarray]":
        """Returns sample `index` like `read`, as arrays [seq_length]."""
        if index < 0:
            index += self._size
        if not 0 <= index < self._size:
            raise IndexError(f"there are {self._size} samples, but number {index} was requested")
        return {name: array[0] for name, array in self.read(index).items()}


_NAMES = ("tokens", "targets", "loss_weights", "positions", "first_visible")
