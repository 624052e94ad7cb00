"""A run of a model: 20 steps, with what is kept of them."""

import math

import torch
import torch.nn.functional as F

from golden_bert import bert_loss
from golden_decoder import logits
from golden_experts import Losses
from golden_formulas import loss_weights, tokens, weight
from golden_optimizers import optimizers_of
from golden_shapes import shapes
from golden_variants import STEPS

RATES = dict(fp64=1e-2, fp32=1e-2, bf16=3e-3)
DTYPES = dict(fp64=torch.float64, fp32=torch.float32, bf16=torch.bfloat16)


def loss_of(m, w, step, masked, loads):
    """Mean cross-entropy over the tokens that count, and what routers add to it."""
    if m["family"] == "bert":
        return bert_loss(m, w, step), 0
    batch, counts = tokens(step), loss_weights(step, masked)
    extra = Losses(loads)
    y = logits(m, w, batch[:, :-1], extra)
    y = y if y.dtype == torch.float64 else y.float()
    losses = F.cross_entropy(y.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
    return (losses * counts.flatten()).sum() / counts.sum(), sum(extra)


def rate_of(m, o, precision):
    if o["name"] == "lion":
        return 1e-3
    if "fp8" in m:
        return 1e-4
    low = m["family"] == "bert" or "moe" in m or m.get("scale_embedding")
    return RATES["bf16"] if low else RATES[precision]


def train(m, masked, o, precision):
    """Losses, gradient norms, first gradient, final weights. Optimizer in fp64 or fp32."""
    dtype = DTYPES[precision]
    lr = rate_of(m, o, precision)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    router_values, loads = [], {}
    masters = {name: weight(name, shape).to(wide) for name, shape in shapes(m).items()}
    for master in masters.values():
        master.requires_grad_()
    optimizers = optimizers_of(m, o, lr, masters, dtype)
    losses, norms, first = [], [], None
    for step in range(STEPS):
        w = {name: p.detach().to(dtype).requires_grad_() for name, p in masters.items()}
        loss, extra = loss_of(m, w, step, masked, loads)
        (loss + extra).backward()
        for name, p in masters.items():
            p.grad = w[name].grad.to(wide)
        if first is None:
            first = {name: p.grad.clone() for name, p in masters.items()}
        total = math.sqrt(sum(float(p.grad.double().pow(2).sum()) for p in masters.values()))
        for p in masters.values():
            p.grad *= min(1.0, o["clip_grad"] / (total + 1e-6))
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
        router_values.append(extra.item() if "moe" in m else 0.0)
        norms.append(total)
    run = dict(lr=lr, losses=losses, grad_norms=norms)
    if "moe" in m:
        run["router_losses"] = router_values
    return run, first, masters | loads
