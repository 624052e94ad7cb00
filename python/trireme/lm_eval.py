"""A model for lm-evaluation-harness (``pip install lm_eval``)::

    import lm_eval
    from trireme.lm_eval import TriremeLM

    results = lm_eval.simple_evaluate(model=TriremeLM("runs/mine"), tasks=["arc_easy"])

In the harness's own command, use ``--model trireme --model_args path=runs/mine`` after ``import trireme.lm_eval``.
"""

from typing import Any, List, Optional, Sequence, Tuple

try:
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import register_model
    from lm_eval import utils
except ImportError as error:
    raise ImportError(f"trireme.lm_eval needs lm-evaluation-harness: pip install lm_eval ({error})") from None

from ._errors import InputError
from .config import Overrides
from .model import Model


@register_model("trireme")
class TriremeLM(TemplateLM):
    """A `trireme.Model` as a model of lm-evaluation-harness.

    `path`, `overrides`: as for `trireme.Model`. `max_length`: tokens of a window; default: the maximum or, without one,
    the training length of the model. The harness's `batch_size`, `max_batch_size` and `device` are ignored.
    """

    def __init__(self, path: str, overrides: Overrides = None, max_length: Optional[int] = None, **ignored: Any):
        super().__init__()
        unknown = set(ignored) - {"batch_size", "max_batch_size", "device"}
        if unknown:
            raise InputError(f"trireme has no model argument {sorted(unknown)[0]!r}: expected path, overrides, max_length")
        self.model = Model(path, overrides)
        self.max_length = int(max_length or self.model.max_length or self.model.seq_length)
        self.max_gen_toks = 256

    @property
    def eot_token_id(self) -> int:
        special = self.model.tokenizer.special
        return special.eod if special.eod >= 0 else special.eos

    @property
    def prefix_token_id(self) -> int:
        return self.model.prefix_id()

    def tok_encode(self, string: str, **_: Any) -> List[int]:
        """Encodes a text with the tokens that open a document; a text that already begins with BOS gets no second one."""
        return self.model.encode_opened([string])[0]

    def tok_decode(self, tokens: Sequence[int], **_: Any) -> str:
        return self.model.tokenizer.decode(tokens)

    def _loglikelihood_tokens(self, requests: Any, disable_tqdm: bool = False, **_: Any) -> List[Tuple[float, bool]]:
        """`requests`: (texts, context ids, continuation ids). Long contexts are truncated at the beginning."""
        pairs = []
        for _texts, context, continuation in requests:
            if len(continuation) > self.max_length:
                raise InputError(f"a continuation of {len(continuation)} tokens is longer than a window of {self.max_length}")
            whole = [*context, *continuation][-(self.max_length + 1) :]
            pairs.append((whole[: len(whole) - len(continuation)], continuation))
        return [(found.log, found.greedy) for found in self._in_order(pairs)]

    def _in_order(self, pairs: Any) -> Any:
        """Processes pairs in order of length, because each length has to be prepared only once."""
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
        # The last token is only predicted, so a window of max_length + 1 ids has max_length inputs.
        found = self.model.log_likelihoods([pairs[i] for i in order])
        results: List[Any] = [None] * len(pairs)
        for i, one in zip(order, found):
            results[i] = one
        return results

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> List[float]:
        """Log-likelihood of each whole text, in windows as the harness splits it."""
        results = []
        for (text,) in [request.args for request in requests]:
            windows = [
                utils.make_disjoint_window(window)
                for window in utils.get_rolling_token_windows(
                    token_list=self.tok_encode(text),
                    prefix_token=self.prefix_token_id,
                    max_seq_len=self.max_length,
                    context_len=1,
                )
            ]
            results.append(sum(found.log for found in self.model.log_likelihoods(windows)))
        return results

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> List[str]:
        results = []
        for context, arguments in [request.args for request in requests]:
            options = dict(arguments)
            until = options.pop("until", [])
            until = [until] if isinstance(until, str) else list(until)
            length = int(options.pop("max_gen_toks", self.max_gen_toks))
            sample = bool(options.pop("do_sample", False)) and float(options.get("temperature", 1)) > 0
            temperature = float(options.pop("temperature", 1) or 1)
            prompt = self.tok_encode(context)[-(self.max_length - length) :] or [self.prefix_token_id]
            results.append(self._until(prompt, length, until, sample, temperature))
        return results

    def _until(self, prompt: List[int], length: int, until: List[str], sample: bool, temperature: float) -> str:
        drawn: List[int] = []

        def ended(_sequence: int, token: int) -> bool:
            drawn.append(token)
            text = self.tok_decode(drawn)
            return any(stop and stop in text for stop in until)

        from ._errors import Interrupted

        try:
            self.model.generate(prompt, length, sample=sample, temperature=temperature, on_token=ended)
        except Interrupted:
            pass  # a stop text was found
        text = self.tok_decode([token for token in drawn if token != self.eot_token_id])
        for stop in until:
            if stop:
                text = text.split(stop)[0]
        return text
