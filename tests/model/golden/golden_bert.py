"""BERT with its two heads."""

import torch
import torch.nn.functional as F

from golden_formulas import bert_batch
from golden_layers import attention, gelu, linear, mlp, norm


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
    order = linear(m, w, "order_head", torch.tanh(linear(m, w, "pooler", x[:, 0])))
    x = norm(m, w, "masked_head.norm", gelu(m, linear(m, w, "masked_head.dense", x)))
    return F.linear(x, w["embedding.word.weight"], w["masked_head.bias"]), order


def bert_loss(m, w, step):
    inputs, targets, counts, segments, lengths, labels = bert_batch(step)
    words, order = bert_logits(m, w, inputs, segments, lengths)
    words, order = (y if y.dtype == torch.float64 else y.float() for y in (words, order))
    losses = F.cross_entropy(words.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * counts.flatten()).sum() / counts.sum() + F.cross_entropy(order, labels)
