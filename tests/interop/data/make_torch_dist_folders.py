"""Writes FOLDER/torch_dist and FOLDER/legacy: the same model of megatron-core with random weights, saved by its
own dist_checkpointing, with the states of its own FP32Optimizer, and as Megatron-LM saves it with
--ckpt-format torch. Needs torch and megatron-core; everything runs on the CPU.

    make_torch_dist_folders.py                     # the test data, torch_dist/
    make_torch_dist_folders.py FOLDER CASE(json)   # for tests/reference

A case has llama, tp, pp and may have layers, hidden and stacked. The first moment is half of its weight and the second its square, so that what
belongs together can be told."""
import argparse
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.multiprocessing

STEP = 3


def patch():
    """What asks for a GPU is told of the CPU, and random states of GPUs are left alone."""
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.cuda.synchronize = lambda *_: None
    make_tensor = torch.tensor
    torch.tensor = lambda *values, device=None, **more: make_tensor(*values, **more)
    from megatron.core.tensor_parallel import random
    random.CudaRNGStatesTracker.fork = lambda *_, **__: contextlib.nullcontext()


def arguments(llama, tp, pp, layers=4, hidden=32, **_):
    return dict(
        num_layers=layers, hidden_size=hidden, kv_channels=hidden // 4, num_attention_heads=4, ffn_hidden_size=24, swiglu=llama,
        group_query_attention=llama, num_query_groups=2 if llama else 1, add_bias_linear=not llama,
        normalization="RMSNorm" if llama else "LayerNorm", norm_epsilon=1e-5, max_position_embeddings=16,
        seq_length=16, position_embedding_type="rope" if llama else "learned_absolute", rotary_base=10000,
        rotary_percent=1.0, bias_gelu_fusion=True, untie_embeddings_and_output_weights=llama, hidden_dropout=0.0,
        attention_dropout=0.0, num_experts=None, window_size=None, padded_vocab_size=64, vocab_size=61,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, global_batch_size=8, lr=1e-3,
        adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, weight_decay=0.1, consumed_train_samples=24)


def make_model(args, tp, pp):
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_config import TransformerConfig
    llama = args["swiglu"]
    config = TransformerConfig(
        num_layers=args["num_layers"], hidden_size=args["hidden_size"],
        num_attention_heads=args["num_attention_heads"], num_query_groups=args["num_query_groups"] if llama else None,
        kv_channels=args["kv_channels"], ffn_hidden_size=args["ffn_hidden_size"], use_cpu_initialization=True,
        gated_linear_unit=llama, add_bias_linear=args["add_bias_linear"], normalization=args["normalization"],
        activation_func=torch.nn.functional.silu if llama else torch.nn.functional.gelu, layernorm_epsilon=1e-5,
        hidden_dropout=0.0, attention_dropout=0.0, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        pipeline_dtype=torch.float32)
    model = GPTModel(
        config, get_gpt_layer_local_spec(normalization=args["normalization"]), vocab_size=64,
        max_sequence_length=args["max_position_embeddings"], pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type=args["position_embedding_type"], share_embeddings_and_output_weights=not llama)
    # What several ranks hold is the same on all of them, as the tied embedding of the last stage is.
    stage = parallel_state.get_pipeline_model_parallel_rank()
    for name, parameter in model.named_parameters():
        cut = getattr(parameter, "tensor_model_parallel", False)
        place = parallel_state.get_tensor_model_parallel_rank() if cut else 0
        if "output_layer" in name and not llama:
            name = "embedding.word_embeddings.weight"
        torch.manual_seed(hash((name, place, 0 if "embedding" in name else stage)))
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


def write(rank, folder, case, store):
    patch()
    tp, pp, llama = case["tp"], case["pp"], case["llama"]
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=tp * pp)
    from megatron.core import dist_checkpointing, parallel_state
    parallel_state.initialize_model_parallel(tp, pp)
    args = arguments(**case)
    model = make_model(args, tp, pp)
    common = dict(args=argparse.Namespace(**args), checkpoint_version=3.0, iteration=STEP)
    metadata = dict(non_homogeneous_layers=not case.get("stacked", True))
    sharded = model.sharded_state_dict(metadata=metadata)
    state = dict(common, **sharded, optimizer=make_optimizer(model).sharded_state_dict(sharded))
    place = folder / "torch_dist" / f"iter_{STEP:07d}"
    place.mkdir(parents=True, exist_ok=True)
    torch.distributed.barrier()
    dist_checkpointing.save(state, str(place))
    stage = parallel_state.get_pipeline_model_parallel_rank()
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    legacy = folder / "legacy" / f"iter_{STEP:07d}" / (
        f"mp_rank_{tensor_rank:02d}" + (f"_{stage:03d}" if pp > 1 else ""))
    legacy.mkdir(parents=True)
    torch.save(dict(common, model=model.state_dict()), legacy / "model_optim_rng.pt")
    if rank == 0:
        for kind in ("torch_dist", "legacy"):
            (folder / kind / "latest_checkpointed_iteration.txt").write_text(str(STEP))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ["PYTHONHASHSEED"] = "0"  # of the processes that are started: names become seeds
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    made = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "torch_dist"
    what = json.loads(sys.argv[2]) if len(sys.argv) > 2 else dict(llama=True, tp=2, pp=1, layers=2, hidden=16)
    with tempfile.TemporaryDirectory() as temporary:
        torch.multiprocessing.spawn(write, (made, what, f"{temporary}/ranks"), nprocs=what["tp"] * what["pp"])
