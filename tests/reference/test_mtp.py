"""Multi-token prediction: models with modules, written out here in PyTorch, trained 20 steps in
fp64 there and here: every loss and every weight agrees, and files come back as they were."""
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from test_training import (BATCH, OPTIMIZERS, STEPS, model_section, optimizer_settings, run_file)

LOSS_SCALE = 0.3
LAYERS, HIDDEN, VOCAB, SEQ, EXPERTS, TOP, WIDTH = 3, 24, 61, 16, 8, 2, 12
COMMON = dict(
    vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=4,
    intermediate_size=40, hidden_act="silu", max_position_embeddings=SEQ, rms_norm_eps=1e-6,
    rope_theta=10000.0, attention_bias=False, first_k_dense_replace=1, n_routed_experts=EXPERTS,
    num_experts_per_tok=TOP, moe_intermediate_size=WIDTH, n_shared_experts=1, norm_topk_prob=True,
    routed_scaling_factor=1.5, topk_method="noaux_tc", scoring_func="sigmoid")
CONFIGS = {
    "deepseek_v3": dict(
        COMMON, architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3",
        num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=8, qk_nope_head_dim=6,
        qk_rope_head_dim=4, v_head_dim=6, n_group=4, topk_group=1, tie_word_embeddings=False,
        num_nextn_predict_layers=1),
    "glm4_moe": dict(
        COMMON, architectures=["Glm4MoeForCausalLM"], model_type="glm4_moe",
        num_key_value_heads=2, head_dim=8, n_group=1, topk_group=1, partial_rotary_factor=0.5,
        use_qk_norm=True, tie_word_embeddings=False, num_nextn_predict_layers=2),
}


def rms(x, weight, eps=1e-6):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def turn(x, pairs, interleaved):
    """x: [batch, heads, positions, dimensions], of which the first 2 * pairs are turned."""
    angles = torch.outer(torch.arange(x.shape[2], dtype=x.dtype),
                         10000.0 ** (-torch.arange(pairs, dtype=x.dtype) / pairs))
    part, rest = x[..., :2 * pairs], x[..., 2 * pairs:]
    a, b = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


class Model:
    """`weights` has the names of the files; modules are layers after the last one."""

    def __init__(self, config, weights):
        self.c, self.w = config, weights

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T

    def norm(self, x, name):
        return rms(x, self.w[name + ".weight"])

    def heads(self, x, count):
        return x.unflatten(-1, (count, -1)).transpose(1, 2)

    def latent_heads(self, x, name):
        c = self.c
        rope, plain = c["qk_rope_head_dim"], c["qk_nope_head_dim"]
        query = self.norm(self.linear(x, name + "q_a_proj"), name + "q_a_layernorm")
        query = self.heads(self.linear(query, name + "q_b_proj"), 4)
        latent, key_rope = self.linear(x, name + "kv_a_proj_with_mqa").split(
            [c["kv_lora_rank"], rope], -1)
        latent = self.norm(latent, name + "kv_a_layernorm")
        key, value = self.heads(self.linear(latent, name + "kv_b_proj"), 4).split(
            [plain, c["v_head_dim"]], -1)
        key_rope = turn(key_rope[:, None], rope // 2, True).expand(-1, 4, -1, -1)
        query = torch.cat([turn(query[..., plain:], rope // 2, True), query[..., :plain]], -1)
        return query, torch.cat([key_rope, key], -1), value

    def grouped_heads(self, x, name):
        query = rms(self.heads(self.linear(x, name + "q_proj"), 4), self.w[name + "q_norm.weight"])
        key = rms(self.heads(self.linear(x, name + "k_proj"), 2), self.w[name + "k_norm.weight"])
        value = self.heads(self.linear(x, name + "v_proj"), 2)
        repeated = (part.repeat_interleave(2, 1) for part in (turn(key, 2, False), value))
        return turn(query, 2, False), *repeated

    def attention(self, x, name):
        heads = self.latent_heads if "kv_lora_rank" in self.c else self.grouped_heads
        query, key, value = heads(x, name)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        return self.linear((scores.softmax(-1) @ value).transpose(1, 2).flatten(2), name + "o_proj")

    def mlp(self, x, name):
        made = F.silu(self.linear(x, name + "gate_proj")) * self.linear(x, name + "up_proj")
        return self.linear(made, name + "down_proj")

    def experts(self, x, name):
        scores = self.linear(x, name + "gate").sigmoid()
        choice = scores.detach() + self.w[name + "gate.e_score_correction_bias"]
        groups = choice.unflatten(-1, (self.c["n_group"], -1))
        best = groups.topk(2, -1).values.sum(-1).topk(self.c["topk_group"], -1).indices
        taken = torch.zeros_like(groups[..., 0]).scatter(-1, best, 1)[..., None].expand_as(groups)
        chosen = choice.masked_fill(taken.flatten(-2) == 0, -torch.inf).topk(TOP, -1).indices
        mask = torch.zeros_like(scores).scatter(-1, chosen, 1)
        weights = scores * mask
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        weights = weights * self.c["routed_scaling_factor"]
        made = sum(weights[..., e:e + 1] * self.mlp(x, f"{name}experts.{e}.")
                   for e in range(EXPERTS))
        return made + self.mlp(x, name + "shared_experts.")

    def block(self, x, name, dense):
        x = x + self.attention(self.norm(x, name + "input_layernorm"), name + "self_attn.")
        normed = self.norm(x, name + "post_attention_layernorm")
        return x + (self.mlp if dense else self.experts)(normed, name + "mlp.")

    def losses(self, samples):
        """The mean loss of the next token, then that of each further one."""
        tokens, targets = samples[:, :-1], samples[:, 1:]
        table, head = self.w["model.embed_tokens.weight"], self.w["lm_head.weight"]
        x = table[tokens]
        for layer in range(LAYERS):
            x = self.block(x, f"model.layers.{layer}.", layer < self.c["first_k_dense_replace"])
        state = self.norm(x, "model.norm")
        losses = [F.cross_entropy((state @ head.T).flatten(0, 1), targets.flatten())]
        for k in range(1, 1 + self.c["num_nextn_predict_layers"]):
            name = f"model.layers.{LAYERS + k - 1}."
            read = F.pad(targets[:, k - 1:], (0, k - 1))
            both = torch.cat([self.norm(table[read], name + "enorm"),
                              self.norm(state, name + "hnorm")], -1)
            x = self.block(self.linear(both, name + "eh_proj"), name, False)
            state = self.norm(x, name + "shared_head.norm")
            losses.append(F.cross_entropy((state[:, :-k] @ head.T).flatten(0, 1),
                                          targets[:, k:].flatten()))
        return losses


def shapes_of(config):
    """Names and shapes of the tensors of a file."""
    c, shapes = config, {"model.embed_tokens": (VOCAB, HIDDEN), "lm_head": (VOCAB, HIDDEN),
                         "model.norm": (HIDDEN,)}

    def mlp(name, width):
        shapes.update({name + "gate_proj": (width, HIDDEN), name + "up_proj": (width, HIDDEN),
                       name + "down_proj": (HIDDEN, width)})

    for layer in range(LAYERS + c["num_nextn_predict_layers"]):
        name = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[name + norm] = (HIDDEN,)
        if "kv_lora_rank" in c:
            q, kv, rope, plain, value = (c[key] for key in (
                "q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim",
                "v_head_dim"))
            parts = {"q_a_proj": (q, HIDDEN), "q_a_layernorm": (q,),
                     "q_b_proj": (4 * (plain + rope), q),
                     "kv_a_proj_with_mqa": (kv + rope, HIDDEN), "kv_a_layernorm": (kv,),
                     "kv_b_proj": (4 * (plain + value), kv), "o_proj": (HIDDEN, 4 * value)}
        else:
            parts = {"q_proj": (32, HIDDEN), "k_proj": (16, HIDDEN), "v_proj": (16, HIDDEN),
                     "q_norm": (8,), "k_norm": (8,), "o_proj": (HIDDEN, 32)}
        shapes.update({name + "self_attn." + part: shape for part, shape in parts.items()})
        if layer < c["first_k_dense_replace"]:
            mlp(name + "mlp.", c["intermediate_size"])
        else:
            shapes[name + "mlp.gate"] = (EXPERTS, HIDDEN)
            for e in range(EXPERTS):
                mlp(f"{name}mlp.experts.{e}.", WIDTH)
            mlp(name + "mlp.shared_experts.", WIDTH)
        if layer >= LAYERS:
            shapes.update({name + norm: (HIDDEN,) for norm in ("enorm", "hnorm",
                                                               "shared_head.norm")})
            shapes[name + "eh_proj"] = (HIDDEN, 2 * HIDDEN)
    return {name + ".weight": shape for name, shape in shapes.items()}


def random_weights(config, rng):
    torch.manual_seed(rng.randrange(1 << 30))
    weights = {}
    for name, shape in shapes_of(config).items():
        noise = torch.randn(shape, dtype=torch.float64) * 0.1
        weights[name] = 1 + noise if len(shape) == 1 else noise
        if name.endswith("mlp.gate.weight"):
            weights[name.replace("weight", "e_score_correction_bias")] = \
                torch.randn(EXPERTS, dtype=torch.float64) * 0.01
    return weights


def with_copies(config, weights):
    """What DeepSeek's files hold: each module with the tables that it shares."""
    copies = {}
    for module in range(config["num_nextn_predict_layers"]):
        name = f"model.layers.{LAYERS + module}."
        copies[name + "embed_tokens.weight"] = weights["model.embed_tokens.weight"].clone()
        copies[name + "shared_head.head.weight"] = weights["lm_head.weight"].clone()
    return {**weights, **copies}


def write_folder(folder, config, weights):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")


def train_in_pytorch(config, weights, samples, settings):
    trained = {n: w.clone().requires_grad_() for n, w in weights.items() if "correction" not in n}
    model = Model(config, {**weights, **trained})
    optimizer = OPTIMIZERS[settings["name"]](
        [dict(params=[p for p in trained.values() if p.dim() > 1],
              weight_decay=settings["weight_decay"]),
         dict(params=[p for p in trained.values() if p.dim() == 1], weight_decay=0.0)], settings)
    history = []
    for step in range(STEPS):
        batch = torch.tensor(samples[step * BATCH:(step + 1) * BATCH])
        losses = model.losses(batch)
        objective = losses[0]
        for k, loss in enumerate(losses[1:], 1):
            # Weights of losses are numbers of 32 bits.
            weight = np.float32(LOSS_SCALE / (len(losses) - 1) * SEQ / (SEQ - k))
            objective = objective + float(weight) * (SEQ - k) / SEQ * loss
        optimizer.zero_grad()
        objective.backward()
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in trained.values()))
        if settings["clip_grad"] > 0:
            for p in trained.values():
                p.grad *= min(1.0, settings["clip_grad"] / (norm.item() + 1e-6))
        optimizer.step()
        history.append([loss.item() for loss in losses])
    return history, {n: p.detach() for n, p in model.w.items()}


@pytest.mark.parametrize("kind", list(CONFIGS))
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_fp64_training_follows_pytorch(trireme, tmp_path, rng, kind, optimizer):
    config = CONFIGS[kind]
    weights = random_weights(config, rng)
    write_folder(tmp_path / "hf", config, with_copies(config, weights))
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "start")
    settings = optimizer_settings(optimizer, rng)
    tokens = [rng.randrange(VOCAB) for _ in range(4000)]
    file = run_file(tmp_path, model_section(tmp_path / "start"), tokens, settings)
    overrides = [f"model.seq_length={SEQ}", f"model.mtp_loss_scale={LOSS_SCALE}",
                 "moe.aux_loss_coeff=0", "moe.bias_update_rate=0", "model.hidden_dropout=0",
                 "model.attention_dropout=0"]
    samples = [s["tokens"] for s in trireme.lines(
        "data", "samples", file, "--tokens", "--json", "--first", STEPS * BATCH, *overrides)]
    trireme("train", file, f"run.dir={tmp_path / 'run'}", f"checkpoint.load={tmp_path / 'start'}",
            "checkpoint.finetune=true", *overrides)
    history, trained = train_in_pytorch(config, weights, samples, settings)
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    names = ["loss"] + [f"mtp_{k}_loss" for k in range(1, len(history[0]))]
    for k, name in enumerate(names):
        assert [m[name] for m in metrics] == pytest.approx([h[k] for h in history], rel=1e-9)

    trireme("convert", "--to", "hf", tmp_path / "run", tmp_path / "trained")
    ours, theirs = load_file(tmp_path / "trained/model.safetensors"), with_copies(config, trained)
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        difference = ((ours[name] - weight).abs().max() / weight.abs().max()).item()
        assert difference <= 1e-9, f"{name}: {difference:.1e} with {settings}"


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_files_come_back(trireme, tmp_path, rng, kind):
    config = CONFIGS[kind]
    weights = with_copies(config, random_weights(config, rng))
    write_folder(tmp_path / "hf", config, weights)
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "ours")
    trireme("convert", "--to", "hf", tmp_path / "ours", tmp_path / "back")
    back = load_file(tmp_path / "back/model.safetensors")
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weight) for name, weight in weights.items())
    said = json.loads((tmp_path / "back/config.json").read_text())
    assert said["num_nextn_predict_layers"] == config["num_nextn_predict_layers"]


def test_modules_that_differ_or_are_absent(trireme, tmp_path, rng):
    config = CONFIGS["deepseek_v3"]
    weights = random_weights(config, rng)
    other = with_copies(config, weights)
    other[f"model.layers.{LAYERS}.embed_tokens.weight"][0] += 1
    write_folder(tmp_path / "other", config, other)
    said = trireme("convert", "--from", "hf", tmp_path / "other", tmp_path / "1", code=2)
    assert "embed_tokens" in said.stderr
    # transformers does not save the modules, but leaves their number in the file.
    without = {n: w for n, w in weights.items() if not n.startswith(f"model.layers.{LAYERS}.")}
    write_folder(tmp_path / "without", config, without)
    said = trireme("convert", "--from", "hf", tmp_path / "without", tmp_path / "2")
    assert "mtp_layers = 0" in said.stdout + said.stderr
    assert "mtp_layers = 0" in model_section(tmp_path / "2")
