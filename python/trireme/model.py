"""Trained models: logits, log-likelihoods and generation."""

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
    """Log-likelihood of a continuation."""

    log: float  #: sum of the natural log-probabilities of the continuation's tokens
    greedy: bool  #: whether each of these tokens is the most likely one (greedy decoding gives the continuation)


class Model(Handle):
    """A trained model for inference: ``Model("runs/mine")``.

    `path`: the folder of a run, of checkpoints or of one checkpoint; or a folder in any other format that
    `trireme convert` reads (Hugging Face, Megatron, DeepSpeed, torch.distributed.checkpoint, Llama), which is first
    converted into a temporary folder (TMPDIR) that `close()` removes.
    `overrides`: changes to the saved configuration, such as ``{"run.precision": "fp32"}``; as for `Config`.

    The methods take text or token ids. There is one copy of the weights: switching between logits or likelihoods and
    generation reads them again. One thread at a time may use a model, and only one model or trainer computes at a time.

    Raises InputError if there is no checkpoint or it is damaged, and for ids out of range and sequences that are too
    long.
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
        self.seq_length: int = info.seq_length  #: sequence length of training
        self.max_length: Optional[int] = info.max_length or None  #: maximum sequence length in tokens; None: unlimited
        self.step: int = info.step  #: training step of the checkpoint
        self.predicts_next: bool = bool(info.next_token)  #: False for masked language models such as BERT
        self._tokenizer: Optional[Tokenizer] = None

    @property
    def config(self) -> Config:
        """The run's configuration, with the overrides."""
        pointer = c_void_p()
        call("model_config", self._handle, byref(pointer))
        return Config._of(pointer)

    @property
    def tokenizer(self) -> Tokenizer:
        """The run's tokenizer. Raises InputError if the configuration names none."""
        if self._tokenizer is None:
            pointer = c_void_p()
            call("model_tokenizer", self._handle, byref(pointer))
            self._tokenizer = Tokenizer._of(pointer)
        return self._tokenizer

    def _ids(self, text: Text, kind: str = "plain") -> Any:
        return self.tokenizer.encode(text, kind) if isinstance(text, str) else text

    def logits(self, ids: Text, token_types: Optional[Sequence[int]] = None) -> "numpy.ndarray":
        """Returns the logits of one sequence: float32 [tokens, vocab_size], without a batch dimension.

        `ids`: token ids, or a text, which is encoded by `Tokenizer.encode` without special tokens. Row i has the
        scores after token i, before softmax.
        `token_types`: for BERT, 0 or 1 for each id (segment ids).
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
        """Encodes a context and a continuation as lm-evaluation-harness does, and returns the ids of each.

        The two are encoded as one text; whitespace at the end of the context moves to the continuation. An empty
        context becomes `prefix_id()`.
        """
        blanks = len(context) - len(context.rstrip())
        if blanks:
            continuation, context = context[-blanks:] + continuation, context[:-blanks]
        if not context:
            return [self.prefix_id()], self.tokenizer.encode(continuation)
        whole, given = self.encode_opened([context + continuation, context])
        return given, whole[len(given) :]

    def encode_opened(self, texts: Sequence[str]) -> List[List[int]]:
        """Encodes texts with the tokens that open a document (BOS, if the tokenizer's template has it), never twice."""
        plain, opened = self.tokenizer.encode_batch(texts), self.tokenizer.encode_batch(texts, "prompt")
        bos = self.tokenizer.special.bos
        return [without if without and without[0] == bos else ids for without, ids in zip(plain, opened)]

    def prefix_id(self) -> int:
        """The token that precedes a text without context: BOS, else EOD, else EOS. InputError if there is none."""
        special = self.tokenizer.special
        for found in (special.bos, special.eod, special.eos):
            if found >= 0:
                return found
        raise InputError("the tokenizer has no token that starts or ends a document: give a context")

    def log_likelihoods(
        self, pairs: Sequence[Tuple[Text, Text]], progress: Optional[Callable[[int], Any]] = None
    ) -> List[LogLikelihood]:
        """Returns the log-likelihood of each continuation, given its context.

        `pairs`: (context, continuation), both texts or both token ids; ids of a context must not be empty.
        `progress`: called with the number of finished pairs.
        Raises InputError for models that do not predict the next token, such as BERT.
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
        """Continues a prompt, or a batch of prompts, and returns the prompt with its continuation.

        `prompts`: a text, a list of token ids, or a list of either; the result has the same form (str or list of int).
        `max_new_tokens`: the maximum number of new tokens of each prompt.
        `sample`: False for greedy decoding, which ignores the sampling options except `repetition_penalty`.
        `temperature`, `top_k` (0: off), `top_p` (1: off), `repetition_penalty` (1: off): sampling options.
        `seed`: the same seed gives the same result.
        `stop_ids`: token ids that end a sequence; they stay in the result.
        `stop_at_end`: stop at the tokens that end a document, too.
        `on_token(sequence, id)`: called for every new token of prompt number `sequence`. If it returns True, generation
        of the whole batch ends and `Interrupted` is raised.

        Ctrl-C raises KeyboardInterrupt at the next token. Raises InputError for models such as BERT, empty prompts of
        ids and prompts that are too long.
        """
        if not isinstance(prompts, str) and not hasattr(prompts, "__len__"):
            raise InputError(f"prompts are a str, a list of str, ids or a list of ids, not {type(prompts).__name__}")
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
            if text:  # ids of vocabulary padding have no text
                results[i] = self.tokenizer.decode([one for one in results[i] if one < self.tokenizer.vocab_size], True)
        return results[0] if one else results

    def close(self) -> None:
        if self._tokenizer is not None:
            self._tokenizer.close()
        super().close()

    def __repr__(self) -> str:
        return f"<trireme.Model {self.path!r}, step {self.step}>"
