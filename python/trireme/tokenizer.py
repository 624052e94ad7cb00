"""Tokenizers: texts to ids and back, in batches over all processors."""

import os
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native
from ._errors import InputError
from ._native import Handle, call, path_bytes

if TYPE_CHECKING:
    import numpy

_KINDS = {"plain": 0, "document": 1, "prompt": 2, "special": 3}


class SpecialIds(NamedTuple):
    """Ids of the special tokens; -1 where there is none."""

    eod: int
    bos: int
    eos: int
    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Encoded(Sequence):
    """The ids of the texts of a batch: ``encoded[i]`` is a list, made when it is asked for."""

    def __init__(self, memory: _native.Owned, places: Any):
        self._memory = memory  # which the view does not keep alive
        self._places = memoryview(places).cast("B").cast("q")
        self._ids = memory.view(self._places[-1])

    def __len__(self) -> int:
        return len(self._places) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        i = range(len(self))[index]
        return self._ids[self._places[i] : self._places[i + 1]].tolist()

    def __iter__(self) -> Iterator[List[int]]:
        places = self._places.tolist()
        return (self._ids[begin:end].tolist() for begin, end in zip(places, places[1:]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Encoded, list, tuple)) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Tuple[Any, ...]:  # for pickle, and other processes
        return list, (list(self),)

    def __repr__(self) -> str:
        return f"<trireme.Encoded: {len(self)} texts, {len(self._ids)} ids>"


class Tokenizer(Handle):
    """``Tokenizer("runs/mine")``: that of a run, a checkpoint or another program's folder, a ``tokenizer.json``, or
    a folder with ``tokenizer.json`` or with ``vocab.json`` and ``merges.txt``.

    ``Tokenizer(type="llama2", model_file="tokenizer.model")``: by its type, as in data.tokenizer, and its files.

    Several threads may use one. Kinds of encoding: "plain", the text alone; "document", as `trireme preprocess`
    makes it, without the token that ends a document; "prompt", what opens a document, then the text; "special",
    with the special tokens around it ([CLS] ... [SEP]).
    """

    _kind = "tokenizer"

    def __init__(
        self,
        path: Union[None, str, "os.PathLike[str]"] = None,
        *,
        type: Optional[str] = None,
        vocab_file: Union[None, str, "os.PathLike[str]"] = None,
        merge_file: Union[None, str, "os.PathLike[str]"] = None,
        model_file: Union[None, str, "os.PathLike[str]"] = None,
    ):
        if (path is None) == (type is None):
            raise InputError("a tokenizer is given by its path, or by type= and its files")
        pointer = c_void_p()
        if path is not None:
            call("tokenizer_find", path_bytes(path), byref(pointer))
        else:
            files = [path_bytes(one) if one is not None else None for one in (vocab_file, merge_file, model_file)]
            call("tokenizer_open", str(type).encode(), *files, byref(pointer))
        self._take(pointer)

    def _take(self, pointer: c_void_p) -> None:
        self._own(pointer)
        info = _native.TokenizerInfo()
        _native.library().trireme_tokenizer_info_of(pointer, byref(info))
        self.vocab_size: int = info.vocab_size  #: one more than the largest id
        self.special = SpecialIds(info.eod, info.bos, info.eos, info.pad, info.unk, info.cls, info.sep, info.mask)
        self.fingerprint: int = info.fingerprint  #: equal for tokenizers that give the same ids

    @classmethod
    def _of(cls, pointer: c_void_p) -> "Tokenizer":
        tokenizer = cls.__new__(cls)
        tokenizer._take(pointer)
        return tokenizer

    def _encode(self, texts: Sequence[Union[str, bytes]], kind: str) -> Tuple[c_void_p, Any]:
        if kind not in _KINDS:
            raise InputError(f"there is no kind {kind!r} of encoding: expected {', '.join(_KINDS)}")
        if isinstance(texts, (str, bytes)):
            raise InputError("a batch is a list of texts: encode() takes one text")
        texts = texts if isinstance(texts, (list, tuple)) else list(texts)
        try:
            parts = list(map(str.encode, texts))
        except (TypeError, UnicodeEncodeError):
            parts = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in texts]
        ids, offsets = c_void_p(), (c_int64 * (len(parts) + 1))()
        call("tokenizer_encode", self._handle, b"".join(parts), _native.places_of(parts), len(parts), _KINDS[kind], byref(ids), offsets)
        return ids, offsets

    def encode(self, text: Union[str, bytes], kind: str = "plain") -> List[int]:
        """The ids of one text."""
        return self.encode_batch([text], kind)[0]

    def encode_batch(self, texts: Sequence[Union[str, bytes]], kind: str = "plain") -> Encoded:
        """The ids of each text, on all processors: a sequence of lists, each of which is made when it is asked for."""
        ids, places = self._encode(texts, kind)
        return Encoded(_native.Owned(ids), places)

    def encode_arrays(self, texts: Sequence[Union[str, bytes]], kind: str = "plain") -> "Tuple[numpy.ndarray, numpy.ndarray]":
        """All ids, int32 [n], and where each text begins, int64 [texts + 1]: the fastest form, without a copy."""
        numpy = _native.numpy()
        ids, offsets = self._encode(texts, kind)
        places = numpy.frombuffer(offsets, dtype=numpy.int64)
        return _native.Owned(ids).array(numpy.int32, int(places[-1])), places

    def decode_bytes(self, ids: Sequence[int], skip_special: bool = False) -> bytes:
        """The exact bytes of ids, which may cut a character."""
        return self._decode([ids], skip_special)[0]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of ids; a character that is cut becomes U+FFFD."""
        return self.decode_bytes(ids, skip_special).decode("utf-8", "replace")

    def decode_batch(self, batch: Sequence[Sequence[int]], skip_special: bool = False) -> List[str]:
        return [text.decode("utf-8", "replace") for text in self._decode(batch, skip_special)]

    def _decode(self, batch: Sequence[Sequence[int]], skip_special: bool) -> List[bytes]:
        ids, places = _native.ragged_i32s(batch)
        text, offsets = c_void_p(), (c_int64 * (len(batch) + 1))()
        call("tokenizer_decode", self._handle, ids, places, len(batch), int(skip_special), byref(text), offsets)
        try:
            from ctypes import string_at

            whole = string_at(text, offsets[len(batch)])
        finally:
            _native.library().trireme_free(text)
        return [whole[begin:end] for begin, end in zip(offsets, offsets[1:])]

    def __repr__(self) -> str:
        return f"<trireme.Tokenizer of {self.vocab_size} tokens>"
