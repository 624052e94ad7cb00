"""Writes tiny random models with the reference implementation (needs torch and transformers):
hf/<name>/{config.json,model.safetensors} and hf/<name>/golden.json with inputs and logits.
Names of models as arguments: only those."""
import json
import shutil
import sys
from pathlib import Path

import torch
import transformers as tf

HERE = Path(__file__).parent / "hf"


def llama(**rope):
    return tf.LlamaForCausalLM(
        tf.LlamaConfig(vocab_size=61, max_position_embeddings=96, hidden_size=16,
                       intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                       head_dim=16, tie_word_embeddings=True, **rope))


MODELS = {
    "gpt2": lambda: tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=61, n_positions=24, n_embd=16, n_layer=2, n_head=4)),
    "llama": lambda: tf.LlamaForCausalLM(
        tf.LlamaConfig(vocab_size=61, max_position_embeddings=24, hidden_size=16,
                       intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5,
                       rope_theta=5000.0)),
    "llama_tied": lambda: tf.LlamaForCausalLM(
        tf.LlamaConfig(vocab_size=61, max_position_embeddings=24, hidden_size=16,
                       intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                       attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "bert": lambda: tf.BertForPreTraining(
        tf.BertConfig(vocab_size=61, max_position_embeddings=24, hidden_size=16,
                      intermediate_size=24, num_hidden_layers=2, num_attention_heads=4)),
    "megatron_bert": lambda: tf.MegatronBertForPreTraining(
        tf.MegatronBertConfig(vocab_size=61, max_position_embeddings=24, hidden_size=16,
                              intermediate_size=24, num_hidden_layers=2, num_attention_heads=4)),
    # Of the eight frequencies, one is kept, one is interpolated, and six are divided.
    "llama3_rope": lambda: llama(rope_theta=500.0, rope_scaling={
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
        "original_max_position_embeddings": 24}),
    "linear_rope": lambda: llama(rope_theta=500.0, rope_scaling={
        "rope_type": "linear", "factor": 2.5}),
    "phi3_longrope": lambda: tf.Phi3ForCausalLM(
        tf.Phi3Config(vocab_size=61, max_position_embeddings=96, hidden_size=16,
                      original_max_position_embeddings=24, intermediate_size=24,
                      num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                      tie_word_embeddings=True, pad_token_id=0, eos_token_id=None,
                      rope_parameters={
                          "rope_type": "longrope", "rope_theta": 500.0,
                          "partial_rotary_factor": 0.5, "short_factor": [1.0, 0.9],
                          "long_factor": [1.5, 6.0]})),
    "qwen3_5": lambda: tf.Qwen3_5ForCausalLM(
        tf.Qwen3_5TextConfig(vocab_size=61, max_position_embeddings=96, hidden_size=16,
                             intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                             num_key_value_heads=1, head_dim=8, linear_num_key_heads=2,
                             linear_num_value_heads=4, linear_key_head_dim=3,
                             linear_value_head_dim=5, eos_token_id=None,
                             rope_parameters={"rope_type": "default", "rope_theta": 500.0,
                                              "partial_rotary_factor": 0.5},
                             layer_types=["linear_attention", "full_attention"])),
    # Texts span several chunks; the second layer has experts and no positions.
    "llama4": lambda: tf.Llama4ForCausalLM(
        tf.Llama4TextConfig(vocab_size=61, max_position_embeddings=96, hidden_size=16,
                            intermediate_size=12, intermediate_size_mlp=20, num_hidden_layers=2,
                            num_attention_heads=2, num_key_value_heads=1, head_dim=8,
                            num_local_experts=3, interleave_moe_layer_step=2,
                            no_rope_layers=[1, 0], attention_chunk_size=7, floor_scale=10,
                            attn_scale=0.4, eos_token_id=None,
                            rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    "granite_hybrid": lambda: tf.GraniteMoeHybridForCausalLM(
        tf.GraniteMoeHybridConfig(vocab_size=61, max_position_embeddings=96, hidden_size=16,
                                  intermediate_size=12, shared_intermediate_size=20,
                                  num_hidden_layers=2, num_attention_heads=2,
                                  num_key_value_heads=1, num_local_experts=3, mamba_n_heads=4,
                                  mamba_n_groups=2, mamba_d_head=8, mamba_d_state=6,
                                  attention_multiplier=0.3, embedding_multiplier=2.0,
                                  residual_multiplier=0.5, logits_scaling=0.5, eos_token_id=None,
                                  layer_types=["linear_attention", "full_attention"])),
    # time_step_min bounds time steps in the logits, but not in generation: as good as no bound.
    "nemotron_h": lambda: tf.NemotronHForCausalLM(
        tf.NemotronHConfig(vocab_size=61, max_position_embeddings=96, hidden_size=16,
                           intermediate_size=20, num_attention_heads=2, num_key_value_heads=1,
                           head_dim=8, mamba_num_heads=4, mamba_head_dim=6, n_groups=2,
                           ssm_state_size=6, time_step_min=1e-30, n_routed_experts=4,
                           moe_intermediate_size=12, moe_shared_expert_intermediate_size=8,
                           routed_scaling_factor=2.5, eos_token_id=None,
                           layers_block_type=["linear_attention", "mlp", "full_attention", "moe"])),
}


def spell_as_before(path):
    """Renames the rotary keys as transformers wrote them before version 5."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def golden_of_several_lengths(model):
    """Lines below and above the original length of scaled positions, and text that goes from one
    to the other."""
    lines = [torch.randint(0, 61, (1, length)) for length in (24, 40, 25)]
    with torch.no_grad():
        prompt = lines[0][:, :20]  # whose padding tokens are tokens like any other
        text = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                              max_new_tokens=12)
        return {"ids": [line[0].tolist() for line in lines],
                "logits": [model(line).logits[0].tolist() for line in lines],
                "generated": text[0].tolist()}


def write_golden(folder, golden):
    text = json.dumps(rounded(golden), separators=(",", ":"))
    (folder / "golden.json").write_text(text + "\n")


def main():
    for number, (name, build) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(number)
        model = build().eval()
        for parameter in model.parameters():  # large enough that every part affects the logits
            with torch.no_grad():
                parameter.add_(0.2 * torch.randn_like(parameter))
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        if name in ("linear_rope", "phi3_longrope"):
            spell_as_before(folder / "config.json")
        if name in ("phi3_longrope", "qwen3_5", "llama4", "granite_hybrid", "nemotron_h"):
            write_golden(folder, golden_of_several_lengths(model))
            continue
        # Scaled positions go beyond the length before scaling.
        ids = torch.randint(0, 61, (1, 40) if "rope" in name else (2, 20))
        golden = {"ids": ids.tolist()}
        with torch.no_grad():
            if "bert" in name:
                types = torch.tensor([[0] * 9 + [1] * 11, [0] * 15 + [1] * 5])
                out = model(input_ids=ids, token_type_ids=types)
                golden["token_types"] = types.tolist()
                golden["logits"] = out.prediction_logits.tolist()
                golden["order_logits"] = out.seq_relationship_logits.tolist()
            else:
                golden["logits"] = model(ids).logits.tolist()
        write_golden(folder, golden)


main()
