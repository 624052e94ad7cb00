"""Memory and time of layouts before a run, as dicts."""

import json
from typing import Any, Dict, Optional

from ._native import text_from
from .config import Config, Overrides, Source


def plan(
    config: Source, overrides: Overrides = None, *, ranks: int = 0, machine: Optional[str] = None, memory: Optional[str] = None
) -> Dict[str, Any]:
    """What a layout takes, as `trireme plan --json` prints it: memory to the byte, flops, traffic and, on a
    `machine` with figures ("h100", "lumi-g", a file), the time of a step.

    `ranks`: 0: the fewest that [parallel] takes. `memory` of a rank, "64GiB": the key "verdict" says whether it fits.
    """
    whole = Config(config, overrides)
    return json.loads(text_from("plan", whole._handle, ranks, *[text.encode() if text else None for text in (machine, memory)]))


def search(
    config: Source, overrides: Overrides = None, *, ranks: int, machine: str, memory: Optional[str] = None
) -> Dict[str, Any]:
    """The fastest layouts that fit on `ranks` devices of a machine, as `trireme plan --search --json` prints them:
    "best" is a list, fastest first, each with its "overrides" for `Trainer`."""
    whole = Config(config, overrides)
    return json.loads(text_from("search", whole._handle, ranks, machine.encode(), memory.encode() if memory else None))
