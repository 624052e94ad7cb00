"""Writes FOLDER/torch_dist and FOLDER/legacy: the same megatron-core model with random weights, saved by its
own dist_checkpointing, with the states of its own FP32Optimizer, and as Megatron-LM saves it with
--ckpt-format torch. Needs torch and megatron-core; everything runs on the CPU.

    make_torch_dist_folders.py                     # the test data, torch_dist/
    make_torch_dist_folders.py flat                # more test data, torch_dist_flat/
    make_torch_dist_folders.py CASES(json)         # for tests/reference: from folders to cases

A case has llama or bert (else it is a GPT), tp, pp and may have layers, hidden, stacked, virtual (chunks of layers of a
stage), experts with ep (the ranks that have a part of them each; no FOLDER/legacy then, nor states) and shared, and dp: the ranks that share the states of the distributed optimizer, in its flat buffers, of a model in dtype
("bfloat16" unless it is told), with bucket, the size of these, and sharding, another form ("fully_reshardable"). With
dp, FOLDER/distributed is written too: what this optimizer saves with --ckpt-format torch (distrib_optim.pt), or, with
older "tight" or "buckets", what this script makes of the same states as releases 0.6 and 0.7 and those up to 0.5 laid
them out. The first moment is half of its weight and the second its square, so that matches can be verified."""
import argparse
import contextlib
import json
import os
import queue
import sys
import tempfile
from pathlib import Path

import torch
import torch.multiprocessing

STEP = 3


def patch(replace=setattr):
    """Redirects GPU queries to the CPU and leaves GPU RNG states alone, through `replace`, which may undo it later."""
    # PyTorch records at first use which functions `with torch.device(...)` affects: the real torch.tensor.
    torch.utils._device._device_constructors()
    make_tensor = torch.tensor
    replace(torch.cuda, "current_device", lambda: torch.device("cpu"))
    replace(torch.Tensor, "cuda", lambda self, *_, **__: self)
    replace(torch.cuda, "synchronize", lambda *_: None)
    replace(torch.cuda, "current_stream", lambda *_: None)
    replace(torch, "tensor", lambda *values, device=None, **more: make_tensor(*values, **more))
    from megatron.core.tensor_parallel import random
    replace(random.CudaRNGStatesTracker, "fork", lambda *_, **__: contextlib.nullcontext())
    # One process saves: a queue among several would start Python again.
    from megatron.core.dist_checkpointing.strategies import filesystem_async
    replace(filesystem_async, "_results_queue", queue.Queue())


def name_devices():
    """Makes tensor types look like those on GPUs, which the optimizer checks."""
    name = torch.Tensor.type
    torch.Tensor.type = lambda self, *to, **how: (
        name(self, *to, **how) if to or how else name(self).replace("torch.", "torch.cuda."))


def arguments(tp, pp, llama=False, bert=False, layers=4, hidden=32, experts=None, shared=None, frequency=1, **_):
    return dict(
        bert_binary_head=bert,
        num_layers=layers, hidden_size=hidden, kv_channels=hidden // 4, num_attention_heads=4, ffn_hidden_size=24, swiglu=llama,
        group_query_attention=llama, num_query_groups=2 if llama else 1, add_bias_linear=not llama,
        normalization="RMSNorm" if llama else "LayerNorm", norm_epsilon=1e-5, max_position_embeddings=16,
        seq_length=16, position_embedding_type="rope" if llama else "learned_absolute", rotary_base=10000,
        rotary_percent=1.0, bias_gelu_fusion=not bert, untie_embeddings_and_output_weights=llama, hidden_dropout=0.0,
        attention_dropout=0.0, num_experts=experts, moe_ffn_hidden_size=12 if experts else None, moe_router_topk=2,
        moe_shared_expert_intermediate_size=shared, moe_layer_freq=frequency, moe_aux_loss_coeff=0.01,
        moe_router_load_balancing_type="aux_loss", window_size=None, padded_vocab_size=64, vocab_size=61,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, global_batch_size=8, lr=1e-3,
        adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, weight_decay=0.1, consumed_train_samples=24)


def make_model(args, tp, pp, chunks=None, chunk=None, **more):
    from megatron.core import parallel_state
    from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
    from megatron.core.models.bert.bert_model import BertModel
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import (get_gpt_decoder_block_spec, get_gpt_layer_local_spec,
                                                           get_gpt_mtp_block_spec)
    from megatron.core.transformer.transformer_config import TransformerConfig
    llama = args["swiglu"]
    config = TransformerConfig(
        num_layers=args["num_layers"], hidden_size=args["hidden_size"],
        num_attention_heads=args["num_attention_heads"], num_query_groups=args["num_query_groups"] if llama else None,
        kv_channels=args["kv_channels"], ffn_hidden_size=args["ffn_hidden_size"], use_cpu_initialization=True,
        gated_linear_unit=llama, add_bias_linear=args["add_bias_linear"], normalization=args["normalization"],
        activation_func=torch.nn.functional.silu if llama else torch.nn.functional.gelu, layernorm_epsilon=1e-5,
        hidden_dropout=0.0, attention_dropout=0.0, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        pipeline_dtype=torch.float32, virtual_pipeline_model_parallel_size=chunks,
        **dict(num_moe_experts=args["num_experts"], moe_ffn_hidden_size=args["moe_ffn_hidden_size"],
               moe_layer_freq=args["moe_layer_freq"], moe_token_dispatcher_type="allgather",
               moe_shared_expert_intermediate_size=args["moe_shared_expert_intermediate_size"],
               expert_model_parallel_size=parallel_state.get_expert_model_parallel_world_size()
               ) if args["num_experts"] else {}, **more)
    is_first = parallel_state.is_pipeline_first_stage(ignore_virtual=chunk is None, vp_stage=chunk)
    is_last = parallel_state.is_pipeline_last_stage(ignore_virtual=chunk is None, vp_stage=chunk)
    ends = dict(vocab_size=64, max_sequence_length=args["max_position_embeddings"], pre_process=is_first,
                post_process=is_last, share_embeddings_and_output_weights=not llama, vp_stage=chunk)
    if args["bert_binary_head"]:
        model = BertModel(config, 2, bert_layer_local_spec, **ends)
    else:
        spec = (get_gpt_decoder_block_spec(config, use_transformer_engine=False) if args["num_experts"] else
                get_gpt_layer_local_spec(normalization=args["normalization"], qk_layernorm=more.get("qk_layernorm", False)))
        if config.mtp_num_layers and is_last:
            ends["mtp_block_spec"] = get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False)
        model = GPTModel(config, spec,
                         position_embedding_type=args["position_embedding_type"], **ends)
    # Parameters that several ranks share must be equal on all of them, such as the tied embedding of the last stage.
    stage = parallel_state.get_pipeline_model_parallel_rank()
    for name, parameter in model.named_parameters():
        cut = getattr(parameter, "tensor_model_parallel", False)
        place = parallel_state.get_tensor_model_parallel_rank() if cut else 0
        if "local_experts" in name:
            place = (parallel_state.get_expert_model_parallel_rank(), parallel_state.get_tensor_model_parallel_rank())
        if name == "output_layer.weight" and not llama:
            name = "embedding.word_embeddings.weight"
        torch.manual_seed(hash((name, place, 0 if "embedding" in name else stage + 100 * (chunk or 0))))
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape))
    return model


def make_optimizer(model):
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.optimizer.optimizer import FP32Optimizer
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for group in adam.param_groups:
        group.update(wd_mult=1.0, lr_mult=1.0, is_expert_parallel=False, is_decoupled_lr=False)
    for parameter in model.parameters():
        adam.state[parameter] = dict(step=torch.tensor(float(STEP)), exp_avg=0.5 * parameter.detach(),
                                     exp_avg_sq=parameter.detach() ** 2)
    return FP32Optimizer(adam, OptimizerConfig(optimizer="adam", lr=1e-3), lambda *_: None)


def make_distributed_optimizer(chunks, bucket, dtype):
    """Creates it for fp32 chunks, which become `dtype`; their fp32 weights and moments are split like the buffers."""
    name_devices()
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    exact = {}
    for number, chunk in enumerate(chunks):
        for name, parameter in chunk.named_parameters():
            exact[number, name] = parameter.detach().clone()
            parameter.data = parameter.data.to(dtype)
            parameter.main_grad = None
        chunk.config.bf16, chunk.config.fp16 = dtype == torch.bfloat16, dtype == torch.float16
        chunk.config.params_dtype = dtype
    wrapped = [DistributedDataParallel(
        chunk.config, DistributedDataParallelConfig(
            use_distributed_optimizer=True, overlap_grad_reduce=bucket is not None, bucket_size=bucket,
            grad_reduce_in_fp32=True), chunk) for chunk in chunks]
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, bf16=dtype == torch.bfloat16, fp16=dtype == torch.float16,
                        use_distributed_optimizer=True, params_dtype=dtype), wrapped)
    inner = optimizer.chained_optimizers[0] if hasattr(optimizer, "chained_optimizers") else optimizer
    whole = {parameter: exact[number, name] for number, chunk in enumerate(chunks)
             for name, parameter in chunk.named_parameters()}
    for models, shards in zip([*inner.model_float16_groups, *inner.model_fp32_groups],
                              [*inner.shard_fp32_from_float16_groups, *inner.shard_fp32_groups]):
        for parameter, shard in zip(models, shards):
            part = inner._get_model_param_range_map(parameter)["param"]
            shard.data.copy_(whole[parameter].flatten()[part.start:part.end])
            inner.optimizer.state[shard] = dict(step=torch.tensor(float(STEP)), exp_avg=0.5 * shard.detach(),
                                                exp_avg_sq=shard.detach() ** 2)
    return optimizer, exact


def older_states(chunks, exact, form):
    """Returns states as in releases that placed each parameter directly after the previous one."""
    state = {"buckets_coalesced": True} if form == "tight" else {}
    for number, chunk in enumerate(chunks):
        weights = [exact[number, name].flatten() for name, _ in chunk.named_parameters()][::-1]
        kept = {}
        for key, of in (("param", lambda w: w), ("exp_avg", lambda w: 0.5 * w), ("exp_avg_sq", lambda w: w**2)):
            parts = [of(weight) for weight in weights]
            kept[key] = torch.cat(parts) if form == "tight" else [
                torch.cat(parts[at:at + 5]) for at in range(0, len(parts), 5)]
        if form == "tight":
            kept["numel_unpadded"] = kept["param"].numel()
        dtype = next(chunk.parameters()).dtype
        state[number] = {(dtype, torch.float32) if form == "tight" else torch.float32: kept}
    return state


def save_distributed(place, optimizer, saved, older):
    """Saves as Megatron-LM does: one of the ranks that share the states writes."""
    from megatron.core import parallel_state
    file = place / "distrib_optim.pt"
    place.mkdir(parents=True, exist_ok=True)
    if older is None:
        optimizer.save_parameter_state(str(file))
    if parallel_state.get_data_parallel_rank() == 0:
        torch.save(dict(saved, optimizer=optimizer.state_dict()), place / "model_optim_rng.pt")
        if older is not None:
            torch.save(older, file)


def write(rank, folder, case, store):
    patch()
    tp, pp, dp = case["tp"], case["pp"], case.get("dp")
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=processes(case))
    from megatron.core import dist_checkpointing, parallel_state
    virtual = case.get("virtual")
    parallel_state.initialize_model_parallel(tp, pp, virtual, expert_model_parallel_size=case.get("ep", 1))
    args = arguments(**case)
    chunks = [make_model(args, tp, pp, virtual, chunk) for chunk in (range(virtual) if virtual else [None])]
    keys = [f"model{number}" for number in range(virtual)] if virtual else ["model"]
    common = dict(args=argparse.Namespace(**args), checkpoint_version=3.0, iteration=STEP)
    weights = {key: chunk.state_dict() for key, chunk in zip(keys, chunks)}
    if dp:
        optimizer, exact = make_distributed_optimizer(chunks, case.get("bucket"),
                                                      getattr(torch, case.get("dtype", "bfloat16")))
        rounded = {key: chunk.state_dict() for key, chunk in zip(keys, chunks)}
        for number, key in enumerate(keys):
            weights[key] = {name: exact.get((number, name), tensor) for name, tensor in weights[key].items()}
    elif "experts" not in case:
        optimizer = make_optimizer(*chunks)
    metadata = dict(non_homogeneous_layers=not case.get("stacked", True))
    sharded = {key: chunk.sharded_state_dict(metadata=metadata) for key, chunk in zip(keys, chunks)}
    if not virtual:
        sharded = sharded["model"]
    more = dict(metadata=dict(distrib_optim_sharding_type=case.get("sharding", "dp_reshardable"))) if dp else {}
    state = dict(common, **sharded)
    if "experts" not in case:
        state["optimizer"] = optimizer.sharded_state_dict(sharded, **more)
    place = folder / "torch_dist" / f"iter_{STEP:07d}"
    place.mkdir(parents=True, exist_ok=True)
    torch.distributed.barrier()
    dist_checkpointing.save(state, str(place))
    stage = parallel_state.get_pipeline_model_parallel_rank()
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    rank_folder = f"iter_{STEP:07d}/mp_rank_{tensor_rank:02d}" + (f"_{stage:03d}" if pp > 1 else "")
    if dp:
        older = older_states(chunks, exact, case["older"]) if "older" in case else None
        save_distributed(folder / "distributed" / rank_folder, optimizer, dict(common, **rounded), older)
    if parallel_state.get_data_parallel_rank() == 0 and "experts" not in case:
        legacy = folder / "legacy" / rank_folder
        legacy.mkdir(parents=True)
        torch.save(dict(common, **weights), legacy / "model_optim_rng.pt")
    if rank == 0:
        for kind in ("torch_dist", *([] if "experts" in case else ["legacy"]), *(["distributed"] if dp else [])):
            (folder / kind / "latest_checkpointed_iteration.txt").write_text(str(STEP))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def processes(case):
    return case["tp"] * case["pp"] * case.get("dp", case.get("ep", 1))


def run_processes(function, count, *given):
    """Runs on multiple processes, which share the imports here."""
    import megatron.core.models.bert.bert_model  # noqa: F401
    import megatron.core.models.gpt  # noqa: F401
    import megatron.core.optimizer  # noqa: F401
    import psutil  # noqa: F401  megatron-core does not require it, but waits forever for writers that miss it
    with tempfile.TemporaryDirectory() as temporary:
        torch.multiprocessing.start_processes(function, (*given, f"{temporary}/ranks"), count, start_method="fork")


def fix_hashes():
    """Restarts Python with a fixed hash seed, because names become seeds."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        more = dict(PYTHONHASHSEED="0", OMP_NUM_THREADS="1")
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **more})


if __name__ == "__main__":
    fix_hashes()
    flat = sys.argv[1:] == ["flat"]
    data = Path(__file__).parent / ("torch_dist_flat" if flat else "torch_dist")
    own = dict(tp=1, pp=2, dp=2, layers=2, hidden=16, bucket=1500) if flat else dict(
        llama=True, tp=2, pp=1, layers=2, hidden=16)
    cases = {data: own} if flat or len(sys.argv) == 1 else json.loads(sys.argv[1])
    for made, what in cases.items():
        run_processes(write, processes(what), Path(made), what)
