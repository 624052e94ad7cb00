"""Training passes of megatron-core on its own layouts, on the CPU: its forward-backward function, its wrapper for data
parallelism and its sums of gradients, one process for each rank. SGD with momentum: its states are sums of gradients."""
import argparse
import functools
import json
import sys
import zlib
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats/data"))
import make_torch_dist_folders  # noqa: E402
from make_torch_dist_folders import STEP, arguments, make_model, patch  # noqa: E402

LR, MOMENTUM = 0.05, 0.5
BALANCE = {"seq_aux_loss": "sequence", "aux_loss": "batch"}  # as `moe.aux_loss` calls them
COEFFICIENT = 0.5


def make_on_cpu():
    """What is to be made on a GPU."""
    for name in ("zeros", "ones", "empty"):
        make = getattr(torch, name)
        setattr(torch, name, lambda *sizes, make=make, device=None, **more: make(*sizes, **more))


def route_without_transformer_engine():
    """Megatron 0.16.1 asks for a name here that is not defined without that library."""
    from megatron.core.transformer.moe import moe_utils
    moe_utils.te_general_gemm = None


def allow_norms_with_sequence_parallelism():
    """PyTorch's norms, which Megatron takes on the CPU, are not told which gradients it has to sum, as its own for GPUs are."""
    from megatron.core.transformer.torch_norm import WrappedTorchNorm
    make = WrappedTorchNorm.__new__

    def new(cls, config, *given, **named):
        split, config.sequence_parallel = config.sequence_parallel, False
        norm = make(cls, config, *given, **named)
        config.sequence_parallel = split
        for parameter in norm.parameters():
            parameter.sequence_parallel = split
        return norm
    WrappedTorchNorm.__new__ = new


def arguments_of(case):
    """Those that Megatron-LM would have."""
    args = dict(arguments(**case), bias_gelu_fusion=False, vocab_size=64, qk_layernorm=case.get("qk_norm", False))
    if "experts" in case:
        args.update(moe_router_load_balancing_type=case["balance"], moe_aux_loss_coeff=COEFFICIENT)
    return args


def forget(function):
    """An error that is made on purpose: one of the sums over ranks that follow a pass is left out."""
    import megatron.core.distributed.finalize_model_grads  # noqa: F401
    from megatron.core.distributed import DistributedDataParallel
    module = sys.modules["megatron.core.distributed.finalize_model_grads"]
    place = DistributedDataParallel if hasattr(DistributedDataParallel, function) else module
    assert hasattr(place, function)
    setattr(place, function, lambda *_, **__: None)


def build(case, args):
    more = dict(sequence_parallel=case.get("sp", False), qk_layernorm=args["qk_layernorm"],
                calculate_per_token_loss=case.get("per_token", False))
    if args["num_experts"]:
        more.update({key: args[key] for key in ("moe_router_load_balancing_type", "moe_aux_loss_coeff")})
    # Weights that the test's seed decides, not Python's, which is another in each program.
    make_torch_dist_folders.hash = lambda place: zlib.crc32(repr((case["seed"], place)).encode())
    model = make_model(args, case["tp"], case["pp"], **more)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(0.2)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    return model


def save(model, args, folder):
    from megatron.core import dist_checkpointing
    place = folder / f"iter_{STEP:07d}"
    place.mkdir(parents=True, exist_ok=True)
    torch.distributed.barrier()
    dist_checkpointing.save(dict(args=argparse.Namespace(**args), checkpoint_version=3.0, iteration=STEP,
                                 **model.sharded_state_dict()), str(place))
    (folder / "latest_checkpointed_iteration.txt").write_text(str(STEP))


def forward_step(case, batches, model):
    """No loss where the input is `end`, a token of some cases."""
    batch = torch.tensor(next(batches))
    tokens, labels = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
    n = tokens.shape[1]
    mask = torch.triu(torch.ones(1, 1, n, n, dtype=torch.bool), 1)
    counted = tokens != case.get("end", -1)

    def loss_of(losses):
        total, count = (losses * counted).sum(), counted.sum().int()
        return total, count, (total.item(), count.item())
    return model(tokens, torch.arange(n)[None].expand_as(tokens), mask, labels=labels), loss_of


def run_pass(model, samples, case):
    """Its losses and their numbers, on the ranks that compute them; the gradients stay in the model's buffers."""
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func
    rank, ranks, micro = parallel_state.get_data_parallel_rank(), case["dp"], case["micro_batch"]
    batches = [samples[at:at + micro] for at in range(rank * micro, len(samples), ranks * micro)]
    model.zero_grad_buffer()
    return get_forward_backward_func()(
        forward_step_func=functools.partial(forward_step, case), data_iterator=iter(batches), model=[model],
        num_microbatches=len(batches), seq_length=len(samples[0]) - 1, micro_batch_size=micro, forward_only=False)


def train(rank, folder, case, samples, store):
    """Writes the weights, passes over each list of samples, and writes the sums of gradients and the losses."""
    patch()
    make_on_cpu()
    route_without_transformer_engine()
    allow_norms_with_sequence_parallelism()
    if "forgotten" in case:
        forget(case["forgotten"])
    ranks = case["tp"] * case["pp"] * case["dp"]
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    parallel_state.initialize_model_parallel(case["tp"], case["pp"], expert_model_parallel_size=case.get("ep", 1))
    args = arguments_of(case)
    module = build(case, args)
    save(module, args, folder / "weights")
    module.config.finalize_model_grads_func = finalize_model_grads
    model = DistributedDataParallel(module.config, DistributedDataParallelConfig(), module)
    sgd = torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM)
    losses = []
    for batch in samples:
        found = [None] * ranks
        torch.distributed.all_gather_object(found, run_pass(model, batch, case))
        found = [part for parts in found for part in parts]
        losses.append(sum(total for total, _ in found) / sum(count for _, count in found))
        for parameter in module.parameters():
            parameter.grad = parameter.main_grad.clone()
        sgd.step()
        sgd.zero_grad()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(sgd.state[parameter]["momentum_buffer"])
    save(module, args, folder / "gradients")
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
