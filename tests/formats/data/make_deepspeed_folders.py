"""Writes deepspeed/<name>/: models of hf/ (make_hf_models.py) trained for some steps by DeepSpeed itself
(needs torch, deepspeed, transformers and safetensors), with the names and sharding of
Megatron-DeepSpeed, which cannot be installed: its module names, and their places in a pipeline, are
reproduced exactly, and its forward pass is replaced by a function of the weights.

    make_deepspeed_folders.py                     # the test data
    make_deepspeed_folders.py FOLDER CASE(json)   # one folder, for tests/reference

A case with `samples`, a file of token sequences, trains a real Llama in fp32, saves in the middle, and
writes `losses.json`, the losses of all steps.

`expected.safetensors` contains the full fp32 weights and the moments according to DeepSpeed, joined over
tensor parallelism, under our names."""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")

CASES = {
    "gpt2_pipe": dict(model="gpt2", tp=2, pp=2, dp=1, stage=1, dtype="bf16", pipeline=True),
    "llama_zero2": dict(model="llama", tp=1, pp=1, dp=3, stage=2, dtype="bf16", pipeline=False),
    "llama_zero3": dict(model="llama", tp=1, pp=1, dp=2, stage=3, dtype="bf16", pipeline=False),
    "llama_universal": dict(model="llama", tp=1, pp=1, dp=3, stage=2, dtype="bf16", pipeline=False,
                            universal=True),
    "gpt2_fp16": dict(model="gpt2", tp=1, pp=1, dp=1, stage=0, dtype="fp16", pipeline=False, groups=True, steps=8,
                      optimizer="fused"),
}
STEPS, WORDS = 3, 61
OURS = {"self_attention.query_key_value": "attention.qkv", "self_attention.dense": "attention.out",
        "mlp.dense_h_to_4h": "mlp.up", "mlp.dense_4h_to_h": "mlp.down",
        "input_layernorm": "input_norm", "post_attention_layernorm": "mlp_norm",
        "word_embeddings": "embedding.word", "position_embeddings": "embedding.position",
        "tokentype_embeddings": "embedding.token_type"}


# The heads of BERT, which are siblings of the language model.
HEADS = {"lm_head.dense": "masked_head.dense", "lm_head.layernorm": "masked_head.norm",
         "binary_head": "order_head", "lm_head": "masked_head"}


def cut_model(name, tp):
    """Returns [(module, name in it, our name, cut, parts)]; modules are numbered as in a pipeline."""
    import transformers
    from safetensors.torch import load_file
    from foreign_layouts import FAMILIES, LEGACY, Cut, cut_for_ranks, pad_words
    folder = HERE / "hf" / name
    state = load_file(folder / "model.safetensors")
    config = transformers.AutoConfig.from_pretrained(folder)
    make_layers, make_ends = FAMILIES[config.model_type]
    rows, layers = [], 0
    for layer, theirs, parts in make_layers(state, config, LEGACY, 3.0, tp):
        module, ending = theirs.rsplit(".", 1)
        cut = Cut.copy
        if ending == "weight" and module.endswith(("self_attention.dense", "dense_4h_to_h")):
            cut = Cut.columns
        elif module.endswith("query_key_value"):
            cut = Cut.rows
        elif module.endswith("dense_h_to_4h"):
            cut = Cut.gated if config.model_type == "llama" else Cut.rows
        rows.append((2 + layer, theirs, f"layers.{layer}.{OURS[module]}.{ending}", cut, parts))
        layers = max(layers, layer + 1)
    padded = 0
    for _, theirs, tensor, cut in make_ends(state, LEGACY):
        if cut == Cut.words:
            tensor = pad_words(tensor, 8 * tp)
            padded = tensor.shape[0]
        parts = cut_for_ranks(tensor, cut, tp)
        cut = Cut.rows if cut == Cut.words else cut
        module, ending = theirs.rsplit(".", 1)
        if "embedding." in theirs:
            own = theirs.split("embedding.", 1)[1]
            rows.append((1, own, OURS[own.split(".")[0]] + ".weight", cut, parts))
        elif "pooler" in theirs:
            rows.append((4 + layers, theirs, "pooler." + ending, cut, parts))
        elif module in HEADS:
            rows.append((4 + layers, theirs, f"{HEADS[module]}.{ending}", cut, parts))
        elif "final" in theirs:
            own = theirs.rsplit(".", 1)[1]
            rows.append((2 + layers, own, "final_norm." + own, cut, parts))
        else:
            rows.append((3 + layers, "lm_head.weight", "head.weight", cut, parts))
    return rows, config, padded, layers


def join(parts, cut):
    from foreign_layouts import Cut
    if cut == Cut.copy:
        return parts[0]
    if cut == Cut.gated:
        halves = [part.chunk(2) for part in parts]
        return torch.cat([half[0] for half in halves] + [half[1] for half in halves])
    return torch.cat(parts, 1 if cut == Cut.columns else 0)


class Leaf(torch.nn.Module):
    def forward(self, x):
        for parameter in self.parameters(recurse=False):
            x = x + parameter.float().pow(2).sum().to(x.dtype) * 0.01
        return x


class Named(torch.nn.Module):
    """A module with the given parameters under their dotted names."""
    def __init__(self, parameters, tensor_rank):
        super().__init__()
        for name, _, parts in parameters:
            place = self
            *path, last = name.split(".")
            for key in path:
                if not hasattr(place, key):
                    place.add_module(key, Leaf())
                place = getattr(place, key)
            part = parts[tensor_rank].detach().float().clone().contiguous()
            parameter = torch.nn.Parameter(part)
            # Marks parameters that tensor-parallel ranks share, as Megatron does.
            parameter.tensor_model_parallel = parameter.model_parallel = \
                parts[0] is not parts[-1]
            place.register_parameter(last, parameter)

    @property
    def word_embeddings_weight(self):
        return self.word_embeddings.weight

    def forward(self, x):
        for module in self.modules():
            if module is not self and next(module.parameters(recurse=False), None) is not None:
                x = module(x)
        return Leaf.forward(self, x)


class Trained(Named):
    """A Named that computes a Llama with them. Like Megatron's, it treats the rows that pad the vocabulary as words."""
    def __init__(self, parameters, tensor_rank, config, padded):
        import transformers
        super().__init__(parameters, tensor_rank)
        config.vocab_size = padded
        self.config = config
        self.compute = [transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")]

    def huggingface(self):
        config, own = self.config, dict(self.named_parameters())
        words = "language_model.embedding.word_embeddings.weight"
        state = {"model.embed_tokens.weight": own[words],
                 "model.norm.weight": own["language_model.encoder.final_layernorm.weight"],
                 "lm_head.weight": own["language_model.output_layer.weight"]}
        groups, size = config.num_key_value_heads, config.hidden_size
        for i in range(config.num_hidden_layers):
            theirs = lambda name: own[f"language_model.encoder.layers.{i}.{name}.weight"]  # noqa: B023, E731
            qkv = theirs("self_attention.query_key_value").view(groups, -1, config.head_dim, size)
            gate, up = theirs("mlp.dense_h_to_4h").chunk(2)
            layer = {"self_attn.q_proj": qkv[:, :-2].reshape(-1, size), "self_attn.k_proj": qkv[:, -2].reshape(-1, size),
                     "self_attn.v_proj": qkv[:, -1].reshape(-1, size),
                     "self_attn.o_proj": theirs("self_attention.dense"), "mlp.gate_proj": gate, "mlp.up_proj": up,
                     "mlp.down_proj": theirs("mlp.dense_4h_to_h"), "input_layernorm": theirs("input_layernorm"),
                     "post_attention_layernorm": theirs("post_attention_layernorm")}
            state |= {f"model.layers.{i}.{name}.weight": tensor for name, tensor in layer.items()}
        return state

    def forward(self, batch):
        logits = torch.func.functional_call(self.compute[0], self.huggingface(),
                                            kwargs={"input_ids": batch[:, :-1]}).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def settings_of(case):
    # The fp16 loss scale grows until it overflows, so that steps are skipped.
    types = {"bf16": {"bf16": {"enabled": True}}, "fp32": {},
             "fp16": {"fp16": {"enabled": True, "initial_scale_power": 13, "loss_scale_window": 1,
                               "hysteresis": 1}}}[case["dtype"]]
    if case["dtype"] == "bf16" and case["stage"] == 1:
        types["data_types"] = {"grad_accum_dtype": "fp32"}
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2 if case["pp"] > 1 else 1,
            "zero_optimization": {"stage": case["stage"]}, "zero_allow_untested_optimizer": True,
            "gradient_clipping": 1.0, **types,
            "pipeline": {"pipe_partitioned": False, "grad_partitioned": False}}


def optimizer_of(case, net):
    """Creates Adam as Megatron does: with groups with and without weight decay, if the case asks for them."""
    groups = [{"params": list(net.parameters())}]
    if case.get("groups"):
        vectors = [p for name, p in net.named_parameters() if p.dim() == 1 or name.endswith(".bias")]
        known = {id(p) for p in vectors}
        groups = [{"params": [p for p in net.parameters() if id(p) not in known], "wd_mult": 1.0},
                  {"params": vectors, "wd_mult": 0.0, "weight_decay": 0.0}]
    make = torch.optim.AdamW
    if case.get("optimizer") == "fused":
        from deepspeed.ops.adam import FusedAdam
        make = FusedAdam
    return make(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)


def take_any_type():
    """Allows fp16, which DeepSpeed refuses on CPUs without fp16 instructions, although PyTorch can compute it."""
    from deepspeed.accelerator import get_accelerator
    get_accelerator().is_fp16_supported = lambda: True


def states_without_zero(optimizer, parameter):
    """Returns the fp32 weight and the Adam moments from an optimizer without sharding."""
    if hasattr(optimizer, "fp32_groups_flat"):
        from torch._utils import _unflatten_dense_tensors as unflatten
        for flat, group in zip(optimizer.fp32_groups_flat, optimizer.fp16_groups):
            for i, one in enumerate(group):
                if one is parameter:
                    state = optimizer.optimizer.state[flat]
                    return [unflatten(whole, group)[i] for whole in
                            (flat, state["exp_avg"], state["exp_avg_sq"])]
    if hasattr(optimizer, "fp32_groups"):
        for weights, group in zip(optimizer.fp32_groups, optimizer.fp16_groups):
            for weight, one in zip(weights, group):
                if one is parameter:
                    state = optimizer.optimizer.state[weight]
                    return weight, state["exp_avg"], state["exp_avg_sq"]
    state = optimizer.state[parameter]
    return parameter, state["exp_avg"], state["exp_avg_sq"]


def worker(out, case):
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
    from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    from foreign_layouts import LEGACY, megatron_arguments
    tp, pp, dp = case["tp"], case["pp"], case["dp"]
    deepspeed.init_distributed("gloo")
    take_any_type()
    rank = torch.distributed.get_rank()
    rows, config, padded, layers = cut_model(case["model"], tp)
    tied = config.tie_word_embeddings

    modules = {}
    for number, name, ours, cut, parts in rows:
        modules.setdefault(number, []).append((name, ours, parts))
    cuts = {ours: cut for _, _, ours, cut, _ in rows}
    args = megatron_arguments(config, tp, pp, padded, LEGACY)
    seen = case["steps"] * dp if case.get("samples") else 24
    args |= {"num_experts": [1], "consumed_train_samples": seen, "lr": 1e-3, "adam_beta1": 0.9,
             "adam_beta2": 0.95, "adam_eps": 1e-8, "weight_decay": 0.1}

    if case["pipeline"]:
        topology = PipeModelDataParallelTopology(num_pp=pp, num_mp=tp, num_dp=dp)
        tensor_rank = topology.get_coord(rank).model
        specs = [lambda x: x]
        make = lambda number: LayerSpec(Named, modules[number], tensor_rank)  # noqa: E731
        if tied:
            specs.append(TiedLayerSpec("embed", Named, modules[1], tensor_rank,
                                       tied_weight_attr="word_embeddings_weight"))
        else:
            specs.append(make(1))
        specs += [make(2 + layer) for layer in range(layers + 1)]
        if tied:
            specs.append(TiedLayerSpec("embed", Named, modules[1], tensor_rank,
                                       forward_fn=lambda module, x: x + module.word_embeddings_weight.sum(),
                                       tied_weight_attr="word_embeddings_weight"))
        else:
            specs.append(make(3 + layers))
        net = PipelineModule(specs, topology=topology, loss_fn=lambda x, y: x.float().mean(),
                             partition_method="uniform")
        coordinate = topology.get_coord(rank)
        stage, data_rank, mpu = coordinate.pipe, coordinate.data, None
    else:
        tensor_rank, data_rank, stage = rank % tp, rank // tp, 0
        named = []
        for number, parameters in sorted(modules.items()):
            for name, ours, parts in parameters:
                prefix = {1: "embedding.", 2 + layers: "encoder.final_layernorm.",
                          3 + layers: ""}.get(number, f"encoder.layers.{number - 2}.")
                name = "output_layer.weight" if name == "lm_head.weight" else name
                own = number == 4 + layers  # a sibling of the language model
                named.append((name if own else "language_model." + prefix + name, ours, parts))
        net = Trained(named, tensor_rank, config, padded) if case.get("samples") else Named(named, tensor_rank)
        mpu = PipelineParallelGrid(PipeModelDataParallelTopology(1, tp, dp)) if tp > 1 else None
    engine, _, _, _ = deepspeed.initialize(model=net, optimizer=optimizer_of(case, net),
                                           config=settings_of(case), mpu=mpu)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[case["dtype"]]
    steps = case.get("steps", STEPS)
    losses = train(engine, case, data_rank, 0, steps) if case.get("samples") else []
    for _ in range(0 if losses else steps):
        if case["pipeline"]:
            def batches():
                while True:
                    yield torch.ones(1, 1, dtype=dtype, requires_grad=True), torch.zeros(1, 1)
            engine.train_batch(batches())
        else:
            engine.backward(engine(torch.ones(1, 1, dtype=dtype)).float().mean())
            engine.step()
    # The step's key is named as in Megatron-DeepSpeed.
    state = {"args": argparse.Namespace(**args), "checkpoint_version": 3.0, "iteration": steps,
             "tokens": 0, "universal_checkpoint_info": universal_info(case, config, padded)}
    engine.save_checkpoint(str(out), tag=f"global_step{steps}", client_state=state)
    if losses:
        losses += train(engine, case, data_rank, steps, 2 * steps)
        if rank == 0:
            (out / "losses.json").write_text(json.dumps(losses))
        return

    names = {}
    for name, parameter in engine.module.named_parameters():
        found = [ours for number, own, ours, _, _ in rows
                 if name in (f"{number}.{own}", f"tied_modules.embed.{own}")] if case["pipeline"] \
            else [ours for own, ours, _ in named if own == name]
        names[found[0]] = parameter
    if case["stage"] in (1, 2) and hasattr(engine.optimizer, "_lazy_init_hp_params_optimizer_state"):
        # DeepSpeed links parameter states after the first group's step, before other groups have any.
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    mine = {}
    for ours, parameter in names.items():
        if case["stage"] == 0 and pp > 1:  # no file says which layers a stage has
            mine[ours] = parameter.detach().clone()
            continue
        if case["stage"] == 0:
            for key, tensor in zip((ours, f"optimizer.first_moment.{ours}", f"optimizer.second_moment.{ours}"),
                                   states_without_zero(engine.optimizer, parameter)):
                mine[key] = tensor.detach().clone()
            continue
        mine[ours] = safe_get_full_fp32_param(parameter).detach().clone()
        for ending, key in (("first", "exp_avg"), ("second", "exp_avg_sq")):
            mine[f"optimizer.{ending}_moment.{ours}"] = \
                safe_get_full_optimizer_state(parameter, key).detach().clone()
    gathered = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, (data_rank, stage, tensor_rank, mine))
    if rank == 0:
        from safetensors.torch import save_file
        whole = {}
        for name in {name for *_, tensors in gathered for name in tensors}:
            parts = [next(tensors[name] for d, _, t, tensors in gathered
                          if d == 0 and t == at and name in tensors) for at in range(tp)]
            ours = name.split("_moment.", 1)[-1]
            whole[name] = join([part.float() for part in parts], cuts[ours]).contiguous()
            # The conversion removes the padding, except for ZeRO stage 3, where it does not know of it.
            if case.get("universal") and case["stage"] < 3 and \
                    ours in ("embedding.word.weight", "head.weight", "masked_head.bias"):
                whole[name] = whole[name][:WORDS].contiguous()
        save_file(whole, str(out / "expected.safetensors"))
        for script in out.glob("zero_to_*.py"):
            script.unlink()
    torch.distributed.barrier()


def train(engine, case, data_rank, first, end):
    """Trains on one sample per data-parallel rank and step; returns the losses averaged over ranks."""
    samples = json.loads(Path(case["samples"]).read_text())
    losses = []
    for step in range(first, end):
        loss = engine(torch.tensor([samples[step * case["dp"] + data_rank]]))
        engine.backward(loss)
        engine.step()
        whole = loss.detach().clone()
        torch.distributed.all_reduce(whole)
        losses.append(whole.item() / case["dp"])
    return losses


def universal_info(case, config, padded):
    """Returns the information that Megatron-DeepSpeed gives to the universal checkpoint conversion."""
    pipe = case["pipeline"]
    layers = r"" if pipe else "language_model.encoder.layers."
    final = r"\d+" if pipe else "language_model.encoder.final_layernorm"
    words = ["tied_modules.embed.word_embeddings.weight" if config.tie_word_embeddings
             else r"\d+.word_embeddings.weight", r"\d+.lm_head.weight"] if pipe else \
        ["language_model.embedding.word_embeddings.weight", "language_model.output_layer.weight"]
    words = words[:1] if config.tie_word_embeddings else words
    replicated = [layers + r"\d+.input_layernorm.weight", layers + r"\d+.post_attention_layernorm.weight",
                  final + ".weight"]
    info = {"universal_checkpoint_version": 0.2, "original_vocab_size": padded if case.get("samples") else WORDS,
            "vocabulary_parameter_patterns": words,
            "pipeline_replicated_parameter_patterns": [r"tied_modules.embed.\w+.weight"]
            if config.tie_word_embeddings else [],
            "parameter_with_row_parallelism_patterns": [layers + r"\d+.mlp.dense_4h_to_h.weight",
                                                        layers + r"\d+.self_attention.dense.weight"]}
    if config.model_type == "llama":
        info["parameter_with_2_sub_params_cat_dim_0"] = [layers + r"\d+.mlp.dense_h_to_4h.weight"]
    else:
        replicated += ["tied_modules.embed.position_embeddings.weight" if pipe else
                       "language_model.embedding.position_embeddings.weight", final + ".bias"]
        replicated += [layers + rf"\d+.{name}.bias" for name in
                       ("self_attention.dense", "mlp.dense_4h_to_h", "input_layernorm",
                        "post_attention_layernorm")]
    return info | {"tp_replicated_parameter_patterns": replicated}


def save(out, case):
    """Runs DeepSpeed on the number of processes that the case needs."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = case["tp"] * case["pp"] * case["dp"]
    ranks = [subprocess.Popen(
        [sys.executable, __file__, "--rank", str(out), json.dumps(case)],
        env=os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                          "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        for rank in range(world)]
    if any([rank.wait() for rank in ranks]):
        sys.exit("a rank failed")
    if case.get("universal"):
        step = f"global_step{case.get('steps', STEPS)}"
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder",
                        str(out / step), "--output_folder", str(out / f"{step}_universal"),
                        "--num_extract_workers", "1", "--num_merge_workers", "1"], check=True)
        shutil.rmtree(out / step)
        (out / "latest_universal").write_text(f"{step}_universal")
        (out / "latest").unlink()


def main():
    sys.path.insert(0, str(HERE))
    if sys.argv[1:2] == ["--rank"]:
        return worker(Path(sys.argv[2]), json.loads(sys.argv[3]))
    if len(sys.argv) == 3:
        return save(Path(sys.argv[1]), json.loads(sys.argv[2]))
    for name, case in CASES.items():
        save(HERE / "deepspeed" / name, case)


if __name__ == "__main__":
    main()
