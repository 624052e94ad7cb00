"""Memory and time of layouts before a run."""

import json
from typing import Any, Dict, Optional

from ._native import text_from
from .config import Config, Overrides, Source


def plan(
    config: Source, overrides: Overrides = None, *, ranks: int = 0, machine: Optional[str] = None, memory: Optional[str] = None
) -> Dict[str, Any]:
    """Returns what a layout needs, as a dict like the output of `trireme plan --json`: memory to the byte, flops, traffic.

    `config`, `overrides`: as for `Config`.
    `ranks`: number of ranks; 0: the fewest that [parallel] allows.
    `machine`: "h100", "lumi-g" or another name in machines/, or a file; adds the predicted time of a step.
    `memory`: memory per rank, such as "64GiB"; None: run.memory, or that of a device of the machine. If it is known,
    the key "verdict" says whether the layout fits.

    Raises InputError for a wrong configuration. A layout that does not fit is not an error.
    """
    whole = Config(config, overrides)
    return json.loads(text_from("plan", whole._handle, ranks, *[text.encode() if text else None for text in (machine, memory)]))


def search(
    config: Source, overrides: Overrides = None, *, ranks: int, machine: str, memory: Optional[str] = None
) -> Dict[str, Any]:
    """Returns the fastest layouts that fit on `ranks` devices of a machine, as a dict like the output of
    `trireme plan --search --json`.

    "best" is a list, fastest first; each entry has "overrides", which `Trainer` accepts. `config`, `overrides`,
    `machine`: as for `plan`. `memory`: per rank; None: that of a device of the machine.

    Raises InputError for a wrong configuration, Error if no layout fits.
    """
    whole = Config(config, overrides)
    return json.loads(text_from("search", whole._handle, ranks, machine.encode(), memory.encode() if memory else None))
