"""Writes FOLDER/checkpoint/step-3 with torchtitan's own model, optimizers and checkpoint manager
(needs torch and torchtitan; runs on the CPU, in several processes). Gradients are random: its attention has no CPU backward.

    make_torchtitan_folder.py FOLDER CASE(json)         # a case has ranks, fused and tied, and may have qwen3
    make_torchtitan_folder.py FOLDER CASE(json) load    # loads FOLDER/checkpoint/step-3 instead

FOLDER/expected.pt (loaded.pt) contains the weights and the moments as torchtitan's own adapter converts them to Hugging
Face, and FOLDER/config.json the configuration of such a model."""
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
import torch.multiprocessing

STEPS, WORDS, DIM, HEADS, GROUPS, LAYERS, FFN, LENGTH = 3, 64, 32, 4, 2, 2, 48, 16
QWEN3_HEAD = 12
SETTINGS = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-7, weight_decay=0.1)


ONES = {"weight": torch.nn.init.ones_}
NORMAL = {"weight": partial(torch.nn.init.normal_, std=0.5)}


def model_config(case):
    return qwen3_config(case) if case.get("qwen3") else llama_config(case)


def parts(**norm):
    """What both models have besides their layers."""
    from torchtitan.models.common import Embedding, Linear, RMSNorm
    return dict(
        dim=DIM, vocab_size=WORDS,
        tok_embeddings=Embedding.Config(num_embeddings=WORDS, embedding_dim=DIM, param_init=NORMAL),
        norm=RMSNorm.Config(normalized_shape=DIM, param_init=ONES, **norm),
        lm_head=Linear.Config(in_features=DIM, out_features=WORDS, param_init=NORMAL))


def llama_config(case):
    from torchtitan.models.common import ComplexRoPE
    from torchtitan.models.llama3 import Llama3Model, _build_llama3_layers
    return Llama3Model.Config(
        enable_weight_tying=case["tied"], **parts(),
        layers=_build_llama3_layers(
            fuse_qkv=case["fused"], n_layers=LAYERS, dim=DIM, n_heads=HEADS, n_kv_heads=GROUPS, hidden_dim=FFN,
            rope=ComplexRoPE.Config(dim=DIM // HEADS, max_seq_len=LENGTH, theta=10000), attn_backend="flex"))


def qwen3_config(case):
    from torchtitan.models.common import CosSinRoPE
    from torchtitan.models.qwen3 import Qwen3Model, _build_qwen3_layers
    return Qwen3Model.Config(
        enable_weight_tying=case["tied"], **parts(eps=1e-6),
        layers=_build_qwen3_layers(
            fuse_qkv=case["fused"], n_layers=LAYERS, dim=DIM, n_heads=HEADS, n_kv_heads=GROUPS, head_dim=QWEN3_HEAD,
            hidden_dim=FFN, rope=CosSinRoPE.Config(dim=QWEN3_HEAD, max_seq_len=LENGTH, theta=10000), attn_backend="flex"))


class TrainState:
    """Saves as torchtitan's trainer does."""

    def __init__(self):
        self.state = {"step": STEPS, "ntokens_seen": STEPS * 4 * LENGTH}

    def state_dict(self):
        return {name: torch.tensor(number) for name, number in self.state.items()}

    def load_state_dict(self, state):
        self.state = {name: int(number) for name, number in state.items()}


def huggingface(state, config, adapter):
    """Returns a state of parameters, split as the model splits its own weights, under Hugging Face's names."""
    from torchtitan.models.common.attention import FusedQKVLinear

    class Sizes:
        head_dim, heads_per_kv, r_dim = DIM // HEADS, HEADS // GROUPS, HEADS // GROUPS + 2
    for layer in range(LAYERS):
        FusedQKVLinear._split_qkv_on_save(Sizes, state, f"layers.{layer}.attention.qkv_linear.", {})
    return {name: tensor.clone() for name, tensor in adapter(config, None).to_hf(state).items()}


def whole(tensor):
    from torch.distributed.tensor import DTensor
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()


def contents(model, optimizers, config):
    """Returns {kind: {Hugging Face's name: tensor}} of the weights and both moments."""
    from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter
    weights = {name: whole(tensor) for name, tensor in model.state_dict().items()}
    out = {"weight": huggingface(weights, config, Llama3StateDictAdapter)}
    states = optimizers.state_dict()
    for kind in ("exp_avg", "exp_avg_sq"):
        of_kind = {name.removeprefix("state.").removesuffix("." + kind): whole(tensor)
                   for name, tensor in states.items() if name.endswith("." + kind)}
        out[kind] = huggingface(of_kind, config, Llama3StateDictAdapter)
    return out


def make_model(case, change=None):
    from torch.distributed.fsdp import fully_shard
    config = model_config(case)
    if change:
        change(config)
    model = config.build()
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    if case["ranks"] > 1:
        mesh = torch.distributed.init_device_mesh("cpu", (case["ranks"],))
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model, config


def train(model, optimizers):
    from torch.distributed.tensor import DTensor, distribute_tensor
    generator = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        for parameter in model.parameters():
            gradient = torch.randn(parameter.shape, generator=generator)
            if isinstance(parameter, DTensor):
                gradient = distribute_tensor(gradient, parameter.device_mesh, parameter.placements)
            parameter.grad = gradient
        optimizers.step()


def make_optimizers(model, patterns={".*": SETTINGS}):
    """A group of parameters for each pattern."""
    from torchtitan.components.optimizer import OptimizersContainer, ParamGroupConfig
    return OptimizersContainer(
        OptimizersContainer.Config(
            param_groups=[ParamGroupConfig(pattern=pattern, optimizer_name="AdamW", optimizer_kwargs=settings)
                          for pattern, settings in patterns.items()],
            implementation="for-loop"),
        model_parts=[model])


def make_manager(out, model, optimizers, train_state):
    from torchtitan.components.checkpointer.dcp import CheckpointManager
    manager = CheckpointManager(
        CheckpointManager.Config(enable=True, interval=1, keep_latest_k=0), dataloader=None, model_parts=[model],
        optimizers=optimizers, lr_schedulers=None, states={"train_state": train_state}, sd_adapter=None,
        base_folder=str(out))
    for absent in ("dataloader", "lr_scheduler"):
        manager.states.pop(absent)
    return manager


def worker(rank, out, case, store, load):
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=case["ranks"])
    model, config = make_model(case)
    optimizers = make_optimizers(model)
    train_state = TrainState()
    manager = make_manager(out, model, optimizers, train_state)
    if load:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        manager.load(STEPS)
    else:
        train(model, optimizers)
        manager.save(STEPS)
    found = contents(model, optimizers, config)
    found["train_state"] = train_state.state
    if rank == 0:
        torch.save(found, out / ("loaded.pt" if load else "expected.pt"))
        (out / "config.json").write_text(json.dumps(dict(
            architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=WORDS, hidden_size=DIM,
            num_attention_heads=HEADS, num_key_value_heads=GROUPS, num_hidden_layers=LAYERS, intermediate_size=FFN,
            max_position_embeddings=LENGTH, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
            tie_word_embeddings=case["tied"], torch_dtype="float32")))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder, case = Path(sys.argv[1]), json.loads(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(worker, (folder, case, scratch + "/store", "load" in sys.argv[3:]), case["ranks"])
