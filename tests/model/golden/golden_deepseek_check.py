"""The logits of transformers' DeepseekV3ForCausalLM with the same weights."""

import math

import torch

from golden_decoder import logits
from golden_experts import Losses
from golden_formulas import largest, tokens, weight
from golden_shapes import shapes
from golden_variants import DEEPSEEK, SEQ, VOCAB


def in_pairs(rows, m):
    """Rows [heads * (rope + nope), in] as theirs: what positions turn behind, in pairs."""
    rope, nope = m["qk_rope_head_dim"], m["qk_nope_head_dim"]
    heads = rows.view(-1, rope + nope, rows.shape[-1])
    turned = torch.stack(heads[:, :rope].chunk(2, 1), 2).flatten(1, 2)
    return torch.cat([heads[:, rope:], turned], 1).reshape(rows.shape)


def layer(m, w, n):
    ours, theirs, rope = f"layers.{n}.", f"model.layers.{n}.", m["qk_rope_head_dim"]
    turned = torch.stack(w[ours + "attention.key_rope.weight"].chunk(2), 1).flatten(0, 1)
    state = {"input_layernorm": "input_norm", "post_attention_layernorm": "mlp_norm",
             "self_attn.q_a_proj": "attention.query_down", "self_attn.kv_b_proj": "attention.kv",
             "self_attn.q_a_layernorm": "attention.query_norm",
             "self_attn.kv_a_layernorm": "attention.kv_norm", "self_attn.o_proj": "attention.out"}
    state = {f"{theirs}{k}.weight": w[f"{ours}{v}.weight"] for k, v in state.items()}
    state[theirs + "self_attn.q_b_proj.weight"] = in_pairs(w[ours + "attention.query.weight"], m)
    state[theirs + "self_attn.kv_a_proj_with_mqa.weight"] = torch.cat(
        [w[ours + "attention.kv_down.weight"], turned])
    moe, mlp = m["moe"], theirs + "mlp."
    if n < moe["first_layer"]:
        gate, up = w[ours + "mlp.up.weight"].chunk(2)
        return state | {mlp + "gate_proj.weight": gate, mlp + "up_proj.weight": up,
                        mlp + "down_proj.weight": w[ours + "mlp.down.weight"]}
    gate, up = w[ours + "mlp.shared.up.weight"].chunk(2)
    both = w[ours + "mlp.experts.up.weight"].view(moe["num_experts"], 2 * moe["ffn_hidden_size"], -1)
    down = w[ours + "mlp.experts.down.weight"].view(moe["num_experts"], m["hidden_size"], -1)
    return state | {
        mlp + "gate.weight": w[ours + "mlp.router.weight"],
        mlp + "gate.e_score_correction_bias": torch.zeros(moe["num_experts"]),
        mlp + "experts.gate_up_proj": both, mlp + "experts.down_proj": down,
        mlp + "shared_experts.gate_proj.weight": gate, mlp + "shared_experts.up_proj.weight": up,
        mlp + "shared_experts.down_proj.weight": w[ours + "mlp.shared.down.weight"]}


def check_deepseek():
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
    # Four experts of two groups of two; scales as transformers computes them.
    moe = dict(DEEPSEEK["moe"], top_k=4, shared_ffn_hidden_size=40)
    scales = {name: 0.1 * value * math.log(4) + 1 for name, value in (("m", 1.0), ("all", 0.7))}
    m = dict(DEEPSEEK, moe=moe, norm_eps=1e-6, rope_attention_factor=scales["m"] / scales["all"],
             attention_scale=scales["all"] ** 2 / math.sqrt(12))
    model = DeepseekV3ForCausalLM(DeepseekV3Config(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=12,
        qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, max_position_embeddings=SEQ,
        n_routed_experts=8, num_experts_per_tok=4, n_group=4, topk_group=2, n_shared_experts=1,
        moe_intermediate_size=40, first_k_dense_replace=1, routed_scaling_factor=2.5,
        num_nextn_predict_layers=0,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                         "original_max_position_embeddings": 8, "mscale": 1.0,
                         "mscale_all_dim": 0.7}))
    w = {name: weight(name, shape) for name, shape in shapes(m).items()}
    state = {"model.embed_tokens.weight": w["embedding.word.weight"],
             "model.norm.weight": w["final_norm.weight"], "lm_head.weight": w["head.weight"]}
    for n in range(2):
        state |= layer(m, w, n)
    model.load_state_dict(state)
    inputs = tokens(0)[:, :-1]
    print("deepseek against DeepseekV3ForCausalLM:",
          largest(model.eval()(inputs).logits, logits(m, w, inputs, Losses({}))))
