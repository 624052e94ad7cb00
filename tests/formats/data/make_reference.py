"""Writes reference.safetensors with the reference implementation (needs torch and safetensors)."""
from pathlib import Path

import torch
from safetensors.torch import save_file

values = torch.arange(6, dtype=torch.float32) / 2
save_file(
    {
        "f32": values.reshape(2, 3),
        "f64": values.double(),
        "bf16": values.bfloat16(),
        "f16": values.half(),
        "fp8": values.to(torch.float8_e4m3fn),
        "i64": torch.arange(3),
        "i32": torch.arange(3, dtype=torch.int32),
        "i8": torch.arange(3, dtype=torch.int8),
        "u8": torch.arange(3, dtype=torch.uint8),
        "flags": torch.tensor([True, False]),
        "scalar": torch.tensor(1.5),
        "five dimensions": torch.ones(1, 2, 1, 3, 1),
    },
    Path(__file__).with_name("reference.safetensors"),
    metadata={"format": "pt"},
)
