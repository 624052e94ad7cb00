"""Writes FOLDER/legacy: a megatron-core model with random weights and the states of its own optimizer, as
Megatron-LM saves them with --ckpt-format torch; and FOLDER/weights, FOLDER/exp_avg and FOLDER/exp_avg_sq: the
optimizer's values of each parameter, in fp32, in place of the model's weights. Needs torch and megatron-core, whose
_get_param_groups, Float16OptimizerWithFloat16Params and FP32Optimizer are run on the CPU.

    make_megatron_optimizer_folders.py                     # the test data, megatron_optimizer/, and damaged copies of it
    make_megatron_optimizer_folders.py CASES(json)         # for tests/reference: from folders to cases

A case has llama or bert (else it is a GPT), tp, pp and dtype ("bfloat16", "float16", "float32"), and may have layers and hidden."""
import argparse
import json
import shutil
import sys
from pathlib import Path

import torch
from make_torch_dist_folders import STEP, arguments, fix_hashes, make_model, name_devices, patch, run_processes


def make_optimizer(model, dtype):
    from megatron.core.optimizer import OptimizerConfig, _get_param_groups
    from megatron.core.optimizer.grad_scaler import DynamicGradScaler
    from megatron.core.optimizer.optimizer import FP32Optimizer, Float16OptimizerWithFloat16Params
    config = OptimizerConfig(optimizer="adam", lr=1e-2, min_lr=1e-2, bf16=dtype == torch.bfloat16,
                             fp16=dtype == torch.float16)
    adam = torch.optim.AdamW(_get_param_groups([model], config, None), lr=1e-2)
    if dtype == torch.float32:
        return FP32Optimizer(adam, config, lambda *_: None)
    scaler = None
    if dtype == torch.float16:
        scaler = DynamicGradScaler(initial_scale=2.0**16, min_scale=1.0, growth_factor=2.0, backoff_factor=0.5,
                                   growth_interval=1000, hysteresis=2)
    return Float16OptimizerWithFloat16Params(adam, config, scaler, lambda *_: None)


def seed_of(name, parameter, llama, step):
    """Returns a gradient's seed: equal on all ranks that share the parameter."""
    from megatron.core import parallel_state
    stage = parallel_state.get_pipeline_model_parallel_rank()
    cut = getattr(parameter, "tensor_model_parallel", False)
    place = parallel_state.get_tensor_model_parallel_rank() if cut else 0
    if name == "output_layer.weight" and not llama:
        name = "embedding.word_embeddings.weight"
    return hash((name, place, 0 if "embedding" in name else stage, step))


def train(model, optimizer, llama):
    for step in range(STEP):
        for name, parameter in model.named_parameters():
            torch.manual_seed(seed_of(name, parameter, llama, step))
            parameter.main_grad = torch.randn(parameter.shape)
        optimizer.prepare_grads() if not hasattr(optimizer, "float16_groups") else (
            optimizer._copy_model_grads_to_main_grads())
        optimizer.optimizer.step()
        if hasattr(optimizer, "float16_groups"):
            optimizer._copy_main_params_to_model_params()


def write(rank, folder, case, store):
    patch()
    name_devices()
    tp, pp, llama, dtype = case["tp"], case["pp"], case.get("llama", False), getattr(torch, case["dtype"])
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=tp * pp)
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel(tp, pp)
    args = arguments(**case)
    model = make_model(args, tp, pp)
    model.to(dtype)
    optimizer = make_optimizer(model, dtype)
    train(model, optimizer, llama)
    saved = dict(args=argparse.Namespace(**args), checkpoint_version=3.0, iteration=STEP)
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    stage = parallel_state.get_pipeline_model_parallel_rank()

    def save(kind, **what):
        place = folder / kind / f"iter_{STEP:07d}" / (
            f"mp_rank_{tensor_rank:02d}" + (f"_{stage:03d}" if pp > 1 else ""))
        place.mkdir(parents=True)
        torch.save(dict(saved, **what), place / "model_optim_rng.pt")
        if rank == 0:
            (folder / kind / "latest_checkpointed_iteration.txt").write_text(str(STEP))

    weights = model.state_dict()
    save("legacy", model=weights, optimizer=optimizer.state_dict())
    mains = {name: getattr(one, "main_param", one) for name, one in model.named_parameters()}
    save("weights", model={name: mains[name].detach() for name in weights if name in mains})
    for key in ("exp_avg", "exp_avg_sq"):
        save(key, model={name: optimizer.optimizer.state[mains[name]][key] for name in weights if name in mains})
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def make(folder, case):
    run_processes(write, case["tp"] * case["pp"], folder, case)


def damage(file, change):
    saved = torch.load(file, weights_only=False)
    change(saved["optimizer"])
    torch.save(saved, file)


def swap_states(optimizer):
    """Swaps the states of the embedding and of the first projection."""
    state = optimizer["optimizer"]["state"]
    state[0], state[1] = state[1], state[0]


def swap_weights(optimizer):
    """Swaps two vectors of equal shape."""
    group = optimizer["fp32_from_fp16_params"][1]
    group[0], group[1] = group[1], group[0]


def drop_group(optimizer):
    optimizer["optimizer"]["param_groups"].pop()
    optimizer["fp32_from_fp16_params"].pop()


def other_step(optimizer):
    optimizer["optimizer"]["state"][2]["step"] += 1


DAMAGES = dict(swapped_states=swap_states, swapped_weights=swap_weights, dropped_group=drop_group,
               other_step=other_step)


def make_test_data(data):
    shutil.rmtree(data, ignore_errors=True)
    for dtype in ("bfloat16", "float32"):
        make(data / dtype, dict(llama=False, tp=2 if dtype == "bfloat16" else 1, pp=1, layers=1, hidden=8, dtype=dtype))
    for name, change in DAMAGES.items():
        copy = data / "damaged" / name
        copy.mkdir(parents=True)
        shutil.copy(next((data / "bfloat16/legacy").rglob("mp_rank_00/*.pt")), copy)
        damage(copy / "model_optim_rng.pt", change)


if __name__ == "__main__":
    fix_hashes()
    if len(sys.argv) > 1:
        for made, what in json.loads(sys.argv[1]).items():
            make(Path(made), what)
    else:
        make_test_data(Path(__file__).parent / "megatron_optimizer")
