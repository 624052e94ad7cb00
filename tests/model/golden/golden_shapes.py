"""The parameters of a model and their shapes."""


def latent_attention(m, name, linear, result):
    """What comes before the way out. Returns the width of a value."""
    h, heads, q, kv = m["hidden_size"], m["num_heads"], m["q_lora_rank"], m["kv_lora_rank"]
    nope, rope, value = m["qk_nope_head_dim"], m["qk_rope_head_dim"], m["v_head_dim"]
    if q:
        linear(name + "query_down", q, h)
        result[name + "query_norm.weight"] = (q,)
    linear(name + "query", heads * (nope + rope), q or h)
    linear(name + "kv_down", kv, h)
    result[name + "kv_norm.weight"] = (kv,)
    linear(name + "kv", heads * (nope + value), kv)
    linear(name + "key_rope", rope, h)
    return value


def shapes(m):
    h, f, d = m["hidden_size"], m["ffn_hidden_size"], m["hidden_size"] // m["num_heads"]
    qkv = (m["num_heads"] + 2 * m["num_kv_heads"]) * d
    up = 2 * f if m["activation"] in ("swiglu", "geglu") else f
    bert = m["family"] == "bert"
    placement = m.get("norm_placement", "pre")
    post = placement == "post"
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
    if post or m.get("embedding_norm"):
        norm("embedding.norm")
    for n in range(m["num_layers"]):
        if placement in ("pre", "both"):
            norm(f"layers.{n}.input_norm")
        if m.get("kv_lora_rank"):
            value = latent_attention(m, f"layers.{n}.attention.", linear, result)
        else:
            linear(f"layers.{n}.attention.qkv", qkv, h)
            value = d
        if m.get("qk_norm"):
            all_heads = m["qk_norm_over"] == "all_heads"
            for part, heads in (("query", m["num_heads"]), ("key", m["num_kv_heads"])):
                result[f"layers.{n}.attention.{part}_norm.weight"] = (heads * d if all_heads else d,)
        linear(f"layers.{n}.attention.out", h, m["num_heads"] * value)
        if placement in ("output", "both"):
            norm(f"layers.{n}.attention_out_norm")
        if placement != "output":
            norm(f"layers.{n}.mlp_norm")
        if "moe" in m and n >= m["moe"]["first_layer"]:
            moe = m["moe"]
            linear(f"layers.{n}.mlp.router", moe["num_experts"], h)
            linear(f"layers.{n}.mlp.experts.up", moe["num_experts"] * 2 * moe["ffn_hidden_size"], h)
            linear(f"layers.{n}.mlp.experts.down", moe["num_experts"] * h, moe["ffn_hidden_size"])
            if moe["shared_ffn_hidden_size"]:
                linear(f"layers.{n}.mlp.shared.up", 2 * moe["shared_ffn_hidden_size"], h)
                linear(f"layers.{n}.mlp.shared.down", h, moe["shared_ffn_hidden_size"])
            if moe.get("residual"):
                linear(f"layers.{n}.mlp.mix", 2, h)
                result[f"layers.{n}.mlp.mix.bias"] = (2,)
        else:
            linear(f"layers.{n}.mlp.up", up, h)
            linear(f"layers.{n}.mlp.down", h, f)
        if placement != "pre":
            norm(f"layers.{n}." + ("output_norm" if post else "mlp_out_norm"))
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
