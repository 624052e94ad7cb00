"""The layers that the families share: norms, rotary positions, attention, MLP."""

import math

import torch
import torch.nn.functional as F

from golden_fp8 import product


def norm(m, w, name, x):
    wide = x if x.dtype == torch.float64 else x.float()
    scale = w[name + ".weight"].to(wide.dtype) + (1 if m.get("zero_centered_norms") else 0)
    if m["norm"] == "layer_norm":
        shift = w[name + ".bias"].to(wide.dtype)
        y = F.layer_norm(wide, wide.shape[-1:], scale, shift, m["norm_eps"])
    else:
        y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + m["norm_eps"]) * scale
    return y.to(x.dtype)


def linear(m, w, name, x):
    return product(m, name, x, w[name + ".weight"], w.get(name + ".bias"))


def frequencies(m, d):
    """Of the pairs of d dimensions, by yarn where the model says so."""
    plain = m["rope_base"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if m.get("rope_scaling", "none") != "yarn":
        return plain, 1.0
    length, base = m["rope_original_length"], m["rope_base"]
    low, high = (d * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))
                 for turns in (32, 1))
    low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
    ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    return plain / m["rope_scaling_factor"] * ramp + plain * (1 - ramp), m["rope_attention_factor"]


def rotate(m, x):
    """RoPE on [batch, heads, seq, head_dim]: the first half pairs with the second."""
    frequency, amplitude = frequencies(m, x.shape[-1])
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequency
    wide = x if x.dtype == torch.float64 else x.float()
    cos, sin = ((amplitude * torch.cat([f, f], -1)).to(wide.dtype)
                for f in (angle.cos(), angle.sin()))
    first, second = wide.chunk(2, -1)
    return (wide * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


def normed_heads(m, w, name, x):
    """Heads [batch, heads, seq, head_dim], each by itself or those of a position together."""
    if m["qk_norm_over"] == "head":
        return norm(m, w, name, x)
    b, heads, s, d = x.shape
    y = norm(m, w, name, x.transpose(1, 2).reshape(b, s, heads * d))
    return y.view(b, s, heads, d).transpose(1, 2)


def slopes(heads):
    """ALiBi's, in the way of the authors' get_slopes."""
    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    power = 2 ** math.floor(math.log2(heads))
    return of_power(power) + of_power(2 * power)[0::2][: heads - power]


def latent_heads(m, w, name, x):
    """Queries, keys and values [batch, heads, seq, width] of latent attention."""
    b, s, _ = x.shape
    heads, nope, rope = m["num_heads"], m["qk_nope_head_dim"], m["qk_rope_head_dim"]
    q = norm(m, w, name + ".query_norm", linear(m, w, name + ".query_down", x)) if m["q_lora_rank"] else x
    # A head has what positions turn in front.
    q = linear(m, w, name + ".query", q).view(b, s, heads, rope + nope).transpose(1, 2)
    latent = norm(m, w, name + ".kv_norm", linear(m, w, name + ".kv_down", x))
    kv = linear(m, w, name + ".kv", latent).view(b, s, heads, nope + m["v_head_dim"]).transpose(1, 2)
    turned = rotate(m, linear(m, w, name + ".key_rope", x)[:, None]).expand(b, heads, s, rope)
    q = torch.cat([rotate(m, q[..., :rope]), q[..., rope:]], -1)
    return q, torch.cat([turned, kv[..., :nope]], -1), kv[..., nope:]


def capped(x, cap):
    return cap * (x / cap).tanh() if cap else x


def attention(m, w, name, x, lengths=None, window=0):
    """Causal, or with lengths over all positions that are no padding."""
    b, s, h = x.shape
    if m.get("kv_lora_rank"):
        q, k, v = latent_heads(m, w, name, x)
    else:
        q, k, v = plain_heads(m, w, name, x)
    heads = q.shape[1]
    scores = (q @ k.transpose(-1, -2)) * (m.get("attention_scale") or 1 / math.sqrt(q.shape[-1]))
    scores = capped(scores, m.get("attention_soft_cap"))
    if m["position"] == "alibi":
        distance = torch.arange(s)[None] - torch.arange(s)[:, None]
        scores = scores + torch.tensor(slopes(heads), dtype=torch.float64)[:, None, None].mul(
            distance).to(scores.dtype)
    if lengths is None:
        hidden = torch.ones(s, s, dtype=torch.bool).triu(1)
        if window:
            hidden |= torch.ones(s, s, dtype=torch.bool).tril(-window)
    else:
        hidden = (torch.arange(s) >= lengths[:, None])[:, None, None]
    scores = scores.masked_fill(hidden, -math.inf)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    y = wide.softmax(-1).to(v.dtype) @ v
    return linear(m, w, name + ".out", y.transpose(1, 2).reshape(b, s, -1))


def plain_heads(m, w, name, x):
    b, s, h = x.shape
    groups, heads = m["num_kv_heads"], m["num_heads"]
    d = h // heads
    # Rows of the projection per group: its queries, its key, its value.
    qkv = linear(m, w, name + ".qkv", x).view(b, s, groups, heads // groups + 2, d)
    q = qkv[..., :-2, :].reshape(b, s, heads, d).transpose(1, 2)
    k = qkv[..., -2, :].transpose(1, 2)
    v = qkv[..., -1, :].transpose(1, 2)
    if m.get("qk_norm"):
        q, k = (normed_heads(m, w, f"{name}.{part}_norm", t) for part, t in (("query", q), ("key", k)))
    if m["position"] == "rope":
        q, k = rotate(m, q), rotate(m, k)
    k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
    return q, k, v


def mlp(m, w, name, x):
    up = linear(m, w, name + ".up", x)
    if m["activation"] in ("swiglu", "geglu"):
        gate, up = up.chunk(2, -1)
        y = (F.silu(gate) if m["activation"] == "swiglu" else F.gelu(gate, approximate="tanh")) * up
    else:
        y = gelu(m, up)
    return linear(m, w, name + ".down", y)


def gelu(m, x):
    return F.gelu(x, approximate="tanh" if m["activation"] == "gelu_tanh" else "none")
