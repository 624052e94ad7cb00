"""AdamW, Muon and Lion from the formulas of the papers."""

import math

import torch

NEWTON_SCHULZ = dict(simple=[(3.4445, -4.7750, 2.0315)],
                     quintic=[(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377),
                              (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
                              (2.8366, -3.0525, 1.2012)])
SCALES = dict(match_rms=lambda rows, cols: 0.2 * math.sqrt(max(rows, cols)),
              spectral=lambda rows, cols: math.sqrt(max(rows, cols)))


def logical_matrices(m, name, p):
    """The matrices that a weight of a layer consists of; none if Muon does not take it."""
    if not name.startswith("layers.") or p.dim() != 2:
        return []
    if name.endswith("attention.qkv.weight"):
        queries = m["num_heads"] // m["num_kv_heads"]
        groups = p.view(m["num_kv_heads"], queries + 2, -1, p.shape[1])
        return [groups[:, :queries].reshape(-1, p.shape[1]), groups[:, queries].reshape(-1, p.shape[1]),
                groups[:, queries + 1].reshape(-1, p.shape[1])]
    return list(p.chunk(2)) if name.endswith("mlp.up.weight") and m["activation"] == "swiglu" else [p]


def join_matrices(m, name, parts):
    if not name.endswith("attention.qkv.weight"):
        return torch.cat(parts)
    groups, columns = m["num_kv_heads"], parts[0].shape[1]
    return torch.cat([part.view(groups, -1, columns) for part in parts], dim=1).view(-1, columns)


def orthogonal(o, u, dtype):
    """Newton-Schulz iterations as in Keller Jordan's Muon, scaled."""
    x = (u / (u.norm() + 1e-7)).to(dtype)
    x = x.t() if u.shape[0] > u.shape[1] else x
    sets = NEWTON_SCHULZ[o["muon_coefficients"]]
    for step in range(o["muon_steps"]):
        a, b, c = sets[step % len(sets)]
        gram = x @ x.t()
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.t() if u.shape[0] > u.shape[1] else x
    return SCALES[o["muon_scale"]](*u.shape) * x.to(u.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, m, o, named, dtype):
        super().__init__([p for _, p in named], dict())
        self.m, self.o, self.named, self.dtype = m, o, named, dtype
        self.momentum = {name: torch.zeros_like(p) for name, p in named}

    @torch.no_grad()
    def step(self):
        o, beta = self.o, self.o["muon_momentum"]
        for name, p in self.named:
            buffer = self.momentum[name].lerp_(p.grad, 1 - beta)
            u = p.grad.lerp(buffer, beta) if o["muon_nesterov"] else buffer
            parts = [orthogonal(o, part, self.dtype) for part in logical_matrices(self.m, name, u)]
            p.mul_(1 - o["muon_lr"] * o["weight_decay"])
            p.sub_(o["muon_lr"] * join_matrices(self.m, name, parts))


class Lion(torch.optim.Optimizer):
    def __init__(self, o, lr, groups):
        super().__init__(groups, dict())
        self.o, self.lr, self.moments = o, lr, {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                moment = self.moments.setdefault(p, torch.zeros_like(p))
                p.mul_(1 - self.lr * group["weight_decay"])
                p.sub_(self.lr * moment.lerp(p.grad, 1 - self.o["lion_beta1"]).sign())
                moment.lerp_(p.grad, 1 - self.o["lion_beta2"])


def optimizers_of(m, o, lr, masters, dtype):
    matrices = [p for p in masters.values() if p.dim() > 1]
    vectors = [p for p in masters.values() if p.dim() == 1]
    whole = [(name, p) for name, p in masters.items()
             if o["name"] == "muon" and logical_matrices(m, name, p)]
    rest = [p for p in matrices if all(p is not taken for _, taken in whole)]
    groups = [dict(params=rest, weight_decay=o["weight_decay"]), dict(params=vectors, weight_decay=0.0)]
    if o["name"] == "lion":
        return [Lion(o, lr, groups)]
    adamw = torch.optim.AdamW(groups, lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["eps"], foreach=False)
    return [adamw, Muon(m, o, whole, dtype)] if whole else [adamw]
