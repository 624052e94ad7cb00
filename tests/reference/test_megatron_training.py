"""Training that megatron-core began continues here: its model, its fused GELU, its groups of parameters and its optimizer on the CPU,
20 steps and their checkpoint, and 20 more, there and here, on the same samples."""
import argparse
import os
import sys
from pathlib import Path

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what Megatron compiles runs as it is written

import pytest
import torch

pytest.importorskip("megatron.core")
from test_dcp import losses_of, samples_of
from test_megatron_core import arguments, megatron, save  # noqa: F401
from test_training import model_section, write_indexed_tokens

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats/data"))
from make_torch_dist_folders import patch  # noqa: E402

STEPS, BATCH = 20, 4
LR, BETAS, EPS, DECAY = 1e-3, (0.9, 0.95), 1e-7, 0.1


def build(args):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_config import TransformerConfig
    llama = args["swiglu"]
    config = TransformerConfig(
        num_layers=args["num_layers"], hidden_size=args["hidden_size"], num_attention_heads=args["num_attention_heads"],
        num_query_groups=args["num_query_groups"] if llama else None, kv_channels=args["kv_channels"],
        ffn_hidden_size=args["ffn_hidden_size"], use_cpu_initialization=True, gated_linear_unit=llama,
        add_bias_linear=not llama, normalization=args["normalization"], bias_activation_fusion=True,
        activation_func=torch.nn.functional.silu if llama else torch.nn.functional.gelu, layernorm_epsilon=1e-5,
        hidden_dropout=0.0, attention_dropout=0.0)
    return GPTModel(config, get_gpt_layer_local_spec(normalization=args["normalization"]), vocab_size=64,
                    max_sequence_length=args["max_position_embeddings"],
                    position_embedding_type=args["position_embedding_type"],
                    share_embeddings_and_output_weights=not llama)


def make_optimizer(model):
    from megatron.core.optimizer import OptimizerConfig, _get_param_groups
    from megatron.core.optimizer.optimizer import FP32Optimizer
    config = OptimizerConfig(optimizer="adam", lr=LR, min_lr=LR, clip_grad=0.0)
    groups = _get_param_groups([model], config, None)
    for group in groups:
        group["weight_decay"] = DECAY * group["wd_mult"]  # as its scheduler does
    assert {group["wd_mult"] for group in groups} == {0.0, 1.0}
    return FP32Optimizer(torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS), config, lambda *_: None)


def train(model, optimizer, samples, first):
    losses = []
    for step in range(first, first + STEPS):
        batch = torch.tensor(samples[step * BATCH:(step + 1) * BATCH])
        tokens, labels = batch[:, :-1], batch[:, 1:]
        n = tokens.shape[1]
        mask = torch.triu(torch.ones(1, 1, n, n, dtype=torch.bool), 1)
        loss = model(tokens, torch.arange(n)[None].expand_as(tokens), mask, labels=labels).mean()
        optimizer.zero_grad()
        loss.backward()
        assert optimizer.step()[0]
        losses.append(loss.item())
    return losses


def save_all(model, optimizer, args, folder):
    """In both formats, after STEPS steps."""
    from megatron.core import dist_checkpointing
    common = dict(args=argparse.Namespace(**args), checkpoint_version=3.0, iteration=STEPS)
    name = f"iter_{STEPS:07d}"
    legacy, distributed = folder / "legacy" / name / "mp_rank_00", folder / "torch_dist" / name
    for place in (legacy, distributed):
        place.mkdir(parents=True)
    for kind in ("legacy", "torch_dist"):
        (folder / kind / "latest_checkpointed_iteration.txt").write_text(str(STEPS))
    torch.save(dict(common, model=model.state_dict(), optimizer=optimizer.state_dict()), legacy / "model_optim_rng.pt")
    sharded = model.sharded_state_dict()
    dist_checkpointing.save(dict(common, **sharded, optimizer=optimizer.sharded_state_dict(sharded)), str(distributed))


@pytest.mark.parametrize("llama", [False, True], ids=["gpt", "llama"])
def test_a_run_of_megatron_core_continues_here(trireme, rng, tmp_path, megatron, monkeypatch, llama):  # noqa: F811
    patch(monkeypatch.setattr)
    torch.manual_seed(rng.randrange(2**31))
    args = dict(arguments(rng, llama), num_layers=2, bias_gelu_fusion=True, max_position_embeddings=16, seq_length=16,
                global_batch_size=BATCH, consumed_train_samples=STEPS * BATCH, lr=LR, adam_beta1=BETAS[0],
                adam_beta2=BETAS[1], adam_eps=EPS, weight_decay=DECAY)
    model = build(args)
    save(model, args, tmp_path / "new")
    trireme("convert", tmp_path / "new", tmp_path / "start")
    write_indexed_tokens(tmp_path / "tokens", [int(64 * rng.random() ** 3) for _ in range(4000)])  # of which some are common
    more = [f'data.path=["{tmp_path / "tokens"}"]', 'data.split="1,0,0"', f"train.iters={2 * STEPS}",
            f"train.micro_batch_size={BATCH}", f"train.global_batch_size={BATCH}", "train.eval_interval=0",
            "optimizer.clip_grad=0.0", "run.precision=fp32"]
    file = tmp_path / "run.toml"
    file.write_text(f"""{model_section(tmp_path / "start")}
[data]
path = ["{tmp_path / 'tokens'}"]
split = "1,0,0"
[train]
iters = {2 * STEPS}
micro_batch_size = {BATCH}
global_batch_size = {BATCH}
eval_interval = 0
""")
    samples = samples_of(trireme, file)
    optimizer = make_optimizer(model)
    before = train(model, optimizer, samples, 0)
    save_all(model, optimizer, args, tmp_path)
    expected = train(model, optimizer, samples, STEPS)
    # The steps count: the losses move.
    assert abs(before[0] - expected[-1]) > 1e-2
    for kind in ("legacy", "torch_dist"):
        trireme("convert", tmp_path / kind, tmp_path / ("run_" + kind))
        trireme("train", tmp_path / ("run_" + kind) / "config.toml", *more)
        got = losses_of(tmp_path / ("run_" + kind) / "train")
        assert len(got) == STEPS
        print("\nlargest difference of a loss:", kind, max(abs(a - b) for a, b in zip(got, expected)))
        assert got == pytest.approx(expected, rel=0, abs=1e-5)
