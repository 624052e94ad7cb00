"""Random tiny models of every transformers class that the program reads, and IDs for them."""
import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

def gpt2(rng):
    heads = rng.choice([1, 2, 3, 4])
    return transformers.GPT2Config(
        vocab_size=rng.randint(40, 150), n_positions=rng.choice([32, 48, 64]),
        n_embd=heads * rng.choice([4, 8, 16]), n_layer=rng.randint(1, 3), n_head=heads,
        n_inner=rng.choice([None, 24, 40]),
        activation_function=rng.choice(["gelu_new", "gelu", "gelu_pytorch_tanh"]),
        layer_norm_epsilon=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.7)


def bloom(rng):
    heads = rng.choice([1, 2, 3, 4, 6, 12])
    return transformers.BloomConfig(
        vocab_size=rng.randint(40, 150), seq_length=rng.choice([32, 64]),
        hidden_size=heads * rng.choice([4, 8, 16]), n_layer=rng.randint(1, 3), n_head=heads,
        layer_norm_epsilon=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.7)


def rope(rng, positions):
    theta = rng.choice([10000.0, 500000.0])
    return rng.choice([
        {"rope_type": "default", "rope_theta": theta},
        {"rope_type": "linear", "rope_theta": theta, "factor": rng.choice([2.0, 4.0])},
        {"rope_type": "llama3", "rope_theta": theta, "factor": 8.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": positions // 2},
        {"rope_type": "yarn", "rope_theta": theta, "factor": rng.choice([2.0, 4.0]),
         "original_max_position_embeddings": positions // 2,
         **rng.choice([{}, {"attention_factor": 1.3, "beta_fast": 8.0, "beta_slow": 0.5},
                       {"truncate": False}])},
    ])


def llama_like(rng, config, **more):
    groups, queries = rng.choice([1, 2, 3]), rng.choice([1, 2, 4])
    heads, head_dim = groups * queries, rng.choice([4, 8, 16])
    positions = rng.choice([32, 64])
    return config(
        vocab_size=rng.randint(40, 150), max_position_embeddings=positions,
        hidden_size=heads * rng.choice([head_dim, 8, 12]),
        head_dim=head_dim, intermediate_size=rng.choice([16, 24, 56]),
        num_hidden_layers=rng.randint(1, 3), num_attention_heads=heads, num_key_value_heads=groups,
        rms_norm_eps=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.4,
        rope_parameters=more.pop("rope_parameters", None) or rope(rng, positions), **more)


def llama(rng):
    bias = rng.random() < 0.3
    return llama_like(rng, transformers.LlamaConfig, attention_bias=bias, mlp_bias=bias)


def mistral(rng):
    return llama_like(rng, transformers.MistralConfig, sliding_window=rng.choice([None, 64, 5, 9]))


def qwen_window(rng):
    """Sliding windows in all layers, in those from one on, or in none."""
    return rng.choice([{}, *({"use_sliding_window": True, "sliding_window": 7,
                              "max_window_layers": first} for first in (0, 1, 2))])


def qwen2(rng):
    config = llama_like(rng, transformers.Qwen2Config, **qwen_window(rng))
    del config.head_dim  # Qwen2's is always hidden_size / heads
    return config


def qwen3(rng):
    return llama_like(rng, transformers.Qwen3Config, **qwen_window(rng))


def olmo2(rng):
    return llama_like(rng, transformers.Olmo2Config)


def gemma(rng):
    return llama_like(rng, transformers.GemmaConfig)


def gemma2(rng):
    config = llama_like(
        rng, transformers.Gemma2Config, sliding_window=rng.choice([5, 9]),
        query_pre_attn_scalar=rng.choice([4, 8, 144]),
        attn_logit_softcapping=rng.choice([None, 1.5, 50.0]),
        final_logit_softcapping=rng.choice([None, 2.0, 30.0]),
        attn_implementation="eager")  # other implementations omit the soft cap of scores
    if rng.random() < 0.5:
        config.layer_types = [rng.choice(["sliding_attention", "full_attention"])
                              for _ in range(config.num_hidden_layers)]
    return config


def mixtral(rng):
    groups, queries = rng.choice([1, 2]), rng.choice([1, 2])
    heads, head_dim = groups * queries, rng.choice([4, 8, 16])
    positions = rng.choice([32, 64])
    experts = rng.choice([2, 4, 8])
    return transformers.MixtralConfig(
        vocab_size=rng.randint(40, 150), max_position_embeddings=positions,
        hidden_size=heads * rng.choice([head_dim, 8, 12]), head_dim=head_dim,
        intermediate_size=rng.choice([16, 24, 56]), num_hidden_layers=rng.randint(1, 3),
        num_attention_heads=heads, num_key_value_heads=groups, rms_norm_eps=1e-5,
        tie_word_embeddings=rng.random() < 0.4, num_local_experts=experts,
        num_experts_per_tok=rng.randint(1, experts), sliding_window=rng.choice([None, 6]),
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def qwen2_moe(rng):
    groups, queries = rng.choice([1, 2]), rng.choice([1, 2])
    heads = groups * queries
    experts, layers = rng.choice([2, 4, 8]), rng.randint(1, 3)
    return transformers.Qwen2MoeConfig(
        vocab_size=rng.randint(40, 150), max_position_embeddings=rng.choice([32, 64]),
        hidden_size=heads * rng.choice([4, 8, 16]), intermediate_size=rng.choice([16, 24]),
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups,
        rms_norm_eps=1e-5, tie_word_embeddings=rng.random() < 0.4, num_experts=experts,
        num_experts_per_tok=rng.randint(1, experts), moe_intermediate_size=rng.choice([8, 20]),
        shared_expert_intermediate_size=rng.choice([12, 16]),
        norm_topk_prob=rng.random() < 0.5, decoder_sparse_step=rng.randint(1, layers),
        mlp_only_layers=[0] if layers == 3 and rng.random() < 0.3 else [],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def qwen3_moe(rng):
    experts, layers = rng.choice([2, 4, 8]), rng.randint(1, 3)
    config = llama_like(
        rng, transformers.Qwen3MoeConfig, num_experts=experts,
        num_experts_per_tok=rng.randint(1, experts), moe_intermediate_size=rng.choice([8, 20]),
        norm_topk_prob=rng.random() < 0.5, use_sliding_window=rng.random() < 0.3, sliding_window=8)
    config.num_hidden_layers = layers
    config.decoder_sparse_step = rng.randint(1, layers)
    config.mlp_only_layers = [0] if layers == 3 and rng.random() < 0.3 else []
    return config


def qwen3_next(rng):
    layers, groups = rng.randint(1, 4), rng.choice([1, 2, 3])
    experts = rng.choice([2, 4, 8])
    config = llama_like(
        rng, transformers.Qwen3NextConfig, num_experts=experts,
        num_experts_per_tok=rng.randint(1, experts), moe_intermediate_size=rng.choice([8, 20]),
        shared_expert_intermediate_size=rng.choice([12, 16]), norm_topk_prob=rng.random() < 0.5,
        linear_num_key_heads=groups, linear_num_value_heads=groups * rng.choice([1, 2, 3]),
        linear_key_head_dim=rng.choice([4, 8, 12]), linear_value_head_dim=rng.choice([4, 8, 20]),
        linear_conv_kernel_dim=rng.choice([2, 3, 4]))
    config.num_hidden_layers, config.head_dim = layers, rng.choice([8, 16])
    config.decoder_sparse_step = rng.randint(1, layers)
    config.mlp_only_layers = [0] if layers >= 3 and rng.random() < 0.3 else []
    config.rope_parameters["partial_rotary_factor"] = rng.choice([0.25, 0.5, 1.0])
    # transformers generates only with a layer of full attention.
    kinds = ["linear_attention", "full_attention"]
    config.layer_types = [rng.choice(kinds) for _ in range(layers - 1)] + [kinds[1]]
    rng.shuffle(config.layer_types)
    return config


def llama4(rng):
    experts, positions = rng.choice([2, 4, 8]), rng.choice([32, 64])
    scaled = rope(rng, positions)
    while scaled["rope_type"] == "yarn":  # its factor on queries and keys is lost in their norm
        scaled = rope(rng, positions)
    config = llama_like(
        rng, transformers.Llama4TextConfig, rope_parameters=scaled,
        intermediate_size_mlp=rng.choice([16, 40]), num_local_experts=experts,
        num_experts_per_tok=rng.choice([1, 1, 2]), attention_chunk_size=rng.choice([5, 9, 64]),
        floor_scale=rng.choice([3, 8]), attn_scale=rng.choice([0.1, 0.5]),
        attn_temperature_tuning=rng.random() < 0.8, use_qk_norm=rng.random() < 0.7)
    layers = config.num_hidden_layers = rng.randint(1, 4)
    config.no_rope_layers = [rng.choice([1, 1, 0]) for _ in range(layers)]
    config.moe_layers = [layer for layer in range(layers) if rng.random() < 0.6]
    config.layer_types = ["chunked_attention" if with_rope or rng.random() < 0.2
                          else "full_attention" for with_rope in config.no_rope_layers]
    return config


def hybrid_layers(rng, config):
    """Sizes of linear attention in some layers, and full attention in at least one of them."""
    groups = rng.choice([1, 2, 3])
    config.linear_num_key_heads = groups
    config.linear_num_value_heads = groups * rng.choice([1, 2, 3])
    config.linear_key_head_dim = rng.choice([4, 8, 12])
    config.linear_value_head_dim = rng.choice([4, 8, 20])
    config.linear_conv_kernel_dim = rng.choice([2, 3, 4])
    config.num_hidden_layers, config.head_dim = rng.randint(1, 4), rng.choice([8, 16])
    config.rope_parameters["partial_rotary_factor"] = rng.choice([0.25, 0.5, 1.0])
    config.rope_parameters["mrope_section"] = [1, 1, 1]
    kinds = ["linear_attention", "full_attention"]
    config.layer_types = [rng.choice(kinds) for _ in range(config.num_hidden_layers - 1)] + [kinds[1]]
    rng.shuffle(config.layer_types)
    return config


def qwen3_5(rng):
    return hybrid_layers(rng, llama_like(rng, transformers.Qwen3_5TextConfig))


def qwen3_5_moe(rng):
    experts = rng.choice([2, 4, 8])
    return hybrid_layers(rng, llama_like(
        rng, transformers.Qwen3_5MoeTextConfig, num_experts=experts,
        num_experts_per_tok=rng.randint(1, experts), moe_intermediate_size=rng.choice([8, 20]),
        shared_expert_intermediate_size=rng.choice([12, 16])))


def olmoe(rng):
    experts = rng.choice([2, 4, 8])
    config = llama_like(rng, transformers.OlmoeConfig, num_experts=experts,
                        num_experts_per_tok=rng.randint(1, experts),
                        norm_topk_prob=rng.random() < 0.5)
    del config.head_dim  # the norms of OLMoE have the default width of its heads
    config.hidden_size = config.num_attention_heads * rng.choice([4, 8, 16])
    return config


def deepseek_v3(rng):
    heads, layers, positions = rng.choice([1, 2, 3]), rng.randint(1, 3), rng.choice([32, 64])
    nope, rotated = rng.choice([4, 8, 12]), rng.choice([2, 4, 8])
    groups = rng.choice([1, 2, 4])
    scaling = rng.choice([
        {"rope_type": "default"},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": positions // 2,
         "mscale": rng.choice([1.0, 0.7]), "mscale_all_dim": rng.choice([1.0, 0.6])},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": positions // 2}])
    return transformers.DeepseekV3Config(
        vocab_size=rng.randint(40, 150), max_position_embeddings=positions,
        hidden_size=rng.choice([16, 24, 40]), intermediate_size=rng.choice([16, 24, 56]),
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads,
        q_lora_rank=rng.choice([None, 8, 12]), kv_lora_rank=rng.choice([6, 16]),
        qk_nope_head_dim=nope, qk_rope_head_dim=rotated,
        v_head_dim=rng.choice([4, nope, nope + rotated]), n_routed_experts=8, n_group=groups,
        topk_group=1 if groups == 1 else 2, num_experts_per_tok=4,
        moe_intermediate_size=rng.choice([8, 20]), n_shared_experts=rng.choice([1, 2]),
        first_k_dense_replace=rng.randint(0, layers), norm_topk_prob=rng.random() < 0.7,
        rms_norm_eps=rng.choice([1e-6, 1e-5, 1e-2]),
        routed_scaling_factor=rng.choice([1.0, 2.5]), tie_word_embeddings=rng.random() < 0.4,
        num_nextn_predict_layers=0, rope_parameters={"rope_theta": 10000.0, **scaling})


def biased(rng):
    bias = rng.random() < 0.3
    return {"attention_bias": bias, "mlp_bias": bias}


def layer_types(rng, config):
    """Sliding windows in randomly chosen layers, at least one of them."""
    kinds = [rng.choice(["sliding_attention", "full_attention"])
             for _ in range(config.num_hidden_layers)]
    kinds[rng.randrange(len(kinds))] = "sliding_attention"
    return kinds


def smollm3(rng):
    config = llama_like(rng, transformers.SmolLM3Config, **biased(rng), pad_token_id=0)
    config.no_rope_layers = [rng.randint(0, 1) for _ in range(config.num_hidden_layers)]
    config.no_rope_layers[0] = 0  # at least one layer: otherwise it would be a plain Llama
    config.layer_types = ["full_attention"] * config.num_hidden_layers
    if rng.random() < 0.4:
        config.use_sliding_window, config.sliding_window = True, rng.choice([5, 9])
        config.layer_types = layer_types(rng, config)
    return config


def exaone4(rng):
    config = llama_like(rng, transformers.Exaone4Config, sliding_window=rng.choice([5, 9]))
    config.layer_types = layer_types(rng, config)
    return config


def ministral(rng):
    config = llama_like(rng, transformers.MinistralConfig, sliding_window=rng.choice([5, 9]))
    config.num_hidden_layers = rng.randint(2, 4)
    config.layer_types = layer_types(rng, config)
    config.layer_types[rng.randrange(config.num_hidden_layers)] = "full_attention"
    return config


def ministral3(rng):
    config = llama_like(rng, transformers.Ministral3Config, sliding_window=rng.choice([None, 9]))
    config.rope_parameters = {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": rng.choice([2.0, 4.0]),
        "original_max_position_embeddings": rng.choice([4, 7]), "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": rng.choice([0.1, 0.3])}
    return config


def phi3(rng):
    config = llama_like(
        rng, transformers.Phi3Config, sliding_window=rng.choice([None, 7]), pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": rng.choice([0.5, 0.75])})
    config.head_dim = rng.choice([8, 16])
    return config


def phi3_longrope(rng):
    """Phi-3 with frequencies that depend on the length; texts are shorter or longer than 12."""
    head_dim, heads, share = rng.choice([8, 16]), rng.choice([1, 2, 4]), rng.choice([0.5, 0.75, 1.0])
    pairs = int(head_dim * share) // 2
    return transformers.Phi3Config(
        vocab_size=rng.randint(40, 150), max_position_embeddings=rng.choice([32, 64]),
        original_max_position_embeddings=12, hidden_size=heads * head_dim,
        intermediate_size=rng.choice([16, 24, 56]), num_hidden_layers=rng.randint(1, 3),
        num_attention_heads=heads, num_key_value_heads=rng.choice([1, heads]),
        rms_norm_eps=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.4,
        sliding_window=rng.choice([None, 64]), pad_token_id=0,
        rope_parameters={
            "rope_type": "longrope", "rope_theta": rng.choice([500.0, 10000.0]),
            "partial_rotary_factor": share,
            "short_factor": [rng.uniform(0.8, 1.5) for _ in range(pairs)],
            "long_factor": [rng.uniform(1, 8) for _ in range(pairs)],
            **rng.choice([{}, {"factor": 8.0}, {"attention_factor": 1.3}])})


def by_layer_type(rng, config, positions):
    """Rotary parameters of layers without a window, scaled or not, and of those with one."""
    full = rng.choice([
        {"rope_type": "default"}, {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": positions // 2,
         "attention_factor": 1.2}])
    config.rope_parameters = {
        "full_attention": {"rope_theta": rng.choice([5e5, 1e6]), **full},
        "sliding_attention": {"rope_type": "default", "rope_theta": rng.choice([1e4, 5e5])}}
    return config


def olmo3(rng):
    config = llama_like(rng, transformers.Olmo3Config, sliding_window=rng.choice([5, 9]))
    del config.head_dim
    config.hidden_size = config.num_attention_heads * rng.choice([4, 8, 16])
    config.layer_types = layer_types(rng, config)
    return by_layer_type(rng, config, config.max_position_embeddings)


def gemma3(rng):
    config = llama_like(
        rng, transformers.Gemma3TextConfig, sliding_window=rng.choice([5, 9]),
        query_pre_attn_scalar=rng.choice([4, 8, 144]),
        final_logit_softcapping=rng.choice([None, 2.0]))
    config.layer_types = layer_types(rng, config)
    return by_layer_type(rng, config, config.max_position_embeddings)


def glm(rng, config=transformers.GlmConfig):
    config = llama_like(rng, config, attention_bias=rng.random() < 0.5, pad_token_id=0)
    config.head_dim = rng.choice([8, 16])
    config.rope_parameters["partial_rotary_factor"] = rng.choice([0.5, 0.75])
    return config


def glm4(rng):
    return glm(rng, transformers.Glm4Config)


def granite(rng):
    config = llama_like(
        rng, transformers.GraniteConfig, **biased(rng), embedding_multiplier=rng.choice([3.0, 12.0]),
        residual_multiplier=rng.choice([0.22, 0.5]), attention_multiplier=rng.choice([0.1, 0.4]),
        logits_scaling=rng.choice([1.0, 3.0, 8.0]))
    return config


def granite_hybrid(rng):
    like = llama_like(rng, transformers.LlamaConfig)
    expand = rng.choice([1, 2])
    heads = rng.choice([n for n in (1, 2, 3, 4, 6) if expand * like.hidden_size % n == 0])
    layers, experts = rng.randint(1, 4), rng.choice([0, 0, 2, 4])
    # transformers cannot generate without a layer of attention.
    kinds = [rng.choice(["linear_attention", "linear_attention", "full_attention"])
             for _ in range(layers - 1)] + ["full_attention"]
    rng.shuffle(kinds)
    return transformers.GraniteMoeHybridConfig(
        vocab_size=like.vocab_size, max_position_embeddings=like.max_position_embeddings,
        hidden_size=like.hidden_size, head_dim=like.head_dim, num_hidden_layers=layers,
        num_attention_heads=like.num_attention_heads,
        num_key_value_heads=like.num_key_value_heads, rms_norm_eps=like.rms_norm_eps,
        tie_word_embeddings=like.tie_word_embeddings, rope_parameters=like.rope_parameters,
        position_embedding_type=rng.choice([None, None, "nope", "rope"]),
        shared_intermediate_size=like.intermediate_size, intermediate_size=rng.choice([8, 20]),
        num_local_experts=experts, num_experts_per_tok=rng.randint(1, max(1, experts)),
        layer_types=kinds,
        mamba_expand=expand, mamba_n_heads=heads, mamba_d_head=expand * like.hidden_size // heads,
        mamba_n_groups=rng.choice([n for n in (1, 2, 3) if heads % n == 0]),
        mamba_d_state=rng.choice([4, 7, 16]), mamba_d_conv=rng.choice([2, 3, 4]),
        mamba_conv_bias=rng.random() < 0.7, mamba_chunk_size=rng.choice([8, 64, 256]),
        embedding_multiplier=rng.choice([1.0, 3.0]), residual_multiplier=rng.choice([1.0, 0.22]),
        attention_multiplier=rng.choice([1.0, 0.3]), logits_scaling=rng.choice([1.0, 4.0]))


def nemotron_h(rng):
    like = llama_like(rng, transformers.LlamaConfig)
    heads, groups = rng.choice([1, 2, 3, 4, 6]), rng.choice([1, 2, 4])
    # transformers cannot generate without a layer of attention; we refuse models without any MLP.
    kinds = [rng.choice(["linear_attention", "full_attention", "mlp", "moe"])
             for _ in range(rng.randint(0, 5))]
    kinds += ["full_attention", rng.choice(["mlp", "moe"])]
    rng.shuffle(kinds)
    return transformers.NemotronHConfig(
        vocab_size=like.vocab_size, max_position_embeddings=like.max_position_embeddings,
        hidden_size=like.hidden_size, head_dim=like.head_dim, layers_block_type=kinds,
        num_attention_heads=like.num_attention_heads,
        num_key_value_heads=like.num_key_value_heads, layer_norm_epsilon=like.rms_norm_eps,
        intermediate_size=like.intermediate_size,
        mlp_hidden_act=rng.choice(["relu2", "relu2", "silu", "gelu"]),
        mamba_num_heads=heads, mamba_head_dim=rng.choice([4, 7, 16]),
        n_groups=rng.choice([n for n in (1, 2, 3) if heads % n == 0]),
        ssm_state_size=rng.choice([4, 7, 16]), conv_kernel=rng.choice([2, 3, 4]),
        use_conv_bias=rng.random() < 0.7, chunk_size=rng.choice([8, 64, 256]),
        time_step_min=1e-30,  # bounds time steps, only over whole sequences: see docs/training.md
        n_routed_experts=8, num_experts_per_tok=4, n_group=groups,
        topk_group=1 if groups == 1 else 2, moe_intermediate_size=rng.choice([8, 20]),
        moe_shared_expert_intermediate_size=rng.choice([12, 16]),
        norm_topk_prob=rng.random() < 0.7, routed_scaling_factor=rng.choice([1.0, 2.5]))


def arcee(rng):
    return llama_like(rng, transformers.ArceeConfig, **biased(rng))


def deepseek_experts(rng, layers):
    groups = rng.choice([1, 2, 4])
    return dict(n_routed_experts=8, n_group=groups, topk_group=1 if groups == 1 else 2,
                num_experts_per_tok=4, moe_intermediate_size=rng.choice([8, 20]),
                n_shared_experts=rng.choice([1, 2]), first_k_dense_replace=rng.randint(0, layers - 1),
                norm_topk_prob=rng.random() < 0.7, routed_scaling_factor=rng.choice([1.0, 2.5]))


def glm4_moe(rng):
    layers = rng.randint(1, 3)
    config = llama_like(rng, transformers.Glm4MoeConfig, **deepseek_experts(rng, layers),
                        attention_bias=rng.random() < 0.5, use_qk_norm=rng.random() < 0.5)
    config.head_dim = rng.choice([8, 16])
    config.num_hidden_layers, config.num_mtp_layers = layers, 0
    config.rope_parameters["partial_rotary_factor"] = rng.choice([0.5, 0.75])
    return config


def dots1(rng):
    layers = rng.randint(1, 3)
    config = llama_like(rng, transformers.Dots1Config, **deepseek_experts(rng, layers),
                        sliding_window=9)
    config.num_hidden_layers = layers
    config.layer_types = layer_types(rng, config)
    return config


def gpt_oss(rng):
    experts = rng.choice([2, 4, 8])
    config = llama_like(
        rng, transformers.GptOssConfig, num_local_experts=experts,
        num_experts_per_tok=rng.randint(1, experts), sliding_window=rng.choice([5, 9]),
        swiglu_limit=rng.choice([0.3, 7.0]), swiglu_alpha=rng.choice([1.0, 1.702]),
        attention_bias=rng.random() < 0.7, attn_implementation="eager")
    if rng.random() < 0.5:
        config.layer_types = layer_types(rng, config)
    return config


def bert(rng, config=transformers.BertConfig):
    heads = rng.choice([1, 2, 4])
    return config(
        vocab_size=rng.randint(40, 150), max_position_embeddings=rng.choice([32, 48]),
        hidden_size=heads * rng.choice([4, 8, 16]), num_hidden_layers=rng.randint(1, 3),
        num_attention_heads=heads, intermediate_size=rng.choice([16, 24, 56]),
        hidden_act=rng.choice(["gelu", "gelu_new"]), layer_norm_eps=rng.choice([1e-12, 1e-6]))


def megatron_bert(rng):
    return bert(rng, transformers.MegatronBertConfig)


KINDS = {
    "gpt2": (gpt2, transformers.GPT2LMHeadModel),
    "bloom": (bloom, transformers.BloomForCausalLM),
    "gemma": (gemma, transformers.GemmaForCausalLM),
    "gemma2": (gemma2, transformers.Gemma2ForCausalLM),
    "llama": (llama, transformers.LlamaForCausalLM),
    "mistral": (mistral, transformers.MistralForCausalLM),
    "qwen2": (qwen2, transformers.Qwen2ForCausalLM),
    "qwen3": (qwen3, transformers.Qwen3ForCausalLM),
    "olmo2": (olmo2, transformers.Olmo2ForCausalLM),
    "mixtral": (mixtral, transformers.MixtralForCausalLM),
    "qwen2_moe": (qwen2_moe, transformers.Qwen2MoeForCausalLM),
    "qwen3_moe": (qwen3_moe, transformers.Qwen3MoeForCausalLM),
    "qwen3_next": (qwen3_next, transformers.Qwen3NextForCausalLM),
    "llama4": (llama4, transformers.Llama4ForCausalLM),
    "qwen3_5": (qwen3_5, transformers.Qwen3_5ForCausalLM),
    "qwen3_5_moe": (qwen3_5_moe, transformers.Qwen3_5MoeForCausalLM),
    "olmoe": (olmoe, transformers.OlmoeForCausalLM),
    "deepseek_v3": (deepseek_v3, transformers.DeepseekV3ForCausalLM),
    "smollm3": (smollm3, transformers.SmolLM3ForCausalLM),
    "exaone4": (exaone4, transformers.Exaone4ForCausalLM),
    "ministral": (ministral, transformers.MinistralForCausalLM),
    "ministral3": (ministral3, transformers.Ministral3ForCausalLM),
    "phi3": (phi3, transformers.Phi3ForCausalLM),
    "phi3_longrope": (phi3_longrope, transformers.Phi3ForCausalLM),
    "olmo3": (olmo3, transformers.Olmo3ForCausalLM),
    "gemma3": (gemma3, transformers.Gemma3ForCausalLM),
    "glm": (glm, transformers.GlmForCausalLM),
    "glm4": (glm4, transformers.Glm4ForCausalLM),
    "granite": (granite, transformers.GraniteForCausalLM),
    "granite_hybrid": (granite_hybrid, transformers.GraniteMoeHybridForCausalLM),
    "nemotron_h": (nemotron_h, transformers.NemotronHForCausalLM),
    "arcee": (arcee, transformers.ArceeForCausalLM),
    "glm4_moe": (glm4_moe, transformers.Glm4MoeForCausalLM),
    "dots1": (dots1, transformers.Dots1ForCausalLM),
    "gpt_oss": (gpt_oss, transformers.GptOssForCausalLM),
    "bert": (bert, transformers.BertForPreTraining),
    "megatron_bert": (megatron_bert, transformers.MegatronBertForPreTraining),
    "masked_bert": (bert, transformers.BertForMaskedLM),
    "masked_megatron_bert": (megatron_bert, transformers.MegatronBertForMaskedLM),
}


def make_model(kind, rng):
    """Returns a model with random weights everywhere, norms and biases included."""
    config, model_class = KINDS[kind]
    torch.manual_seed(rng.randrange(2**31))
    model = model_class(config(rng)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.add_(0.1 * torch.randn_like(buffer))
    return model


def random_lines(rng, model, count=5):
    """Returns lines of IDs of different lengths."""
    config = model.config
    return [[rng.randrange(config.vocab_size) for _ in range(rng.randint(1, 24))]
            for _ in range(count)]
