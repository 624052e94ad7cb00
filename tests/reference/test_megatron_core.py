"""A model of megatron-core itself, saved by PyTorch as Megatron-LM saves it: its logits and ours."""
import argparse
import contextlib

import pytest
import torch

from test_weights import assert_close, score

# On the CPU: what asks for a GPU is told of the CPU, and random states of GPUs are left alone.
torch.cuda.current_device = lambda: torch.device("cpu")
random_states = pytest.importorskip("megatron.core.tensor_parallel.random")
random_states.CudaRNGStatesTracker.fork = lambda *_, **__: contextlib.nullcontext()
from megatron.core import parallel_state  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402


@pytest.fixture(scope="module")
def megatron(tmp_path_factory):
    store = f"file://{tmp_path_factory.mktemp('store')}/ranks"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    yield
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


def make(rng, llama):
    """A model with random weights and the arguments that Megatron-LM would have for it."""
    groups, queries, head_dim = rng.choice([1, 2]), rng.choice([1, 2, 4]), rng.choice([8, 16])
    heads = groups * queries if llama else rng.choice([2, 4])
    args = dict(num_layers=rng.randint(1, 3), hidden_size=heads * head_dim, kv_channels=head_dim,
                num_attention_heads=heads, ffn_hidden_size=rng.choice([24, 56]), swiglu=llama,
                group_query_attention=llama, num_query_groups=groups if llama else 1,
                add_bias_linear=not llama, normalization="RMSNorm" if llama else "LayerNorm",
                norm_epsilon=1e-5, max_position_embeddings=32, seq_length=32,
                position_embedding_type="rope" if llama else "learned_absolute",
                rotary_base=10000, rotary_percent=1.0, bias_gelu_fusion=True,
                untie_embeddings_and_output_weights=llama, hidden_dropout=0.0,
                attention_dropout=0.0, num_experts=None, window_size=None, padded_vocab_size=64,
                tensor_model_parallel_size=1, pipeline_model_parallel_size=1)
    gelu = lambda x: torch.nn.functional.gelu(x, approximate="tanh")  # noqa: E731
    config = TransformerConfig(
        num_layers=args["num_layers"], hidden_size=args["hidden_size"], num_attention_heads=heads,
        num_query_groups=groups if llama else None, kv_channels=head_dim,
        ffn_hidden_size=args["ffn_hidden_size"], use_cpu_initialization=True,
        gated_linear_unit=llama, add_bias_linear=not llama, normalization=args["normalization"],
        activation_func=torch.nn.functional.silu if llama else gelu, layernorm_epsilon=1e-5,
        hidden_dropout=0.0, attention_dropout=0.0)
    model = GPTModel(config, get_gpt_layer_local_spec(normalization=args["normalization"]),
                     vocab_size=64, max_sequence_length=32,
                     position_embedding_type=args["position_embedding_type"],
                     share_embeddings_and_output_weights=not llama).eval()
    torch.manual_seed(rng.randrange(2**31))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, args


@pytest.mark.parametrize("llama", [False, True], ids=["gpt", "llama"])
def test_a_model_of_megatron_core_has_its_logits(trireme, rng, tries, tmp_path, megatron, llama):
    for i in range(tries(3)):
        model, args = make(rng, llama)
        folder = tmp_path / str(i)
        place = folder / "megatron/iter_0000003/mp_rank_00"
        place.mkdir(parents=True)
        torch.save({"args": argparse.Namespace(**args), "checkpoint_version": 3.0, "iteration": 3,
                    "model": model.state_dict()}, place / "model_optim_rng.pt")
        (folder / "megatron/latest_checkpointed_iteration.txt").write_text("3")
        trireme("convert", folder / "megatron", folder / "run")
        lines = [[rng.randrange(64) for _ in range(rng.randint(1, 24))] for _ in range(4)]
        got = score(trireme, folder / "run", lines, folder)
        for s, line in enumerate(lines):
            n = len(line)
            mask = torch.triu(torch.ones(1, 1, n, n, dtype=torch.bool), 1)
            with torch.no_grad():
                want = model(torch.tensor([line]), torch.arange(n)[None], mask)[0]
            assert_close(got[f"logits.{s}"], want.float())
