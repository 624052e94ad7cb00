"""Writes torch.distributed.checkpoint folders as PyTorch does: with its own writer, from one process
or from several that each have a part (DTensor on gloo), with the Hugging Face names of
get_state_dict or torchtitan's (0.3, and before). Used by make_dcp_folders.py and
tests/reference/test_dcp.py."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as processes
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict,
                                                     get_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

TITAN_LAYER = {
    "self_attn.q_proj": "attention.qkv_linear.wq", "self_attn.k_proj": "attention.qkv_linear.wk",
    "self_attn.v_proj": "attention.qkv_linear.wv", "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm"}
TITAN = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight",
         "lm_head.weight": "lm_head.weight"}


def titan_name(name, old=False):
    if name in TITAN:
        return "output.weight" if old and name == "lm_head.weight" else TITAN[name]
    _, layers, number, rest = name.split(".", 3)
    rest = TITAN_LAYER[rest.removesuffix(".weight")]
    return f"{layers}.{number}.{rest.replace('qkv_linear.', '') if old else rest}.weight"


def rotated(tensor, name, head_dim, back=False):
    """Reorders query and key rows: from rotary pairs half a head apart to adjacent pairs, or `back`."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return tensor
    inner = (head_dim // 2, 2) if back else (2, head_dim // 2)
    return tensor.view(-1, *inner, tensor.shape[1]).transpose(1, 2).reshape(tensor.shape)


FUSED = "attention.qkv_linear.w"


def fused(flat, config):
    """Returns a flat optimizer state of torchtitan with fused QKV: for each key/value head its queries,
    the keys and the values."""
    out = {}
    for key, value in flat.items():
        if FUSED not in key:
            out[key] = value
        elif FUSED + "q." in key:
            parts = [flat[key.replace(FUSED + "q", FUSED + which)] for which in "qkv"]
            if ".exp_avg" in key:
                value = torch.cat([part.view(config.num_key_value_heads, -1, part.shape[1]) for part in parts],
                                  1).flatten(0, 1)
            out[key.replace(FUSED + "q", FUSED + "qkv")] = value
    return out


def split(flat, config):
    """Splits fused QKV states: the inverse of fused()."""
    out = {}
    for key, value in flat.items():
        rows = [config.num_attention_heads // config.num_key_value_heads, 1, 1]
        # Each parameter has its own step count, which its optimizer continues.
        parts = [value.clone() if torch.is_tensor(value) else value for _ in rows]
        if FUSED not in key:
            out[key] = value
            continue
        if ".exp_avg" in key:
            groups = value.view(config.num_key_value_heads, -1, value.shape[1])
            parts = [part.flatten(0, 1) for part in groups.split([n * config.head_dim for n in rows], 1)]
        for which, part in zip("qkv", parts):
            out[key.replace(FUSED + "qkv", FUSED + which)] = part
    return out


def huggingface_state(model, optimizer, step):
    """Saves as programs do that use torch.distributed.checkpoint.state_dict."""
    state = {"model": get_model_state_dict(model)}
    if optimizer:
        state["optimizer"] = get_optimizer_state_dict(model, optimizer)
        state["step"] = step
    return state


def titan_state(model, optimizer, step, tokens, old=False):
    """Saves as torchtitan does: bare names, flattened optimizer states, the progress of the run."""
    head_dim = model.config.head_dim
    state = {titan_name(name, old): rotated(tensor, name, head_dim)
             for name, tensor in get_model_state_dict(model).items()}
    if old:
        state = {f"model.{name}": tensor for name, tensor in state.items()}
    if not optimizer:
        return state
    flat = get_optimizer_state_dict(model, optimizer,
                                    options=StateDictOptions(flatten_optimizer_state_dict=True))
    state["optimizer"] = {}
    for key, value in flat.items():
        kind, rest = key.split(".", 1)
        name, what = rest.rsplit(".", 1)
        if value is not None and what.startswith("exp_avg"):
            value = rotated(value, name, head_dim)
        state["optimizer"][f"{kind}.{titan_name(name, old)}.{what}"] = value
    if not old:
        state["optimizer"] = fused(state["optimizer"], model.config)
    state["lr_scheduler"] = {"last_epoch": step}
    state["train_state"] = {"step": step, "ntokens_seen": tokens}
    state["dataloader"] = {"dp_rank_0": b"opaque", "world_size": 1}
    return state


def spread(state, rank, placements):
    """Returns the tensors of a state as DTensors of this rank."""
    if isinstance(state, dict):
        return {key: spread(value, rank, placements) for key, value in state.items()}
    if not isinstance(state, torch.Tensor) or state.dim() == 0:
        return state
    return distribute_tensor(state, spread.mesh, placements(state))


def save_part(rank, world, state, folder, shape, kinds, threads, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    spread.mesh = init_device_mesh("cpu", shape)

    def placements(tensor):
        cuts = {"rows": Shard(0), "columns": Shard(tensor.dim() - 1), "copies": Replicate()}
        return [cuts[kind] for kind in kinds]

    torch.set_num_threads(1)
    writer = dcp.FileSystemWriter(folder, thread_count=threads)
    dcp.save(spread(state, rank, placements), storage_writer=writer)
    dist.destroy_process_group()


def save(state, folder, shape=(), kinds=(), threads=1):
    """Saves from one process, or from a mesh of `shape`, each dimension of which shards tensors by
    `kinds`: rows, columns or replicas."""
    if not shape:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, thread_count=threads),
                 no_dist=True)
        return
    world = 1
    for size in shape:
        world *= size
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        processes.spawn(save_part, nprocs=world, args=(
            world, state, folder, tuple(shape), tuple(kinds), threads, f"{scratch}/store"))
