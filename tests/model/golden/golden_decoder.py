"""GPT, Llama and their relatives, with experts and without."""

import torch.nn.functional as F

from golden_experts import experts
from golden_layers import attention, capped, mlp, norm


def branches(m, w, n, x, losses):
    """x after attention and MLP of layer n, with norms before or after each, or both."""
    layer, placement = f"layers.{n}.", m.get("norm_placement", "pre")

    def branch(compute, before_name, after_name, x):
        made = compute(x if placement == "output" else norm(m, w, layer + before_name, x))
        return x + (made if placement == "pre" else norm(m, w, layer + after_name, made))

    def feed_forward(y):
        if "moe" in m and n >= m["moe"]["first_layer"]:
            return experts(m, w, layer + "mlp", y, losses)
        return mlp(m, w, layer + "mlp", y)

    window = m.get("attention_window") if n in m.get("window_layers", [n]) else 0
    x = branch(lambda y: attention(m, w, layer + "attention", y, window=window), "input_norm",
               "attention_out_norm", x)
    return branch(feed_forward, "mlp_norm", "mlp_out_norm", x)


def logits(m, w, inputs, losses=None):
    x = F.embedding(inputs, w["embedding.word.weight"])
    if m["position"] == "learned":
        x = x + w["embedding.position.weight"][: inputs.shape[1]]
    if m.get("scale_embedding"):
        x = x * m["hidden_size"] ** 0.5
    if m.get("embedding_norm"):
        x = norm(m, w, "embedding.norm", x)
    for n in range(m["num_layers"]):
        x = branches(m, w, n, x, losses)
    x = norm(m, w, "final_norm", x)
    return capped(F.linear(x, w["embedding.word.weight" if m["tie_embeddings"] else "head.weight"]),
                  m.get("logit_soft_cap"))
