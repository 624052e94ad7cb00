"""Writes deepspeed/<name>/: models of hf/ (make_hf_models.py) trained for some steps by DeepSpeed itself
(needs torch, deepspeed, transformers and safetensors), under the names and with the cuts of
Megatron-DeepSpeed, which cannot be installed: its modules are followed to the letter in their names
and in which of them a pipeline has, and its forward pass is replaced by a function of the weights.

    make_deepspeed_folders.py                     # the test data
    make_deepspeed_folders.py FOLDER CASE(json)   # one folder, for tests/reference

`expected.safetensors` holds what DeepSpeed gives for the whole weights in fp32 and the moments, joined over
tensor parallelism, under our names."""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")

CASES = {
    "gpt2_pipe": dict(model="gpt2", tp=2, pp=2, dp=1, stage=1, dtype="bf16", pipeline=True),
    "llama_zero2": dict(model="llama", tp=1, pp=1, dp=3, stage=2, dtype="bf16", pipeline=False),
    "llama_zero3": dict(model="llama", tp=1, pp=1, dp=2, stage=3, dtype="bf16", pipeline=False),
    "llama_universal": dict(model="llama", tp=1, pp=1, dp=3, stage=2, dtype="bf16", pipeline=False,
                            universal=True),
}
STEPS, WORDS = 3, 61
OURS = {"self_attention.query_key_value": "attention.qkv", "self_attention.dense": "attention.out",
        "mlp.dense_h_to_4h": "mlp.up", "mlp.dense_4h_to_h": "mlp.down",
        "input_layernorm": "input_norm", "post_attention_layernorm": "mlp_norm",
        "word_embeddings": "embedding.word", "position_embeddings": "embedding.position"}


def cut_model(name, tp):
    """[(module, name in it, our name, cut, parts)]; modules are counted as in a pipeline."""
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
        if "embedding." in theirs:
            own = theirs.split("embedding.", 1)[1]
            rows.append((1, own, OURS[own.split(".")[0]] + ".weight", cut, parts))
        elif "final" in theirs:
            own = theirs.rsplit(".", 1)[1]
            rows.append((2 + layers, own, "final_norm." + own, cut, parts))
        else:
            rows.append((3 + layers, "lm_head.weight", "head.weight", cut, parts))
    return rows, config, padded, layers


def join(parts, cut):
    import torch
    from foreign_layouts import Cut
    if cut == Cut.copy:
        return parts[0]
    if cut == Cut.gated:
        halves = [part.chunk(2) for part in parts]
        return torch.cat([half[0] for half in halves] + [half[1] for half in halves])
    return torch.cat(parts, 1 if cut == Cut.columns else 0)


def worker(out, case):
    import deepspeed
    import torch
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    from foreign_layouts import LEGACY, megatron_arguments
    tp, pp, dp = case["tp"], case["pp"], case["dp"]
    deepspeed.init_distributed("gloo")
    rank = torch.distributed.get_rank()
    rows, config, padded, layers = cut_model(case["model"], tp)
    tied = config.tie_word_embeddings

    class Leaf(torch.nn.Module):
        def forward(self, x):
            for parameter in self.parameters(recurse=False):
                x = x + parameter.float().pow(2).sum().to(x.dtype) * 0.01
            return x

    class Named(torch.nn.Module):
        """A module with some parameters under their dotted names."""
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
                # As Megatron marks what ranks of tensor parallelism share.
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

    modules = {}
    for number, name, ours, cut, parts in rows:
        modules.setdefault(number, []).append((name, ours, parts))
    cuts = {ours: cut for _, _, ours, cut, _ in rows}
    types = {"bf16": {"bf16": {"enabled": True}}, "fp32": {}}[case["dtype"]]
    if case["dtype"] == "bf16" and case["stage"] == 1:
        types["data_types"] = {"grad_accum_dtype": "fp32"}
    settings = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2 if pp > 1 else 1,
                "zero_optimization": {"stage": case["stage"]}, "zero_allow_untested_optimizer": True,
                "gradient_clipping": 1.0, **types,
                "pipeline": {"pipe_partitioned": False, "grad_partitioned": False}}
    args = megatron_arguments(config, tp, pp, padded, LEGACY)
    args |= {"num_experts": [1], "consumed_train_samples": 24, "lr": 1e-3, "adam_beta1": 0.9,
             "adam_beta2": 0.95, "adam_eps": 1e-8, "weight_decay": 0.1}
    optimizer = lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)  # noqa: E731

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
                named.append(("language_model." + prefix + name, ours, parts))
        net, mpu = Named(named, tensor_rank), None
    engine, _, _, _ = deepspeed.initialize(model=net, optimizer=optimizer(net.parameters()),
                                           config=settings, mpu=mpu)
    dtype = torch.bfloat16 if case["dtype"] == "bf16" else torch.float32
    for _ in range(STEPS):
        if case["pipeline"]:
            def batches():
                while True:
                    yield torch.ones(1, 1, dtype=dtype, requires_grad=True), torch.zeros(1, 1)
            engine.train_batch(batches())
        else:
            engine.backward(engine(torch.ones(1, 1, dtype=dtype)).float().mean())
            engine.step()
    # The step is named as Megatron-DeepSpeed names it.
    state = {"args": argparse.Namespace(**args), "checkpoint_version": 3.0, "iteration": STEPS,
             "tokens": 0, "universal_checkpoint_info": universal_info(case, config, padded)}
    engine.save_checkpoint(str(out), tag=f"global_step{STEPS}", client_state=state)

    names = {}
    for name, parameter in engine.module.named_parameters():
        found = [ours for number, own, ours, _, _ in rows
                 if name in (f"{number}.{own}", f"tied_modules.embed.{own}")] if case["pipeline"] \
            else [ours for own, ours, _ in named if own == name]
        names[found[0]] = parameter
    mine = {}
    for ours, parameter in names.items():
        if case["stage"] == 0:
            state = engine.optimizer.state[parameter]
            mine[ours] = parameter.detach().clone()
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
            # The conversion takes the padding away; that of the third stage knows nothing of it.
            if case.get("universal") and case["stage"] < 3 and \
                    ours in ("embedding.word.weight", "head.weight"):
                whole[name] = whole[name][:WORDS].contiguous()
        save_file(whole, str(out / "expected.safetensors"))
        for script in out.glob("zero_to_*.py"):
            script.unlink()
    torch.distributed.barrier()


def universal_info(case, config, padded):
    """What Megatron-DeepSpeed says to the conversion to universal checkpoints."""
    pipe = case["pipeline"]
    layers = r"" if pipe else "language_model.encoder.layers."
    final = r"\d+" if pipe else "language_model.encoder.final_layernorm"
    words = ["tied_modules.embed.word_embeddings.weight" if config.tie_word_embeddings
             else r"\d+.word_embeddings.weight", r"\d+.lm_head.weight"] if pipe else \
        ["language_model.embedding.word_embeddings.weight", "language_model.output_layer.weight"]
    words = words[:1] if config.tie_word_embeddings else words
    replicated = [layers + r"\d+.input_layernorm.weight", layers + r"\d+.post_attention_layernorm.weight",
                  final + ".weight"]
    info = {"universal_checkpoint_version": 0.2, "original_vocab_size": WORDS,
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
    """Runs DeepSpeed on as many processes as the case needs."""
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
        step = f"global_step{STEPS}"
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
