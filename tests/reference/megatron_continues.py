"""Training that megatron-core continues from a distributed checkpoint, on its own layouts, on the CPU, and saves again: its
model, made of the arguments in the checkpoint, and its optimizer, one process for each rank."""
import argparse
import functools
import json

import torch

from make_torch_dist_folders import make_model, name_devices, patch
from megatron_passes import (allow_norms_with_sequence_parallelism, forward_step, make_on_cpu, route_without_transformer_engine)

# Fields of Megatron's configuration of models that have the names of arguments.
SAID = "qk_layernorm", "softmax_type", "mtp_num_layers", "mtp_loss_scaling_factor"
SAID_OF_EXPERTS = (
    "moe_router_topk", "moe_router_score_function", "moe_router_pre_softmax", "moe_router_topk_scaling_factor",
    "moe_router_num_groups", "moe_router_group_topk", "moe_router_enable_expert_bias", "moe_router_bias_update_rate",
    "moe_shared_expert_gate", "moe_router_load_balancing_type", "moe_aux_loss_coeff")


def allow_adam_of_pytorch(optimizer):
    """Without Transformer Engine, the distributed optimizer asks for a step before it loads one, which it has of the parameter
    groups, and asks for another with the moments of each parameter."""
    optimizer._init_optimizer_states_with_dummy_values()
    keep = optimizer._set_main_param_and_optimizer_states

    def keep_with_step(parameter, states):
        keep(parameter, dict(states, step=optimizer._get_main_param_and_optimizer_states(parameter)["step"]))
    optimizer._set_main_param_and_optimizer_states = keep_with_step


def make_optimizer(module, case, args):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    shared = case.get("distributed", False)
    model = DistributedDataParallel(module.config, DistributedDataParallelConfig(use_distributed_optimizer=shared), module)
    config = OptimizerConfig(optimizer="adam", lr=args.get("lr", 1e-2), min_lr=args.get("min_lr", 0.0), clip_grad=0.0,
                             use_distributed_optimizer=shared)
    optimizer = get_megatron_optimizer(config, [model])
    for one in optimizer.chained_optimizers if shared else []:
        allow_adam_of_pytorch(one)
    return model, optimizer


def load(module, optimizer, common, step):
    from megatron.core import dist_checkpointing
    model = module.sharded_state_dict()
    states = {}
    if "optimizer" in common:
        states["optimizer"] = optimizer.sharded_state_dict(model, is_loading=True, metadata=common["content_metadata"])
    loaded = dist_checkpointing.load(dict(model=model, **states), str(step))
    module.load_state_dict(loaded["model"])
    if "optimizer" in common:
        optimizer.load_state_dict(loaded["optimizer"])
        # Without Transformer Engine, all parameters share one tensor, which each of them counts up.
        for one in optimizer.chained_optimizers:
            for state in one.optimizer.state.values():
                state["step"] = state["step"].clone()
    else:
        optimizer.reload_model_params()


def save(module, optimizer, common, place, case):
    """As Megatron-LM does, in the form that the case names."""
    from megatron.core import dist_checkpointing
    metadata = dict(chained_optim_avoid_prefix=True, **(
        dict(distrib_optim_sharding_type=case["saved"]) if case.get("distributed") else {}))
    model = module.sharded_state_dict(metadata=metadata)
    state = dict(common, **model, optimizer=optimizer.sharded_state_dict(model, metadata=metadata))
    dist_checkpointing.save(state, str(place), content_metadata=metadata)


def run_steps(model, optimizer, batches, case):
    """The losses of the steps."""
    losses = []
    for batch in batches:
        found = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(found, run_step(model, optimizer, batch, case))
        found = [part for parts in found for part in parts]
        losses.append(sum(total for total, _ in found) / sum(count for _, count in found))
    return losses


def run_step(model, optimizer, samples, case):
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func
    rank, ranks, micro = parallel_state.get_data_parallel_rank(), case["dp"], case["micro_batch"]
    batches = [samples[at:at + micro] for at in range(rank * micro, len(samples), ranks * micro)]
    model.zero_grad_buffer()
    optimizer.zero_grad()
    with torch.set_grad_enabled(not case.get("still")):
        parts = get_forward_backward_func()(
            forward_step_func=functools.partial(forward_step, case), data_iterator=iter(batches), model=[model],
            num_microbatches=len(batches), seq_length=len(samples[0]) - 1, micro_batch_size=micro,
            forward_only=case.get("still", False))
    assert case.get("still") or optimizer.step()[0]
    return parts


def continue_run(rank, folder, step, case, before, after, store):
    """Steps on the samples `before`, and on those `after` a checkpoint that it saves, if the case has one. Writes their losses."""
    patch()
    make_on_cpu()
    name_devices()
    route_without_transformer_engine()
    allow_norms_with_sequence_parallelism()
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank,
                                         world_size=case["tp"] * case["pp"] * case["dp"])
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.distributed import finalize_model_grads
    parallel_state.initialize_model_parallel(case["tp"], case["pp"], expert_model_parallel_size=case.get("ep", 1))
    common = dist_checkpointing.load_common_state_dict(str(step))
    args = dict(vars(common["args"]), bert_binary_head=False)
    more = {key: args[key] for key in (*SAID, *(SAID_OF_EXPERTS if args["num_experts"] else ()))}
    more.update(sequence_parallel=case.get("sp", False))
    module = make_model(args, case["tp"], case["pp"], **more)
    module.config.finalize_model_grads_func = finalize_model_grads
    model, optimizer = make_optimizer(module, case, args)
    load(module, optimizer, common, step)
    losses = run_steps(model, optimizer, before, case)
    if "saved" in case:
        done = common["iteration"] + len(before)
        args.update(tensor_model_parallel_size=case["tp"], pipeline_model_parallel_size=case["pp"], iteration=done,
                    consumed_train_samples=args["consumed_train_samples"] + sum(map(len, before)))
        place = folder / f"saved/iter_{done:07d}"
        if rank == 0:
            place.mkdir(parents=True)
            (folder / "saved/latest_checkpointed_iteration.txt").write_text(str(done))
        torch.distributed.barrier()
        save(module, optimizer, dict(args=argparse.Namespace(**args), checkpoint_version=3.0, iteration=done), place, case)
        losses += run_steps(model, optimizer, after, case)
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
