"""Mixture of experts: routers, capacity, what routers add to the loss."""

import math

import torch
import torch.nn.functional as F

from golden_fp8 import product
from golden_layers import mlp


def choose(moe, scores):
    """The experts of each row, rising; of equal scores the first. [rows, top_k]"""
    k, groups = moe["top_k"], moe["num_groups"]
    values = scores
    if groups > 1:
        within = scores.view(-1, groups, moe["num_experts"] // groups)
        best = within.sort(-1, descending=True)[0][..., : k // moe["top_groups"]].sum(-1)
        picked = best.sort(dim=-1, descending=True, stable=True)[1][:, : moe["top_groups"]]
        allowed = torch.zeros_like(best, dtype=torch.bool).scatter(1, picked, True)
        values = within.masked_fill(~allowed[..., None], -math.inf).view_as(scores)
    return values.sort(dim=-1, descending=True, stable=True)[1][:, :k].sort(-1)[0]


def kept_choices(moe, chosen, weights, sequence):
    """False where an expert has more choices of a sequence than its capacity."""
    capacity = math.ceil(sequence * moe["top_k"] / moe["num_experts"] * moe["capacity_factor"])
    kept = torch.ones_like(chosen, dtype=torch.bool)
    for first in range(0, len(chosen), sequence):
        for e in range(moe["num_experts"]):
            rows, slots = (chosen[first:first + sequence] == e).nonzero(as_tuple=True)
            order = weights[first + rows, slots].sort(dim=-1, descending=True, stable=True)[1]
            drop = order[capacity:]
            kept[first + rows[drop], slots[drop]] = False
    return kept


class Losses(list):
    """What routers add to the loss of a step. `loads` lasts: of the step before, over its mean."""

    def __init__(self, loads):
        super().__init__()
        self.loads = loads


def router_losses(moe, z, scores, batch, name, loads):
    """Of each unit, a sequence or the batch, with choices by plain score; their mean. "global": by
    how often experts were chosen in the step before; evenly before the first."""
    units = batch if moe["aux_loss"] == "sequence" else 1
    shares = scores / scores.sum(-1, keepdim=True)
    plain = choose(dict(moe, num_groups=1), scores)
    hits = F.one_hot(plain, moe["num_experts"]).to(z.dtype).sum(1) / moe["top_k"]
    f, p = (t.view(units, -1, moe["num_experts"]).mean(1) for t in (hits, shares))
    if moe["aux_loss"] == "global":
        key, now = name + ".router.load", f[0].detach() * moe["num_experts"]
        f = loads.get(key, torch.ones_like(now)) / moe["num_experts"]
        loads[key] = now
    balance = moe["num_experts"] * (f.detach() * p).sum(-1).mean()
    return moe["aux_loss_coeff"] * balance + moe["z_loss_coeff"] * z.logsumexp(-1).pow(2).mean()


def experts(m, w, name, x, losses):
    moe = m["moe"]
    b, s, h = x.shape
    count, inner = moe["num_experts"], moe["ffn_hidden_size"]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows = x.reshape(b * s, h)
    z = rows.to(wide) @ w[name + ".router.weight"].to(wide).t()
    scores = z.sigmoid() if moe["score"] == "sigmoid" else z.softmax(-1)
    chosen = choose(moe, scores.detach())
    weights = scores.gather(1, chosen)
    if moe["normalize_weights"]:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    weights = weights * moe["scaling_factor"]
    if moe["capacity_factor"]:
        weights = weights * kept_choices(moe, chosen, weights.detach(), s)
    losses.append(router_losses(moe, z, scores, b, name, losses.loads))
    up = w[name + ".experts.up.weight"].view(count, 2 * inner, h)
    down = w[name + ".experts.down.weight"].view(count, h, inner)
    y = torch.zeros(b * s, h, dtype=wide)
    for e in range(count):
        own = (chosen == e).any(-1).nonzero()[:, 0] if m.get("fp8") else torch.arange(b * s)
        if not len(own):
            continue
        gate, value = product(m, name, rows[own][None], up[e]).chunk(2, -1)
        made = product(m, name, F.silu(gate) * value, down[e])[0].to(wide)
        y = y.index_add(0, own, ((chosen == e) * weights).sum(-1, keepdim=True)[own] * made)
    y = y.to(x.dtype).view(b, s, h)
    if not moe["shared_ffn_hidden_size"]:
        return y
    shared = mlp(m, w, name + ".shared", x)
    if not moe.get("residual"):
        return y + shared
    c = F.linear(x, w[name + ".mix.weight"], w[name + ".mix.bias"]).to(wide).softmax(-1)
    return (c[..., :1] * y.to(wide) + c[..., 1:] * shared.to(wide)).to(x.dtype)
