"""Linear layers whose products read 8-bit numbers, by PyTorch's 8-bit types. An expert's rows of the
batch count as a sequence.

A scale is largest / amax, in fp32 and perhaps rounded down to a power of two; a number times it is
rounded to nearest, and divided by it again before products. tensorwise: a scale for a weight, and for
the activations of a sequence. blockwise: for 128 x 128 of a weight, and for 128 activations along the
dimension that a product sums over, in a weight's gradient positions of one sequence.
"""

import torch
import torch.nn.functional as F

TYPES = dict(ocp=dict(e4m3=torch.float8_e4m3fn, e5m2=torch.float8_e5m2),
             fnuz=dict(e4m3=torch.float8_e4m3fnuz, e5m2=torch.float8_e5m2fnuz))
BLOCK = 128


def rounded(x, tile, kind, power_of_2):
    """The last two dimensions in tiles, as numbers in fp32, or in fp64 if x is."""
    rows, columns = x.shape[-2:]
    tile = (min(tile[0], rows), min(tile[1], columns))
    padded = F.pad(x.float(), (0, -columns % tile[1], 0, -rows % tile[0]))
    tiles = padded.unflatten(-1, (-1, tile[1])).unflatten(-3, (-1, tile[0]))
    largest = torch.finfo(kind).max
    amax = tiles.abs().amax((-3, -1), keepdim=True)
    # A quotient, where largest / amax would be a product with the reciprocal.
    scale = torch.where(amax > 0, torch.full_like(amax, largest) / amax, torch.ones_like(amax))
    if power_of_2:
        scale = torch.ldexp(torch.ones_like(scale), torch.frexp(scale).exponent - 1)
    near = (tiles * scale).clamp(-largest, largest).to(kind).float() * (1 / scale)
    near = near.flatten(-4, -3).flatten(-2, -1)[..., :rows, :columns]
    return near.double() if x.dtype == torch.float64 else near


class Product(torch.autograd.Function):
    """x [batch, seq, in], weight [out, in], bias [out] or None."""

    @staticmethod
    def forward(ctx, x, weight, bias, fp8):
        ctx.save_for_backward(x, weight)
        ctx.fp8, ctx.has_bias = fp8, bias is not None
        y = acts(x, fp8, "forward") @ weights(weight, fp8).T
        if bias is not None:
            y = y + bias.to(y.dtype)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        fp8 = ctx.fp8
        dx = acts(dy, fp8, "backward") @ weights(weight, fp8)
        dw = torch.einsum("bso,bsi->oi", acts(dy, fp8, "backward", True), acts(x, fp8, "forward", True))
        wide = dy if dy.dtype == torch.float64 else dy.float()
        return dx.to(x.dtype), dw.to(weight.dtype), wide.sum((0, 1)).to(dy.dtype) if ctx.has_bias else None, None


def kind_of(fp8, use):
    return TYPES[fp8["encoding"]]["e5m2" if use == "backward" and fp8["format"] == "hybrid" else "e4m3"]


def weights(w, fp8):
    tile = (BLOCK, BLOCK) if fp8["recipe"] == "blockwise" else tuple(w.shape)
    return rounded(w, tile, kind_of(fp8, "forward"), fp8["power_of_2_scales"])


def acts(x, fp8, use, over_positions=False):
    tile = tuple(x.shape[-2:])
    if fp8["recipe"] == "blockwise":
        tile = (BLOCK, 1) if over_positions else (1, BLOCK)
    return rounded(x, tile, kind_of(fp8, use), fp8["power_of_2_scales"])


def product(m, name, x, weight, bias=None):
    """The product of a layer of a block, in 8 bits if the model says so of this layer."""
    fp8 = m.get("fp8")
    if not fp8 or not name.startswith("layers."):
        return F.linear(x, weight, bias)
    layer = int(name.split(".")[1])
    if layer < fp8["first_layers_bf16"] or layer >= m["num_layers"] - fp8["last_layers_bf16"]:
        return F.linear(x, weight, bias)
    return Product.apply(x, weight, bias, fp8)
