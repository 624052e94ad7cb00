"""Trireme: pre-trains large language models, as Megatron-LM does, from Python.

The package uses the same engine and files as the program ``trireme`` and produces the same bits::

    import trireme

    with trireme.Trainer("run.toml", {"train.iters": 1000}) as trainer:
        for step in trainer:                      # one optimizer step over the global batch
            if step.step % 100 == 0:
                print(step.step, step.loss, trainer.evaluate())
        trainer.save()

    model = trireme.Model("runs/mine")            # a run, a checkpoint, a Hugging Face folder ...
    print(model.generate("Once upon a time", max_new_tokens=50))

Contents:

- `Trainer`: trains a model, one optimizer step at a time or a whole run; `Step` and `Summary` are its results
- `Job`: the processes that train together (mpirun, srun), with `sum`, `gather`, `max` and `barrier`
- `Config`: a checked configuration, from a TOML file, a dict or TOML text
- `Model`: logits, log-likelihoods and generation with trained weights
- `Tokenizer`: encodes and decodes text, in batches on all processors
- `TokenFile`: tokenized data (.bin and .idx), memory-mapped
- `Dataset`: the samples of a run, in the order in which training reads them
- `Checkpoint`: the tensors of a checkpoint in any supported format, as NumPy arrays
- `plan`, `search`: memory and time of a layout before a run, and the fastest layouts
- `trireme.lm_eval`: a model for lm-evaluation-harness

Token ids are sequences of int; arrays are NumPy arrays in CPU memory, for `torch.from_numpy`.
NumPy is needed only by functions that return arrays; PyTorch is not needed.

Errors have the message that the program would print:

- `Error`: a failure while running, such as a full disk, a NaN or a lost process
- `InputError` (an Error and a ValueError): a file, a key or an argument is wrong
- `Interrupted` (a KeyboardInterrupt): a signal or a callback ended the call; a run was saved first

Calls into the library release the GIL. Objects hold native memory: use ``with`` or `close()` to free it early.
See `help(trireme.Trainer)` and so on for details, and docs/python.md for examples.
"""

from importlib import import_module as _import_module

TYPE_CHECKING = False  # type checkers know this name; importing `typing` would take most of the import time
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

# Submodules are loaded on first use, so that importing the package takes milliseconds.
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
