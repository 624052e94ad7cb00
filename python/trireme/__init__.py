"""Trireme: pre-training of large language models, from Python.

The same engine, files and bits as the program ``trireme``::

    import trireme

    with trireme.Trainer("run.toml", {"train.iters": 1000}) as trainer:
        for step in trainer:                      # one optimizer step over the global batch
            if step.step % 100 == 0:
                print(step.step, step.loss, trainer.evaluate())
        trainer.save()

    model = trireme.Model("runs/mine")            # a run, a checkpoint, a Hugging Face folder ...
    print(model.generate("Once upon a time", max_new_tokens=50))

What there is: `Trainer`, `Job`, `Config`, `Model`, `Tokenizer`, `Dataset`, `TokenFile`, `Checkpoint`,
`plan`, `search`, and `trireme.lm_eval` for lm-evaluation-harness. Errors are `Error` with the sentence that
the program would print; `InputError` (also a ValueError) where the input is wrong, `Interrupted` (also a
KeyboardInterrupt) where a signal ended a run that was saved. NumPy is needed only for arrays.

Calls release the GIL. `help(trireme.Trainer)` and so on say more; docs/python.md has examples.
"""

from importlib import import_module as _import_module

TYPE_CHECKING = False  # type checkers know the name; importing `typing` would take most of the time
if TYPE_CHECKING:
    from ._errors import Error, InputError, Interrupted
    from .checkpoint import Checkpoint
    from .config import Config
    from .data import Dataset, TokenFile
    from .model import Model
    from .planning import plan, search
    from .tokenizer import Tokenizer
    from .trainer import Job, Step, Summary, Trainer

    __version__: str

# Nothing is loaded before it is used: the import itself takes milliseconds.
_PLACES = {
    "Error": "_errors",
    "InputError": "_errors",
    "Interrupted": "_errors",
    "Checkpoint": "checkpoint",
    "Config": "config",
    "Dataset": "data",
    "TokenFile": "data",
    "Model": "model",
    "plan": "planning",
    "search": "planning",
    "Tokenizer": "tokenizer",
    "Job": "trainer",
    "Step": "trainer",
    "Summary": "trainer",
    "Trainer": "trainer",
}
__all__ = sorted(_PLACES)


def __getattr__(name):
    if name == "__version__":
        value = _import_module("._native", __name__).program_version()
    elif name in _PLACES:
        value = getattr(_import_module("." + _PLACES[name], __name__), name)
    else:
        raise AttributeError(f"module 'trireme' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return [*__all__, "__version__"]
