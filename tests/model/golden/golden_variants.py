"""The models and optimizers of the golden runs, and how long they are."""

BATCH, SEQ, VOCAB, BATCHES, STEPS, PROJECTIONS = 4, 16, 61, 4, 20, 8

OPTIMIZER = dict(name="adamw", beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01,
                 clip_grad=1.0)
MUON = dict(OPTIMIZER, name="muon", muon_momentum=0.95, muon_nesterov=True, muon_steps=5,
            muon_coefficients="simple", muon_scale="match_rms", muon_lr=2e-2)
MEGATRON_MUON = dict(MUON, muon_momentum=0.9, muon_nesterov=False, muon_coefficients="quintic",
                     muon_scale="spectral", muon_lr=2e-3)
LION = dict(OPTIMIZER, name="lion", lion_beta1=0.9, lion_beta2=0.99, weight_decay=0.1)

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
# Norms after attention and MLP and over all heads (OLMo 2), normalized heads with experts (Qwen3-MoE),
# and attention to the five newest positions (Mistral).
OLMO2 = dict(LLAMA, norm_placement="output", qk_norm=True, qk_norm_over="all_heads")
QWEN3_MOE = dict(LLAMA, qk_norm=True, qk_norm_over="head",
                 moe=dict(MOE, normalize_weights=False, first_layer=1, aux_loss_coeff=0.02))
WINDOW = dict(LLAMA, attention_window=5)
# Slopes instead of positions, six heads for more than a power of two, and a norm after the embedding
# (BLOOM); a scaled embedding, 1 + weight in norms and GELU in the gate (Gemma).
BLOOM = dict(GPT, hidden_size=48, num_heads=6, num_kv_heads=6, ffn_hidden_size=192, position="alibi",
             embedding_norm=True)
GEMMA = dict(LLAMA, activation="geglu", zero_centered_norms=True, scale_embedding=True,
             tie_embeddings=True)
# Norms before and after, caps that scores and logits come near, another scale of scores, and a window in
# the first layer (Gemma 2).
GEMMA2 = dict(GEMMA, norm_placement="both", attention_soft_cap=1.5, logit_soft_cap=3.0,
              attention_scale=0.5, attention_window=5, window_layers=[0])
# Products in 8 bits. Wider than a block of 128, and no multiple of it. All tokens count: gradients in
# another unit would be rounded by other scales.
FP8 = dict(format="e4m3", encoding="ocp", power_of_2_scales=True, first_layers_bf16=0, last_layers_bf16=0)
WIDE = dict(hidden_size=160, ffn_hidden_size=200)
FP8_TENSORWISE = dict(LLAMA, **WIDE, fp8=dict(FP8, recipe="tensorwise", format="hybrid",
                                              power_of_2_scales=False))
FP8_BLOCKWISE = dict(LLAMA, **WIDE, fp8=dict(FP8, recipe="blockwise"))
FP8_FNUZ = dict(GPT, **WIDE, num_layers=3, fp8=dict(FP8, recipe="blockwise", format="hybrid", encoding="fnuz",
                                                    first_layers_bf16=1))
# Experts, whose rows share scales, and a shared one.
FP8_EXPERTS = dict(LLAMA, **WIDE, fp8=FP8_TENSORWISE["fp8"], moe=dict(
    MOE, num_experts=4, ffn_hidden_size=136, first_layer=1, shared_ffn_hidden_size=48, aux_loss_coeff=0.02))
# Latent attention with both small norms, values narrower than keys and yarn's scales (DeepSeek-V3),
# without its way down for queries in a dense model; residual experts with a balance over the batch.
LATENT = dict(LLAMA, num_kv_heads=4, kv_lora_rank=12, q_lora_rank=20, qk_nope_head_dim=8,
              qk_rope_head_dim=4, v_head_dim=6, rope_scaling="yarn", rope_scaling_factor=4.0,
              rope_original_length=8, rope_attention_factor=1.1, attention_scale=0.4)
DEEPSEEK = dict(LATENT, moe=dict(GROUPS["moe"], aux_loss="sequence"))
LATENT_DENSE = dict(LATENT, q_lora_rank=0, v_head_dim=12, rope_scaling="none", attention_scale=0.0)
RESIDUAL = dict(LLAMA, moe=dict(MOE, top_k=1, normalize_weights=False, shared_ffn_hidden_size=40,
                                residual=True, aux_loss="global", aux_loss_coeff=0.02))
SOME_WINDOWS = dict(WINDOW, window_layers=[1])
VARIANTS = {  # model, whether some tokens do not count, optimizer
    "experts": (MIXTRAL, True),
    "experts_in_groups": (GROUPS, False),
    "experts_with_capacity": (CAPACITY, False),
    "experts_residual": (RESIDUAL, False),
    "deepseek": (DEEPSEEK, True),
    "llama_latent": (LATENT_DENSE, False),
    "llama_some_windows": (SOME_WINDOWS, False),
    "bert": (BERT, True),
    "bert_post": (dict(BERT, norm_placement="post"), True),
    "bloom": (BLOOM, True),
    "gemma": (GEMMA, False),
    "gemma2": (GEMMA2, True),
    "gpt": (GPT, False),
    "gpt_gelu_erf": (dict(GPT, activation="gelu_erf"), False),
    "gpt_masked": (GPT, True),
    "llama": (LLAMA, False),
    "llama_masked": (LLAMA, True),
    "llama_window": (WINDOW, True),
    "olmo2": (OLMO2, False),
    "qwen3_moe": (QWEN3_MOE, False),
    "fp8_tensorwise": (FP8_TENSORWISE, False),
    "fp8_blockwise": (FP8_BLOCKWISE, False),
    "fp8_fnuz": (FP8_FNUZ, False),
    "fp8_experts": (FP8_EXPERTS, False),
    "llama_muon": (LLAMA, False, MUON),
    "gpt_muon": (GPT, False, MEGATRON_MUON),
    "gpt_lion": (GPT, False, LION),
}
