"""Tokenizers: convert text to token ids and back, in batches on all processors."""

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
    """Ids of the special tokens; -1 for a token that the tokenizer does not have."""

    eod: int
    bos: int
    eos: int
    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Encoded(Sequence):
    """The ids of a batch of texts, a sequence of lists: ``encoded[i]`` is created on access from memory of the library."""

    def __init__(self, memory: _native.Owned, places: Any):
        self._memory = memory  # the view does not keep it alive
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

    def __reduce__(self) -> Tuple[Any, ...]:  # for pickle and multiprocessing
        return list, (list(self),)

    def __repr__(self) -> str:
        return f"<trireme.Encoded: {len(self)} texts, {len(self._ids)} ids>"


class Tokenizer(Handle):
    """A tokenizer, given by a path or by its type and files.

    ``Tokenizer("runs/mine")``: the tokenizer of a run, a checkpoint or another program's folder; a ``tokenizer.json``;
    or a folder with ``tokenizer.json``, or with ``vocab.json`` and ``merges.txt``.

    ``Tokenizer(type="llama2", model_file="tokenizer.model")``: the type as in data.tokenizer, with its files.

    The encoding functions have an argument `kind`:

    - "plain": only the text, without special tokens
    - "document": as `trireme preprocess` encodes it, without the token that ends a document (EOD)
    - "prompt": the tokens that open a document (such as BOS), then the text
    - "special": the text with its special tokens ([CLS] ... [SEP])

    Several threads may use one tokenizer. Raises InputError if files are missing or wrong, and for an unknown kind.
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
        self.vocab_size: int = info.vocab_size  #: the largest id + 1
        self.special = SpecialIds(info.eod, info.bos, info.eos, info.pad, info.unk, info.cls, info.sep, info.mask)
        self.fingerprint: int = info.fingerprint  #: equal for tokenizers that produce the same ids

    @classmethod
    def _of(cls, pointer: c_void_p) -> "Tokenizer":
        tokenizer = cls.__new__(cls)
        tokenizer._take(pointer)
        return tokenizer

    def _encode(self, texts: Sequence[Union[str, bytes]], kind: str) -> Tuple[c_void_p, Any]:
        if kind not in _KINDS:
            raise InputError(f"unknown encoding kind {kind!r}: expected {', '.join(_KINDS)}")
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
        """Encodes one text (str, or UTF-8 bytes) and returns its ids."""
        return self.encode_batch([text], kind)[0]

    def encode_batch(self, texts: Sequence[Union[str, bytes]], kind: str = "plain") -> Encoded:
        """Encodes texts on all processors. Returns a sequence of lists of ids, each created on access."""
        ids, places = self._encode(texts, kind)
        return Encoded(_native.Owned(ids), places)

    def encode_arrays(self, texts: Sequence[Union[str, bytes]], kind: str = "plain") -> "Tuple[numpy.ndarray, numpy.ndarray]":
        """Encodes texts on all processors. Returns (ids, offsets) without a copy, which is the fastest form.

        `ids`: int32 [n], all texts concatenated. `offsets`: int64 [texts + 1]; text i is ``ids[offsets[i]:offsets[i + 1]]``.
        """
        numpy = _native.numpy()
        ids, offsets = self._encode(texts, kind)
        places = numpy.frombuffer(offsets, dtype=numpy.int64)
        return _native.Owned(ids).array(numpy.int32, int(places[-1])), places

    def decode_bytes(self, ids: Sequence[int], skip_special: bool = False) -> bytes:
        """Decodes ids to bytes, which may be incomplete UTF-8. `skip_special`: leaves special tokens out."""
        return self._decode([ids], skip_special)[0]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """Decodes ids to text; an incomplete character becomes U+FFFD. `skip_special`: leaves special tokens out."""
        return self.decode_bytes(ids, skip_special).decode("utf-8", "replace")

    def decode_batch(self, batch: Sequence[Sequence[int]], skip_special: bool = False) -> List[str]:
        """Decodes each list of ids like `decode`, on all processors."""
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
