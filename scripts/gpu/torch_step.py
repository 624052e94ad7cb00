"""A training step of PyTorch in the shape of one of scripts/gpu-check, as its users write it: bf16 autocast over fp32
weights, scaled_dot_product_attention, blocks compiled one by one, fused AdamW. Prints a line of JSON.
usage: torch_step.py gpt2-124m|gpt2-1.5b|llama8|tiny [--device cuda] [--steps 5] [--attention flash|cudnn|math] [--eager]"""

import argparse
import contextlib
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

# layers, hidden, heads, key-value heads, ffn, positions, vocabulary, micro-batch, gated
MODELS = {
    "gpt2-124m": (12, 768, 12, 12, 3072, 1024, 50304, 32, False),
    "gpt2-1.5b": (48, 1600, 25, 25, 6400, 1024, 50304, 16, False),
    "llama8": (8, 4096, 32, 8, 14336, 8192, 128256, 1, True),
    "tiny": (2, 64, 4, 2, 128, 64, 320, 2, True),
}
WARM_UP = 3


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn, gated):
        super().__init__()
        self.sizes = [hidden // heads * n for n in (heads, kv_heads, kv_heads)]
        self.dim, self.gated, self.grouped = hidden // heads, gated, heads != kv_heads
        norm = nn.RMSNorm if gated else nn.LayerNorm
        self.before, self.after = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, sum(self.sizes), bias=not gated)
        self.out = nn.Linear(hidden, hidden, bias=not gated)
        self.up = nn.Linear(hidden, ffn * (1 + gated), bias=not gated)
        self.down = nn.Linear(ffn, hidden, bias=not gated)

    def turned(self, x_BTND, angles_TD):
        a, b = x_BTND.float().chunk(2, -1)
        cos, sin = angles_TD.cos()[:, None], angles_TD.sin()[:, None]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x_BTND.dtype)

    def forward(self, x_BTH, angles_TD):
        q, k, v = (part.unflatten(-1, (-1, self.dim)) for part in self.qkv(self.before(x_BTH)).split(self.sizes, -1))
        if self.gated:
            q, k = self.turned(q, angles_TD), self.turned(k, angles_TD)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        x_BTH = x_BTH + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.up(self.after(x_BTH))
        if self.gated:
            gate, y = y.chunk(2, -1)
            y = F.silu(gate) * y
        else:
            y = F.gelu(y, approximate="tanh")
        return x_BTH + self.down(y)


class Model(nn.Module):
    def __init__(self, layers, hidden, heads, kv_heads, ffn, positions, vocabulary, gated):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.places = None if gated else nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, kv_heads, ffn, gated) for _ in range(layers))
        self.norm = (nn.RMSNorm if gated else nn.LayerNorm)(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if not gated:
            self.head.weight = self.tokens.weight
        dim = hidden // heads
        frequencies = 5e5 ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("angles", torch.outer(torch.arange(positions).float(), frequencies), False)

    def loss_of(self, x_BTH, targets_BT):
        return F.cross_entropy(self.head(self.norm(x_BTH)).flatten(0, 1).float(), targets_BT.flatten())

    def forward(self, tokens_BT, targets_BT):
        x = self.tokens(tokens_BT)
        if self.places:
            x = x + self.places.weight
        x = x.bfloat16()  # the residual stream, as in Trireme
        for block in self.blocks:
            x = block(x, self.angles)
        return self.loss_of(x, targets_BT)


def flops_per_token(layers, hidden, heads, kv_heads, ffn, positions, vocabulary, gated):
    """Flops of the weights and of attention to all positions; forward and backward."""
    block = hidden * hidden * (2 + 2 * kv_heads / heads) + (2 + gated) * hidden * ffn
    return 6 * (layers * block + hidden * vocabulary), 12 * layers * hidden * positions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--attention", default="flash", choices=["flash", "cudnn", "math"])
    parser.add_argument("--eager", action="store_true")
    a = parser.parse_args()
    *shape, batch, gated = MODELS[a.model]
    positions, vocabulary = shape[5], shape[6]
    on_gpu = a.device == "cuda"
    torch.manual_seed(0)
    begin = time.perf_counter()
    with torch.device(a.device):
        model = Model(*shape, gated)
        tokens, targets = (torch.randint(vocabulary, (batch, positions)) for _ in range(2))
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.02)
    if not a.eager:
        for block in model.blocks:
            block.compile()
        model.loss_of = torch.compile(model.loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    kernels = contextlib.nullcontext()
    if on_gpu:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        kernels = sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                               "math": SDPBackend.MATH}[a.attention])

    def step():
        start = time.perf_counter()
        with torch.autocast(a.device, torch.bfloat16), kernels:
            loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for _ in range(WARM_UP):
        step()
    ready = time.perf_counter() - begin
    seconds = statistics.median(step() for _ in range(a.steps))
    weights, attention = flops_per_token(*shape, gated)
    rate = batch * positions / seconds
    print(json.dumps({
        "who": f"PyTorch {torch.__version__}", "model": a.model, "micro_batch": batch, "attention": a.attention,
        "compiled": not a.eager, "seconds": round(seconds, 5), "tokens_per_second": round(rate, 1),
        "tflops_causal": round(rate * (weights + attention / 2) / 1e12, 2),
        "tflops_full": round(rate * (weights + attention) / 1e12, 2), "ready_seconds": round(ready, 1),
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None}))


if __name__ == "__main__":
    main()
