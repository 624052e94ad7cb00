"""Writes small files with real PyTorch (needs torch and numpy) to this folder, each with its expected
tensors in NAME.json: {name: {"type", "shape", "values"}}, values as float64."""
import argparse
import collections
import enum
import json
import random
import signal
import types
from pathlib import Path

import numpy
import torch

HERE = Path(__file__).parent
torch.manual_seed(7)


def tensors_of(value, name=""):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors_of(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from tensors_of(inner, f"{name}.{i}" if name else str(i))


TYPES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
         torch.uint8: "U8", torch.bool: "BOOL", torch.uint16: "U16",
         torch.float8_e4m3fn: "F8_E4M3"}


def write(name, value, **options):
    torch.save(value, HERE / name, **options)
    expected = {}
    for key, tensor in tensors_of(value):
        tensor = tensor.detach()
        expected[key] = {"type": TYPES[tensor.dtype], "shape": list(tensor.shape),
                         "values": tensor.to(torch.float64).flatten().tolist()}
    (HERE / f"{Path(name).name}.json").write_text(json.dumps(expected) + "\n")


# Names that occur in real checkpoints: the module's __name__ determines the pickle's contents.
def foreign(module, name, base=object, **members):
    made = type(name, (base,), members) if base is not enum.Enum else enum.Enum(name, members)
    made.__module__ = module
    parent = types.ModuleType(module)
    setattr(parent, name, made)
    import sys
    for i in range(module.count(".") + 1):
        part = ".".join(module.split(".")[:i + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    setattr(sys.modules[module], name, made)
    return made


def every_type():
    types_ = {str(dtype).removeprefix("torch."): torch.arange(6).reshape(2, 3).to(dtype)
              for dtype in TYPES}
    base = torch.randn(4, 5)
    return types_ | {
        "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3),
        "views": {"transposed": base.t(), "rows": base[1:3], "columns": base[:, 1:3],
                  "expanded": base[:1, :1].expand(2, 3), "same": base},
        "deep": [(torch.ones(2), {"3": torch.full((1,), 3.0)})]}


def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))


def training_state():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(2):
        net(torch.randn(2, 3)).sum().backward()
        optimizer.step()
    parameter = torch.nn.Parameter(torch.randn(2, 2))
    parameter.tensor_model_parallel = True
    buffer = torch.randn(2)
    buffer.allreduce = False
    ModelType = foreign("megatron.core.enums", "ModelType", enum.Enum, encoder_or_decoder=1)
    Scaler = foreign("deepspeed.runtime.fp16.loss_scaler", "LossScaler")
    scaler = Scaler()
    scaler.cur_scale = 65536.0
    return {
        "model": net.state_dict(), "parameter": parameter, "buffer": buffer,
        "optimizer": optimizer.state_dict(), "iteration": 100, "checkpoint_version": 3.0,
        "args": argparse.Namespace(num_layers=2, params_dtype=torch.bfloat16,
                                   model_type=ModelType.encoder_or_decoder, exit_signal=signal.SIGTERM,
                                   device=torch.device("cuda", 0), vocab_file=None,
                                   path=Path("/tmp"), size=torch.Size([2, 3])),
        "loss_scaler": scaler,
        "rng_state": [{"random_rng_state": random.Random(1).getstate(),
                       "np_rng_state": numpy.random.RandomState(1).get_state(),
                       "numpy_scalar": numpy.float64(2.5), "large": 1 << 100, "negative": -3}],
        "defaults": collections.defaultdict(dict, {"a": {1, 2}, "b": frozenset({3})}),
        "count": collections.Counter("aab"), "bytes": b"\x00\xff\x80", "complex": 1 + 2j,
        "big": torch.tensor(3, dtype=torch.int64)}


if __name__ == "__main__":
    write("every_type.pt", every_type())
    write("training.pt", training_state())
    write("protocol4.pth", every_type(), pickle_protocol=4)
    write("before_1_6.bin", {key: value for key, value in every_type().items()
                             if key not in ("uint16", "float8_e4m3fn")},
          _use_new_zipfile_serialization=False)
    write("training_before_1_6.pt", training_state(), _use_new_zipfile_serialization=False)
