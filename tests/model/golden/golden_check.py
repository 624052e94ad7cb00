"""An independent voice: the logits of transformers' classes with the same weights."""

from golden_bert_check import check_bert
from golden_decoder import logits
from golden_deepseek_check import check_deepseek
from golden_formulas import largest, tokens, weight
from golden_shapes import shapes
from golden_variants import BERT, GPT, LLAMA, SEQ, VARIANTS, VOCAB


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


    check_deepseek()
    check_bert(BERT)
    check_bert(VARIANTS["bert_post"][0])
