"""Configurations with the keys of docs/configuration.md, from a file, a dict or TOML text."""

import json
import os
from ctypes import byref, c_void_p
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

from ._errors import InputError
from ._native import Handle, call, path_bytes, text_from, texts

Overrides = Union[None, Mapping[str, Any], Iterable[str]]
Source = Union["Config", str, "os.PathLike[str]", Mapping[str, Any]]


def toml_value(value: Any) -> str:
    """Formats a bool, int, float, str or path, NumPy number, or a list of them as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(text, text)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    if hasattr(value, "item"):  # a NumPy number
        return toml_value(value.item())
    raise InputError(f"a configuration holds numbers, texts, truth values and lists of them, not {type(value).__name__}")


def toml_of(sections: Mapping[str, Any]) -> str:
    """Formats ``{"train": {"iters": 10}}`` or ``{"train.iters": 10}`` as TOML."""
    whole: Dict[str, Dict[str, Any]] = {}
    for name, value in sections.items():
        if isinstance(value, Mapping):
            whole.setdefault(name, {}).update(value)
        elif "." in name:
            section, key = name.split(".", 1)
            whole.setdefault(section, {})[key] = value
        else:
            raise InputError(f"the configuration has {name!r}, which is neither a section nor a key such as 'train.iters'")
    lines: List[str] = []
    for section, keys in whole.items():
        lines.append(f"[{section}]")
        lines.extend(f"{key} = {toml_value(value)}" for key, value in keys.items())
    return "\n".join(lines) + "\n"


def override_list(overrides: Overrides) -> List[str]:
    """Converts ``{"train.iters": 10}`` or ``["train.iters=10"]`` to overrides as on the command line."""
    if overrides is None:
        return []
    if isinstance(overrides, Mapping):
        flat: Dict[str, Any] = {}
        for name, value in overrides.items():
            if isinstance(value, Mapping):
                flat.update({f"{name}.{key}": one for key, one in value.items()})
            else:
                flat[name] = value
        return [f"{key}={value if isinstance(value, str) else toml_value(value)}" for key, value in flat.items()]
    if isinstance(overrides, str):
        raise InputError("overrides are a dict or a list of texts 'section.key=value', not one text")
    return list(overrides)


class Config(Handle):
    """An immutable configuration of a run: model, data, optimizer, layout. Keys are those of docs/configuration.md.

    `source`: a TOML file, a dict (``{"train": {"iters": 10}}`` or ``{"train.iters": 10}``), or another Config. Keys
    that are not given have their defaults.
    `overrides`: a dict of either form, or a list of ``"section.key=value"`` as on the command line.

    Raises InputError for unknown keys, wrong types and values out of range. Settings that contradict each other are
    rejected later, by `Trainer` and `plan`.
    """

    _kind = "config"

    def __init__(self, source: Source = {}, overrides: Overrides = None):
        given = override_list(overrides)
        pointer = c_void_p()
        arguments = (texts(given), len(given), byref(pointer))
        if isinstance(source, Config):
            call("config_parse", source.to_toml().encode(), None, *arguments)
        elif isinstance(source, Mapping):
            call("config_parse", toml_of(source).encode(), None, *arguments)
        else:
            call("config_load", path_bytes(source), *arguments)
        self._own(pointer)

    @classmethod
    def parse(cls, toml: str, overrides: Overrides = None, name: Optional[str] = None) -> "Config":
        """Parses TOML text. `name`: what error messages call the text, instead of a file name."""
        given = override_list(overrides)
        pointer = c_void_p()
        call("config_parse", toml.encode(), name.encode() if name else None, texts(given), len(given), byref(pointer))
        return cls._of(pointer)

    @classmethod
    def _of(cls, pointer: c_void_p) -> "Config":
        config = cls.__new__(cls)
        config._own(pointer)
        return config

    def to_dict(self) -> Dict[str, Dict[str, Any]]:
        """Returns all keys with their values, defaults included: ``{"train": {"iters": 10, ...}, ...}``."""
        return json.loads(text_from("config_json", self._handle))

    def to_toml(self) -> str:
        """Returns the whole configuration as TOML; `parse` reads it back to the same values."""
        return text_from("config_toml", self._handle)

    def __getitem__(self, key: str) -> Any:
        """``config["train.iters"]``, or ``config["train"]`` for a section as a dict. Raises KeyError for unknown keys."""
        values = self.to_dict()
        section, _, name = key.partition(".")
        if section not in values or (name and name not in values[section]):
            raise KeyError(f"there is no key {key!r}: docs/configuration.md lists them, as section.key")
        return values[section][name] if name else values[section]

    def __repr__(self) -> str:
        return f"<trireme.Config {self['run.dir']!r}>"
