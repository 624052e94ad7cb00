"""Reads tensors of checkpoints in any supported format."""

import json
import os
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _native
from ._native import Handle, call, path_bytes, text_from

if TYPE_CHECKING:
    import numpy

_DTYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "u16": "<u2", "u8": "u1"}


class TensorInfo(NamedTuple):
    """Shape and type of a tensor."""

    shape: Tuple[int, ...]
    dtype: str  #: stored type: "f32", "bf16", "f16" ...
    nbytes: int  #: stored size


class Checkpoint(Handle, Mapping):  # type: ignore[type-arg]
    """A read-only mapping from tensor names to NumPy arrays: ``Checkpoint("runs/mine")["layers.3.mlp.up.weight"]``.

    `path`: a run, a checkpoint, or a folder in any format that `trireme convert` reads (Hugging Face, Megatron,
    DeepSpeed, torch.distributed.checkpoint, Llama). Names are always Trireme's ("layers.3.mlp.up.weight"). Tensors
    have their full shape, independent of the layout that wrote them.

    Opening reads only tables. Each access reads one tensor from disk and verifies its checksums where the format has
    any. ``checkpoint[name]`` has the stored type; bfloat16, which NumPy lacks, becomes float32 with equal values.

    Raises InputError if the folder is not a checkpoint or is damaged, KeyError for unknown names.
    """

    _kind = "checkpoint"

    def __init__(self, path: Union[str, "os.PathLike[str]"]):
        pointer = c_void_p()
        call("checkpoint_open", path_bytes(path), byref(pointer))
        self._own(pointer)
        about = json.loads(text_from("checkpoint_json", pointer))
        self.format: str = about["format"]  #: "trireme", "hf", "megatron" ...
        self.folder: str = about["folder"]  #: that the tensors are read from
        self.step: Optional[int] = about["step"]  #: None if the files do not contain it
        self.config_toml: Optional[str] = about["config"]  #: TOML of the run's configuration; None if the files do not contain it
        self.note: str = about["note"]  #: a note of the format's reader for the user, or ""
        self._infos: Dict[str, TensorInfo] = {}
        self._numbers: Dict[str, int] = {}
        for number in range(_native.library().trireme_checkpoint_count(pointer)):
            tensor = _native.Tensor()
            call("checkpoint_tensor", pointer, number, byref(tensor))
            name = tensor.name.decode()
            self._numbers[name] = number
            self._infos[name] = TensorInfo(tuple(tensor.shape[: tensor.rank]), tensor.dtype.decode(), tensor.bytes)

    def info(self, name: str) -> TensorInfo:
        """Returns shape and type of a tensor without reading it. Raises KeyError for unknown names."""
        return self._infos[self._known(name)]

    def _known(self, name: str) -> str:
        if name not in self._infos:
            import difflib

            near = difflib.get_close_matches(name, self._infos, 1)
            raise KeyError(f"'{self.folder}' has no tensor {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return name

    def read(self, name: str, as_f32: bool = False, out: Any = None) -> "numpy.ndarray":
        """Reads a tensor into an array of its shape, and returns the array.

        `as_f32`: converts floating-point tensors to float32. `out`: a C-contiguous array of the tensor's shape and
        type to read into; InputError if it has another shape or type.
        """
        numpy = _native.numpy()
        info = self._infos[self._known(name)]
        as_f32 = as_f32 or info.dtype == "bf16"
        dtype = numpy.dtype("<f4" if as_f32 else _DTYPES[info.dtype])
        array = numpy.empty(info.shape, dtype=dtype) if out is None else out
        if array.shape != info.shape or array.dtype != dtype or not array.flags.c_contiguous:
            from ._errors import InputError

            raise InputError(f"{name} needs a C-contiguous array {list(info.shape)} of {dtype}, not {list(array.shape)} of {array.dtype}")
        call("checkpoint_read", self._handle, self._numbers[name], int(as_f32), array.ctypes.data, array.nbytes)
        return array

    def __getitem__(self, name: str) -> "numpy.ndarray":
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def names(self) -> List[str]:
        """Names of all tensors."""
        return list(self._infos)

    def __repr__(self) -> str:
        return f"<trireme.Checkpoint {self.folder!r} ({self.format}), {len(self)} tensors>"
