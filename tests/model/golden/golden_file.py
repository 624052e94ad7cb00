"""Golden runs as safetensors: every list of numbers and every measured number is a tensor whose name is its JSON pointer
without the first slash, and the settings are the metadata "settings" as JSON."""

import json

import numpy as np
from safetensors.numpy import save_file

MEASURED = ("runs", "first_gradient", "final_weights")


def tensors(value, pointer):
    if isinstance(value, dict):
        return {name: array for key, inner in value.items() for name, array in tensors(inner, f"{pointer}/{key}").items()}
    return {pointer: np.array(value, np.int64 if pointer.endswith("/shape") else np.float64)}


def write(path, golden):
    numbers = {name: array for key in MEASURED for name, array in tensors(golden[key], key).items()}
    settings = {key: value for key, value in golden.items() if key not in MEASURED}
    save_file(numbers, path, {"settings": json.dumps(settings)})
