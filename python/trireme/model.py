"""Trained models: logits, likelihoods and generation."""

import os
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_uint8, c_void_p, cast
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native
from ._errors import InputError
from ._native import Handle, Keep, call, i32s, i64s, path_bytes, texts
from .config import Config, Overrides, override_list
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy

Text = Union[str, Sequence[int]]


class LogLikelihood(NamedTuple):
    log: float  #: sum of the natural logarithms of the probabilities of the continuation's tokens
    greedy: bool  #: whether each of them is the likeliest


class Model(Handle):
    """``Model("runs/mine")``: the folder of a run, of checkpoints or of one checkpoint; or of another program in any
    format that `trireme convert` reads (Hugging Face, Megatron, DeepSpeed, DCP, Llama), which is converted into a
    temporary folder first.

    `overrides` change the saved configuration, e.g. ``{"run.precision": "fp32"}``. Weights are in memory once:
    they are read again where the use changes between logits and generation. One thread at a time.
    """

    _kind = "model"

    def __init__(self, path: Union[str, "os.PathLike[str]"], overrides: Overrides = None):
        given = override_list(overrides)
        pointer = c_void_p()
        call("model_open", path_bytes(path), texts(given), len(given), byref(pointer))
        self._own(pointer)
        info = _native.ModelInfo()
        _native.library().trireme_model_info_of(pointer, byref(info))
        self.path = os.fspath(path)
        self.vocab_size: int = info.vocab_size
        self.seq_length: int = info.seq_length  #: that it was trained with
        self.max_length: Optional[int] = info.max_length or None  #: tokens that a sequence may have; None: any number
        self.step: int = info.step  #: that the checkpoint was saved at
        self.predicts_next: bool = bool(info.next_token)  #: False: it fills in masked tokens, as BERT
        self._tokenizer: Optional[Tokenizer] = None

    @property
    def config(self) -> Config:
        """That of the run, with the overrides."""
        pointer = c_void_p()
        call("model_config", self._handle, byref(pointer))
        return Config._of(pointer)

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the run."""
        if self._tokenizer is None:
            pointer = c_void_p()
            call("model_tokenizer", self._handle, byref(pointer))
            self._tokenizer = Tokenizer._of(pointer)
        return self._tokenizer

    def _ids(self, text: Text, kind: str = "plain") -> Any:
        return self.tokenizer.encode(text, kind) if isinstance(text, str) else text

    def logits(self, ids: Text, token_types: Optional[Sequence[int]] = None) -> "numpy.ndarray":
        """float32 [tokens, vocab_size] of one sequence of ids, or of a text as `Tokenizer.encode` gives it.

        `token_types`: of BERT, 0 or 1 for each id.
        """
        numpy = _native.numpy()
        sequence = i32s(self._ids(ids))
        types = None if token_types is None else i32s(token_types)
        if types is not None and len(types) != len(sequence):
            raise InputError(f"there are {len(types)} token types for {len(sequence)} ids")
        result = numpy.empty((len(sequence), self.vocab_size), dtype=numpy.float32)
        call("model_logits", self._handle, sequence, len(sequence), types, result.ctypes.data)
        return result

    def encode_pair(self, context: str, continuation: str) -> Tuple[List[int], List[int]]:
        """Ids of both: blanks at the end of the context belong to the continuation, and the two are encoded as one
        text, as lm-evaluation-harness does it. An empty context is the token that ends documents."""
        blanks = len(context) - len(context.rstrip())
        if blanks:
            continuation, context = context[-blanks:] + continuation, context[:-blanks]
        if not context:
            return [self.prefix_id()], self.tokenizer.encode(continuation)
        whole, given = self.encode_opened([context + continuation, context])
        return given, whole[len(given) :]

    def encode_opened(self, texts: Sequence[str]) -> List[List[int]]:
        """Ids of texts that begin with what opens a document (BOS, where the tokenizer's template has it), once."""
        plain, opened = self.tokenizer.encode_batch(texts), self.tokenizer.encode_batch(texts, "prompt")
        bos = self.tokenizer.special.bos
        return [without if without and without[0] == bos else ids for without, ids in zip(plain, opened)]

    def prefix_id(self) -> int:
        """The token before a text that has no context: BOS, else the one that ends documents."""
        special = self.tokenizer.special
        for found in (special.bos, special.eod, special.eos):
            if found >= 0:
                return found
        raise InputError("the tokenizer has no token that opens or ends a document: give a context")

    def log_likelihoods(
        self, pairs: Sequence[Tuple[Text, Text]], progress: Optional[Callable[[int], Any]] = None
    ) -> List[LogLikelihood]:
        """For each (context, continuation): how likely the continuation's tokens are after the context.

        Both are texts, or both ids (then the context is not empty). `progress` is told how many are done.
        """
        whole, given = [], []
        for context, continuation in pairs:
            if isinstance(context, str) and isinstance(continuation, str):
                context, continuation = self.encode_pair(context, continuation)
            whole.append([*context, *continuation])
            given.append(len(context))
        if not whole:
            return []
        ids, offsets = _native.ragged_i32s(whole)
        sums, greedy = (c_double * len(whole))(), (c_uint8 * len(whole))()
        keep = Keep()

        def after(_user: Any, done: int) -> int:
            if progress is not None:
                progress(done)
            return 0

        function = _native.ProgressFunction(keep.guard(after, 1))
        keep.call("model_log_likelihoods", self._handle, ids, offsets, i64s(given), len(whole), sums, greedy, function, None)
        return [LogLikelihood(log, bool(flag)) for log, flag in zip(sums, greedy)]

    def generate(
        self,
        prompts: Union[Text, Sequence[Text]],
        max_new_tokens: int = 100,
        *,
        sample: bool = True,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop_ids: Sequence[int] = (),
        stop_at_end: bool = True,
        on_token: Optional[Callable[[int, int], Any]] = None,
    ) -> Any:
        """Continues a prompt, or each of a list of them: a text or ids; the result is of the same kind, with the prompt.

        Equal seeds give equal results. ``sample=False`` takes the likeliest token, always. `stop_at_end`: also at the
        tokens that end a document. `on_token(sequence, id)` is called for every token as it is drawn; what returns
        True there ends all. Ctrl-C ends it at the next token.
        """
        one = isinstance(prompts, str) or (len(prompts) > 0 and not isinstance(prompts[0], str) and not hasattr(prompts[0], "__len__"))
        batch: List[Any] = [prompts] if one else list(prompts)
        as_text = [isinstance(prompt, str) for prompt in batch]
        sequences = [self._ids(prompt, "prompt") or [self.prefix_id()] if text else prompt for prompt, text in zip(batch, as_text)]
        options = _native.GenerateOptions()
        _native.library().trireme_generate_defaults(byref(options))
        options.max_new_tokens, options.sample, options.temperature = max_new_tokens, int(sample), temperature
        options.top_k, options.top_p, options.repetition_penalty = top_k, top_p, repetition_penalty
        options.seed, options.stop_at_end = seed, int(stop_at_end)
        ends = i32s(list(stop_ids))
        options.stop_ids, options.stop_count = cast(ends, POINTER(c_int32)), len(ends)
        keep = Keep()

        def drawn(_user: Any, sequence: int, token: int) -> int:
            return 1 if on_token is not None and on_token(sequence, token) else 0

        options.on_token = _native.TokenFunction(keep.guard(drawn, 1))
        ids, offsets = _native.ragged_i32s(sequences)
        out, places = c_void_p(), (c_int64 * (len(batch) + 1))()
        keep.call("model_generate", self._handle, ids, offsets, len(batch), byref(options), byref(out), places)
        results: List[Any] = _native.take_i32_lists(out, places)
        for i, text in enumerate(as_text):
            if text:  # ids of a padded vocabulary have no text
                results[i] = self.tokenizer.decode([one for one in results[i] if one < self.tokenizer.vocab_size], True)
        return results[0] if one else results

    def close(self) -> None:
        if self._tokenizer is not None:
            self._tokenizer.close()
        super().close()

    def __repr__(self) -> str:
        return f"<trireme.Model {self.path!r}, step {self.step}>"
