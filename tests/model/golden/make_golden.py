#!/usr/bin/env python3
"""Makes the golden training runs beside this script: 20 steps of tiny models in PyTorch.

    python make_golden.py [--check]

Needs torch and numpy; --check also compares the models with the classes of transformers.
Weights, tokens and projections come from the formulas of golden_weights.h. A JSON file holds the
configuration, and for each run (fp64, fp32, bf16) the losses and the norms of the gradients before
clipping. The first step's gradient and the final weights are those of the fp64 run: per tensor its
norm, projections onto fixed vectors of +1 and -1, and the first values.

bf16 means: weights, activations and gradients in bf16, fp32 master weights and optimizer, softmax,
norms and the loss in fp32 inside. Its learning rate is lower: at 1e-2 Adam blows rounding up to 3%
of the loss, and two right implementations would not agree within 1%. BERT, which sees few targets,
and mixtures of experts, where rounding may give a token another expert, have the lower rate
throughout.

Models are trained with AdamW, and two of them with Muon and with Lion, from the formulas of the
papers: Muon takes the matrices of the layers, with q, k and v apart and gate and up apart.
"""

import argparse
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

BATCH, SEQ, VOCAB, BATCHES, STEPS, PROJECTIONS = 4, 16, 61, 4, 20, 8
RATES = dict(fp64=1e-2, fp32=1e-2, bf16=3e-3)
DTYPES = dict(fp64=torch.float64, fp32=torch.float32, bf16=torch.bfloat16)
OPTIMIZER = dict(name="adamw", beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01,
                 clip_grad=1.0)
MUON = dict(OPTIMIZER, name="muon", muon_momentum=0.95, muon_nesterov=True, muon_steps=5,
            muon_coefficients="simple", muon_scale="match_rms", muon_lr=2e-2)
MEGATRON_MUON = dict(MUON, muon_momentum=0.9, muon_nesterov=False, muon_coefficients="quintic",
                     muon_scale="spectral", muon_lr=2e-3)
LION = dict(OPTIMIZER, name="lion", lion_beta1=0.9, lion_beta2=0.99, weight_decay=0.1)
NEWTON_SCHULZ = dict(simple=[(3.4445, -4.7750, 2.0315)],
                     quintic=[(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377),
                              (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
                              (2.8366, -3.0525, 1.2012)])
SCALES = dict(match_rms=lambda rows, cols: 0.2 * math.sqrt(max(rows, cols)),
              spectral=lambda rows, cols: math.sqrt(max(rows, cols)))
GPT = dict(family="gpt", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=4,
           ffn_hidden_size=128, seq_length=SEQ, max_positions=SEQ, vocab_size=VOCAB,
           position="learned", norm="layer_norm", norm_eps=1e-5, activation="gelu_tanh", bias=True,
           qkv_bias=True, tie_embeddings=True)
LLAMA = dict(GPT, family="llama", num_kv_heads=2, ffn_hidden_size=96, position="rope",
             rope_base=10000.0, norm="rms_norm", activation="swiglu", bias=False, qkv_bias=False,
             tie_embeddings=False)
# Two sentences per sample and padding after them; about one position in six is predicted. The loss
# is the mean over these, of all samples together, plus the mean of the samples' order losses.
BERT = dict(GPT, family="bert", norm_eps=1e-12, activation="gelu_erf", norm_placement="pre",
            order_head=True)
# Mixture of experts. Capacity and drops are of a sequence; eight choices of 16 tokens, so that full
# experts are common.
MOE = dict(num_experts=8, top_k=2, ffn_hidden_size=40, score="softmax", normalize_weights=True,
           scaling_factor=1.0, first_layer=0, num_groups=1, top_groups=1, shared_ffn_hidden_size=0,
           aux_loss="sequence", aux_loss_coeff=0.0, z_loss_coeff=0.0, capacity_factor=0.0,
           drop_policy="weight")
MIXTRAL = dict(LLAMA, moe=dict(MOE, aux_loss_coeff=0.02, z_loss_coeff=0.001))
GROUPS = dict(LLAMA, moe=dict(
    MOE, score="sigmoid", scaling_factor=2.5, num_groups=4, top_groups=2, first_layer=1,
    shared_ffn_hidden_size=48, aux_loss="batch", aux_loss_coeff=0.02))
CAPACITY = dict(LLAMA, moe=dict(MOE, normalize_weights=False, capacity_factor=1.0,
                                aux_loss_coeff=0.01))
VARIANTS = {  # model, whether some tokens do not count, optimizer
    "experts": (MIXTRAL, True),
    "experts_in_groups": (GROUPS, False),
    "experts_with_capacity": (CAPACITY, False),
    "bert": (BERT, True),
    "bert_post": (dict(BERT, norm_placement="post"), True),
    "gpt": (GPT, False),
    "gpt_gelu_erf": (dict(GPT, activation="gelu_erf"), False),
    "gpt_masked": (GPT, True),
    "llama": (LLAMA, False),
    "llama_masked": (LLAMA, True),
    "llama_muon": (LLAMA, False, MUON),
    "gpt_muon": (GPT, False, MEGATRON_MUON),
    "gpt_lion": (GPT, False, LION),
}


# ---- golden_weights.h in numpy

def hashes(name, indices):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.asarray(indices, np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def weight(name, shape):
    u = ((hashes(name, np.arange(math.prod(shape))) >> np.uint64(48)).astype(np.float64) - 32768) / 32768
    if name.endswith("norm.weight"):
        values = 1.0 + 0.1 * u
    else:
        values = (0.1 if name.endswith(".bias") else 0.2) * u
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def places(step):
    rows = (step % BATCHES) * BATCH + np.arange(BATCH)
    return rows[:, None] * (SEQ + 1) + np.arange(SEQ + 1)


def tokens(step):
    values = (hashes("tokens", places(step)) >> np.uint64(32)) % np.uint64(VOCAB)
    return torch.from_numpy(values.astype(np.int64))


def bert_batch(step):
    """Inputs, targets, loss weights, segments, lengths and order labels."""
    at = places(step)[:, :SEQ]
    position = np.arange(SEQ)
    draws = (hashes("bert", places(step)[:, 0]) >> np.uint64(32)).astype(np.int64)
    lengths = SEQ - draws % 5
    split = 3 + draws % 7
    inside = position < lengths[:, None]
    chosen = (hashes("mask", at) >> np.uint64(32)) % np.uint64(6) == 0
    weights = chosen & inside
    weights[:, 1] = True  # no sample without
    segments = (position >= split[:, None]) & inside
    return (tokens(step)[:, :SEQ] * torch.from_numpy(inside), tokens(step)[:, 1:],
            torch.from_numpy(weights.astype(np.float32)),
            torch.from_numpy(segments.astype(np.int64)), torch.from_numpy(lengths),
            torch.from_numpy(draws // 64 % 2))


def loss_weights(step, masked):
    if not masked:
        return torch.ones(BATCH, SEQ)
    kept = (hashes("mask", places(step)) >> np.uint64(32)) % np.uint64(4) != 0
    kept[2] = False
    return torch.from_numpy(kept[:, :SEQ].astype(np.float32))


def summary(tensor):
    values = tensor.detach().double().numpy().ravel()
    bits = hashes("projection", np.arange(values.size))
    signs = [np.where(bits >> np.uint64(40 + j) & np.uint64(1), 1.0, -1.0) for j in range(PROJECTIONS)]
    return dict(shape=list(tensor.shape), norm=float(np.linalg.norm(values)),
                projections=[float(s @ values) for s in signs], values=values[:4].tolist())


# ---- the models

def shapes(m):
    h, f, d = m["hidden_size"], m["ffn_hidden_size"], m["hidden_size"] // m["num_heads"]
    qkv = (m["num_heads"] + 2 * m["num_kv_heads"]) * d
    up = 2 * f if m["activation"] == "swiglu" else f
    bert = m["family"] == "bert"
    post = bert and m["norm_placement"] == "post"
    result = {"embedding.word.weight": (m["vocab_size"], h)}
    if m["position"] == "learned":
        result["embedding.position.weight"] = (m["max_positions"], h)

    def norm(name):
        result[name + ".weight"] = (h,)
        if m["norm"] == "layer_norm":
            result[name + ".bias"] = (h,)

    def linear(name, rows, columns):
        result[name + ".weight"] = (rows, columns)
        if m["bias"]:
            result[name + ".bias"] = (rows,)

    if bert:
        result["embedding.token_type.weight"] = (2, h)
    if post:
        norm("embedding.norm")
    for n in range(m["num_layers"]):
        if not post:
            norm(f"layers.{n}.input_norm")
        linear(f"layers.{n}.attention.qkv", qkv, h)
        linear(f"layers.{n}.attention.out", h, h)
        norm(f"layers.{n}.mlp_norm")
        if "moe" in m and n >= m["moe"]["first_layer"]:
            moe = m["moe"]
            linear(f"layers.{n}.mlp.router", moe["num_experts"], h)
            linear(f"layers.{n}.mlp.experts.up", moe["num_experts"] * 2 * moe["ffn_hidden_size"], h)
            linear(f"layers.{n}.mlp.experts.down", moe["num_experts"] * h, moe["ffn_hidden_size"])
            if moe["shared_ffn_hidden_size"]:
                linear(f"layers.{n}.mlp.shared.up", 2 * moe["shared_ffn_hidden_size"], h)
                linear(f"layers.{n}.mlp.shared.down", h, moe["shared_ffn_hidden_size"])
        else:
            linear(f"layers.{n}.mlp.up", up, h)
            linear(f"layers.{n}.mlp.down", h, f)
        if post:
            norm(f"layers.{n}.output_norm")
    if not post:
        norm("final_norm")
    if bert:
        linear("pooler", h, h)
        linear("order_head", 2, h)
        linear("masked_head.dense", h, h)
        norm("masked_head.norm")
        result["masked_head.bias"] = (m["vocab_size"],)
    if not m["tie_embeddings"]:
        result["head.weight"] = (m["vocab_size"], h)
    return result


def norm(m, w, name, x):
    wide = x if x.dtype == torch.float64 else x.float()
    scale = w[name + ".weight"].to(wide.dtype)
    if m["norm"] == "layer_norm":
        shift = w[name + ".bias"].to(wide.dtype)
        y = F.layer_norm(wide, wide.shape[-1:], scale, shift, m["norm_eps"])
    else:
        y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + m["norm_eps"]) * scale
    return y.to(x.dtype)


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def rotate(m, x):
    """RoPE on [batch, heads, seq, head_dim]: the first half pairs with the second."""
    d = x.shape[-1]
    frequency = m["rope_base"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequency
    wide = x if x.dtype == torch.float64 else x.float()
    cos, sin = (torch.cat([f, f], -1).to(wide.dtype) for f in (angle.cos(), angle.sin()))
    first, second = wide.chunk(2, -1)
    return (wide * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


def attention(m, w, name, x, lengths=None):
    """Causal, or with lengths over all positions that are no padding."""
    b, s, h = x.shape
    groups, heads = m["num_kv_heads"], m["num_heads"]
    d = h // heads
    # Rows of the projection per group: its queries, its key, its value.
    qkv = linear(w, name + ".qkv", x).view(b, s, groups, heads // groups + 2, d)
    q = qkv[..., :-2, :].reshape(b, s, heads, d).transpose(1, 2)
    k = qkv[..., -2, :].transpose(1, 2)
    v = qkv[..., -1, :].transpose(1, 2)
    if m["position"] == "rope":
        q, k = rotate(m, q), rotate(m, k)
    k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(d)
    if lengths is None:
        hidden = torch.ones(s, s, dtype=torch.bool).triu(1)
    else:
        hidden = (torch.arange(s) >= lengths[:, None])[:, None, None]
    scores = scores.masked_fill(hidden, -math.inf)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    y = wide.softmax(-1).to(v.dtype) @ v
    return linear(w, name + ".out", y.transpose(1, 2).reshape(b, s, h))


def mlp(m, w, name, x):
    up = linear(w, name + ".up", x)
    if m["activation"] == "swiglu":
        gate, up = up.chunk(2, -1)
        y = F.silu(gate) * up
    else:
        y = gelu(m, up)
    return linear(w, name + ".down", y)


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


def router_losses(moe, z, scores, batch):
    """Of each unit, a sequence or the batch, with choices by plain score; their mean."""
    units = batch if moe["aux_loss"] == "sequence" else 1
    shares = scores / scores.sum(-1, keepdim=True)
    plain = choose(dict(moe, num_groups=1), scores)
    hits = F.one_hot(plain, moe["num_experts"]).to(z.dtype).sum(1) / moe["top_k"]
    f, p = (t.view(units, -1, moe["num_experts"]).mean(1) for t in (hits, shares))
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
    losses.append(router_losses(moe, z, scores, b))
    up = w[name + ".experts.up.weight"].view(count, 2 * inner, h)
    down = w[name + ".experts.down.weight"].view(count, h, inner)
    y = torch.zeros(b * s, h, dtype=wide)
    for e in range(count):
        gate, value = F.linear(rows, up[e]).chunk(2, -1)
        made = F.linear(F.silu(gate) * value, down[e]).to(wide)
        y = y + ((chosen == e) * weights).sum(-1, keepdim=True) * made
    y = y.to(x.dtype).view(b, s, h)
    return y + mlp(m, w, name + ".shared", x) if moe["shared_ffn_hidden_size"] else y


def logits(m, w, inputs, losses=None):
    x = F.embedding(inputs, w["embedding.word.weight"])
    if m["position"] == "learned":
        x = x + w["embedding.position.weight"][: inputs.shape[1]]
    for n in range(m["num_layers"]):
        x = x + attention(m, w, f"layers.{n}.attention", norm(m, w, f"layers.{n}.input_norm", x))
        y = norm(m, w, f"layers.{n}.mlp_norm", x)
        if "moe" in m and n >= m["moe"]["first_layer"]:
            x = x + experts(m, w, f"layers.{n}.mlp", y, losses)
        else:
            x = x + mlp(m, w, f"layers.{n}.mlp", y)
    x = norm(m, w, "final_norm", x)
    return F.linear(x, w["embedding.word.weight" if m["tie_embeddings"] else "head.weight"])


def gelu(m, x):
    return F.gelu(x, approximate="tanh" if m["activation"] == "gelu_tanh" else "none")


def bert_logits(m, w, inputs, segments, lengths):
    """Of the words, and of the order."""
    post = m["norm_placement"] == "post"
    x = (F.embedding(inputs, w["embedding.word.weight"])
         + w["embedding.position.weight"][: inputs.shape[1]]
         + F.embedding(segments, w["embedding.token_type.weight"]))
    if post:
        x = norm(m, w, "embedding.norm", x)
    for n in range(m["num_layers"]):
        layer = f"layers.{n}."
        if post:
            x = norm(m, w, layer + "mlp_norm", x + attention(m, w, layer + "attention", x, lengths))
            x = norm(m, w, layer + "output_norm", x + mlp(m, w, layer + "mlp", x))
        else:
            y = norm(m, w, layer + "input_norm", x)
            x = x + attention(m, w, layer + "attention", y, lengths)
            x = x + mlp(m, w, layer + "mlp", norm(m, w, layer + "mlp_norm", x))
    if not post:
        x = norm(m, w, "final_norm", x)
    order = linear(w, "order_head", torch.tanh(linear(w, "pooler", x[:, 0])))
    x = norm(m, w, "masked_head.norm", gelu(m, linear(w, "masked_head.dense", x)))
    return F.linear(x, w["embedding.word.weight"], w["masked_head.bias"]), order


def bert_loss(m, w, step):
    inputs, targets, counts, segments, lengths, labels = bert_batch(step)
    words, order = bert_logits(m, w, inputs, segments, lengths)
    words, order = (y if y.dtype == torch.float64 else y.float() for y in (words, order))
    losses = F.cross_entropy(words.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * counts.flatten()).sum() / counts.sum() + F.cross_entropy(order, labels)


def loss_of(m, w, step, masked):
    """Mean cross-entropy over the tokens that count, and what routers add to it."""
    if m["family"] == "bert":
        return bert_loss(m, w, step), 0
    batch, counts = tokens(step), loss_weights(step, masked)
    extra = []
    y = logits(m, w, batch[:, :-1], extra)
    y = y if y.dtype == torch.float64 else y.float()
    losses = F.cross_entropy(y.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
    return (losses * counts.flatten()).sum() / counts.sum(), sum(extra)


# ---- optimizers

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


# ---- training

def rate_of(m, o, precision):
    if o["name"] == "lion":
        return 1e-3
    return RATES["bf16"] if m["family"] == "bert" or "moe" in m else RATES[precision]


def train(m, masked, o, precision):
    """Losses, gradient norms, first gradient, final weights. Optimizer in fp64 or fp32."""
    dtype = DTYPES[precision]
    lr = rate_of(m, o, precision)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    router_values = []
    masters = {name: weight(name, shape).to(wide) for name, shape in shapes(m).items()}
    for master in masters.values():
        master.requires_grad_()
    optimizers = optimizers_of(m, o, lr, masters, dtype)
    losses, norms, first = [], [], None
    for step in range(STEPS):
        w = {name: p.detach().to(dtype).requires_grad_() for name, p in masters.items()}
        loss, extra = loss_of(m, w, step, masked)
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
    return run, first, masters


def make(name, folder):
    m, masked, o = (*VARIANTS[name], OPTIMIZER)[:3]
    runs = {}
    runs["fp64"], first, final = train(m, masked, o, "fp64")
    runs["fp32"], first32, _ = train(m, masked, o, "fp32")
    runs["bf16"], _, _ = train(m, masked, o, "bf16")
    golden = dict(
        about=f"20 {o['name'].capitalize() if o is not OPTIMIZER else 'AdamW'} steps of a tiny model; see make_golden.py. Gradient norms are before "
              "clipping. first_gradient is that of step 0 before clipping, final_weights are those "
              "after the last step, both of the fp64 run. A key bias has no influence on the loss "
              "and Adam turns the noise of its gradient into whole steps: compare no final "
              "attention.qkv.bias.",
        made_with=f"PyTorch {torch.__version__.split('+')[0]}",
        model=m, optimizer=o, masked=masked, batch=BATCH, steps=STEPS, runs=runs,
        first_gradient={k: summary(v) for k, v in first.items()},
        final_weights={k: summary(v) for k, v in final.items() if not k.endswith("qkv.bias")})
    (folder / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")
    gap = max(abs(a / b - 1) for a, b in zip(runs["fp32"]["losses"], runs["fp64"]["losses"]))
    grad = max(float((first32[k].double() - first[k]).norm() / first[k].norm()) for k in first)
    print(f"{name}: loss {runs['fp64']['losses'][0]:.4f} -> {runs['fp64']['losses'][-1]:.4f}; fp32 "
          f"differs by {gap:.1e} in a loss, {grad:.1e} in the norm of a first gradient")


# ---- an independent voice

def check():
    """The logits of transformers' classes with the same weights."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    inputs = tokens(0)[:, :-1]
    w = {name: weight(name, shape) for name, shape in shapes(GPT).items()}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=SEQ, n_embd=32, n_layer=2,
                                       n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    state = {"wte.weight": w["embedding.word.weight"], "wpe.weight": w["embedding.position.weight"],
             "ln_f.weight": w["final_norm.weight"], "ln_f.bias": w["final_norm.bias"]}
    for n in range(2):
        ours, theirs = f"layers.{n}.", f"h.{n}."
        for kind in ("weight", "bias"):
            qkv = w[f"{ours}attention.qkv.{kind}"]  # [heads, 3, d, ...] to [3, heads, d, ...]
            qkv = qkv.view(4, 3, 8, -1).transpose(0, 1).reshape(qkv.shape)
            linears = {"attn.c_attn": qkv, "attn.c_proj": w[f"{ours}attention.out.{kind}"],
                       "mlp.c_fc": w[f"{ours}mlp.up.{kind}"], "mlp.c_proj": w[f"{ours}mlp.down.{kind}"]}
            state |= {f"{theirs}{k}.{kind}": v.t() for k, v in linears.items()}
            state[f"{theirs}ln_1.{kind}"] = w[f"{ours}input_norm.{kind}"]
            state[f"{theirs}ln_2.{kind}"] = w[f"{ours}mlp_norm.{kind}"]
    missing = model.transformer.load_state_dict(state, strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys, missing
    print("gpt against GPT2LMHeadModel:", largest(model.eval()(inputs).logits, logits(GPT, w, inputs)))

    w = {name: weight(name, shape) for name, shape in shapes(LLAMA).items()}
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, max_position_embeddings=SEQ,
        rope_theta=10000.0, tie_word_embeddings=False))
    state = {"model.embed_tokens.weight": w["embedding.word.weight"],
             "model.norm.weight": w["final_norm.weight"], "lm_head.weight": w["head.weight"]}
    for n in range(2):
        ours, theirs = f"layers.{n}.", f"model.layers.{n}."
        qkv = w[f"{ours}attention.qkv.weight"].view(2, 4, 8, 32)
        gate, up = w[f"{ours}mlp.up.weight"].chunk(2)
        state |= {f"{theirs}self_attn.q_proj.weight": qkv[:, :2].reshape(32, 32),
                  f"{theirs}self_attn.k_proj.weight": qkv[:, 2].reshape(16, 32),
                  f"{theirs}self_attn.v_proj.weight": qkv[:, 3].reshape(16, 32),
                  f"{theirs}self_attn.o_proj.weight": w[f"{ours}attention.out.weight"],
                  f"{theirs}mlp.gate_proj.weight": gate, f"{theirs}mlp.up_proj.weight": up,
                  f"{theirs}mlp.down_proj.weight": w[f"{ours}mlp.down.weight"],
                  f"{theirs}input_layernorm.weight": w[f"{ours}input_norm.weight"],
                  f"{theirs}post_attention_layernorm.weight": w[f"{ours}mlp_norm.weight"]}
    model.load_state_dict(state)
    print("llama against LlamaForCausalLM:", largest(model.eval()(inputs).logits, logits(LLAMA, w, inputs)))


    check_bert(BERT)
    check_bert(VARIANTS["bert_post"][0])


def check_bert(m):
    from transformers import (BertConfig, BertForPreTraining, MegatronBertConfig,
                              MegatronBertForPreTraining)
    post = m["norm_placement"] == "post"
    config, kind = ((BertConfig, BertForPreTraining) if post
                    else (MegatronBertConfig, MegatronBertForPreTraining))
    model = kind(config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, max_position_embeddings=SEQ, layer_norm_eps=1e-12,
                        hidden_act="gelu"))
    w = {name: weight(name, shape) for name, shape in shapes(m).items()}
    words, heads = "bert.embeddings.", "cls.predictions."
    state = {words + "word_embeddings.weight": w["embedding.word.weight"],
             words + "position_embeddings.weight": w["embedding.position.weight"],
             words + "token_type_embeddings.weight": w["embedding.token_type.weight"],
             heads + "bias": w["masked_head.bias"], heads + "decoder.bias": w["masked_head.bias"],
             heads + "decoder.weight": w["embedding.word.weight"]}
    names = {"pooler": "bert.pooler.dense", "masked_head.dense": heads + "transform.dense",
             "masked_head.norm": heads + "transform.LayerNorm", "order_head": "cls.seq_relationship"}
    names |= {"embedding.norm": words + "LayerNorm"} if post else {"final_norm": "bert.encoder.ln"}
    for n in range(2):
        ours, theirs = f"layers.{n}.", f"bert.encoder.layer.{n}."
        names |= {ours + "attention.out": theirs + "attention.output.dense",
                  ours + "mlp.up": theirs + "intermediate.dense",
                  ours + "mlp.down": theirs + "output.dense"}
        if post:
            names |= {ours + "mlp_norm": theirs + "attention.output.LayerNorm",
                      ours + "output_norm": theirs + "output.LayerNorm"}
        else:
            names |= {ours + "input_norm": theirs + "attention.ln", ours + "mlp_norm": theirs + "ln"}
        for kind in ("weight", "bias"):
            qkv = w[f"{ours}attention.qkv.{kind}"].view(4, 3, 8, -1)
            for i, part in enumerate(("query", "key", "value")):
                name = f"{theirs}attention.self.{part}.{kind}"
                state[name] = qkv[:, i].reshape(32, *qkv.shape[3:]).squeeze(-1 if kind == "bias" else 0)
    for ours, theirs in names.items():
        state |= {f"{theirs}.{kind}": w[f"{ours}.{kind}"] for kind in ("weight", "bias")}
    missing = model.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and all("_ids" in k for k in missing.missing_keys), missing
    inputs, _, _, segments, lengths, _ = bert_batch(0)
    mask = (torch.arange(SEQ) < lengths[:, None]).long()
    theirs = model.eval()(inputs, attention_mask=mask, token_type_ids=segments)
    words, order = bert_logits(m, w, inputs, segments, lengths)
    real = mask.bool()
    print(f"bert, {m['norm_placement']}-norm, against {type(model).__name__}:",
          largest(theirs.prediction_logits[real], words[real]),
          largest(theirs.seq_relationship_logits, order))


def largest(a, b):
    difference = (a - b).abs().max().item()
    assert difference < 1e-5, difference
    return difference


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with transformers first")
    parser.add_argument("--only", nargs="*", choices=VARIANTS, help="these alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.check:
        check()
    for name in arguments.only or VARIANTS:
        make(name, pathlib.Path(__file__).parent)


if __name__ == "__main__":
    main()
