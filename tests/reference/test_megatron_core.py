"""Models of megatron-core itself: saved by PyTorch as Megatron-LM saves them, and loaded from what we
write; their logits and ours."""
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
from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec  # noqa: E402
from megatron.core.models.bert.bert_model import BertModel  # noqa: E402
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


def arguments(rng, llama, groups=None):
    """Those that Megatron-LM would have."""
    groups, queries = groups or rng.choice([1, 2]), rng.choice([1, 2, 4])
    head_dim = rng.choice([8, 16])
    heads = groups * queries if llama else rng.choice([2, 4])
    return dict(num_layers=rng.randint(1, 3), hidden_size=heads * head_dim, kv_channels=head_dim,
                num_attention_heads=heads, ffn_hidden_size=rng.choice([24, 56]), swiglu=llama,
                group_query_attention=llama, num_query_groups=groups if llama else 1,
                add_bias_linear=not llama, normalization="RMSNorm" if llama else "LayerNorm",
                norm_epsilon=1e-5, max_position_embeddings=32, seq_length=32,
                position_embedding_type="rope" if llama else "learned_absolute",
                rotary_base=10000, rotary_percent=1.0, bias_gelu_fusion=not llama,
                untie_embeddings_and_output_weights=llama, hidden_dropout=0.0,
                attention_dropout=0.0, num_experts=None, window_size=None, padded_vocab_size=64,
                make_vocab_size_divisible_by=8,
                tensor_model_parallel_size=1, pipeline_model_parallel_size=1)


def build(args, tp=1):
    llama = args["swiglu"]
    gelu = lambda x: torch.nn.functional.gelu(x, approximate="tanh")  # noqa: E731
    config = TransformerConfig(
        num_layers=args["num_layers"], hidden_size=args["hidden_size"],
        num_attention_heads=args["num_attention_heads"],
        num_query_groups=args["num_query_groups"] if llama else None,
        kv_channels=args["kv_channels"], ffn_hidden_size=args["ffn_hidden_size"],
        use_cpu_initialization=True, gated_linear_unit=llama, add_bias_linear=not llama,
        normalization=args["normalization"],
        activation_func=torch.nn.functional.silu if llama else gelu, layernorm_epsilon=1e-5,
        hidden_dropout=0.0, attention_dropout=0.0, tensor_model_parallel_size=tp)
    return GPTModel(config, get_gpt_layer_local_spec(normalization=args["normalization"]),
                    vocab_size=64, max_sequence_length=32,
                    position_embedding_type=args["position_embedding_type"],
                    share_embeddings_and_output_weights=not llama,
                    rope_scaling=args.get("use_rope_scaling", False)).eval()


def make(rng, llama, groups=None):
    """A model with random weights and the arguments that Megatron-LM would have for it."""
    args = arguments(rng, llama, groups)
    model = build(args)
    torch.manual_seed(rng.randrange(2**31))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, args


def save(model, args, folder):
    """As Megatron-LM does with --ckpt-format torch."""
    place = folder / "iter_0000003/mp_rank_00"
    place.mkdir(parents=True)
    torch.save({"args": argparse.Namespace(**args), "checkpoint_version": 3.0, "iteration": 3,
                "model": model.state_dict()}, place / "model_optim_rng.pt")
    (folder / "latest_checkpointed_iteration.txt").write_text("3")


def load(model, folder, rank=0):
    saved = torch.load(folder / f"release/mp_rank_{rank:02d}/model_optim_rng.pt",
                       weights_only=False)
    model.load_state_dict(saved["model"], strict=True)
    return saved


def logits(model, line):
    n = len(line)
    mask = torch.triu(torch.ones(1, 1, n, n, dtype=torch.bool), 1)
    with torch.no_grad():
        return model(torch.tensor([line]), torch.arange(n)[None], mask)[0].float()


def random_tokens(rng):
    return [[rng.randrange(64) for _ in range(rng.randint(1, 24))] for _ in range(4)]


@pytest.mark.parametrize("llama", [False, True], ids=["gpt", "llama"])
def test_a_model_of_megatron_core_has_its_logits(trireme, rng, tries, tmp_path, megatron, llama):
    for i in range(tries(3)):
        model, args = make(rng, llama)
        folder = tmp_path / str(i)
        save(model, args, folder / "megatron")
        trireme("convert", folder / "megatron", folder / "run")
        lines = random_tokens(rng)
        got = score(trireme, folder / "run", lines, folder)
        for s, line in enumerate(lines):
            assert_close(got[f"logits.{s}"], logits(model, line))


@pytest.mark.parametrize("llama", [False, True], ids=["gpt", "llama"])
def test_megatron_core_loads_what_is_written(trireme, rng, tries, tmp_path, megatron, llama):
    for i in range(tries(3)):
        model, args = make(rng, llama)
        folder = tmp_path / str(i)
        save(model, args, folder / "megatron")
        trireme("convert", folder / "megatron", folder / "run")
        trireme("convert", "--to", "megatron", "--megatron-names", "local", folder / "run",
                folder / "back")
        again = build(args)
        saved = load(again, folder / "back")
        want = model.state_dict()
        assert saved["model"].keys() == want.keys()
        for name, tensor in want.items():
            got = saved["model"][name]
            assert got is tensor is None or torch.equal(got, tensor), name
        # What Megatron-LM compares with its flags. As many groups as heads are no groups.
        expected = dict(args)
        if expected["num_query_groups"] == expected["num_attention_heads"]:
            del expected["group_query_attention"], expected["num_query_groups"]
        for key, value in expected.items():
            assert getattr(saved["args"], key) == value, key
        line = random_tokens(rng)[0]
        assert torch.equal(logits(again, line), logits(model, line))


def run_rank(rank, store, folder, args, lines):
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    model = build(args, tp=2)
    load(model, folder / "back", rank)
    results = []
    for line in lines:
        words = logits(model, line).contiguous()  # of this rank
        parts = [torch.empty_like(words) for _ in range(2)]
        torch.distributed.all_gather(parts, words)
        results.append(torch.cat(parts, -1))
    if rank == 0:
        torch.save(results, folder / "results.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("llama", [False, True], ids=["gpt", "llama"])
def test_two_ranks_of_megatron_core_have_our_logits(trireme, rng, tmp_path, megatron, llama):
    model, args = make(rng, llama, groups=2)
    save(model, args, tmp_path / "megatron")
    trireme("convert", tmp_path / "megatron", tmp_path / "run")
    trireme("convert", "--to", "megatron", "--megatron-names", "local", "--tp", 2, tmp_path / "run",
            tmp_path / "back")
    lines = random_tokens(rng)
    torch.multiprocessing.spawn(run_rank, (f"file://{tmp_path}/ranks", tmp_path, args, lines), 2)
    got = score(trireme, tmp_path / "run", lines, tmp_path)
    for s, want in enumerate(torch.load(tmp_path / "results.pt")):
        assert_close(got[f"logits.{s}"], want)


def build_bert(args):
    config = TransformerConfig(
        num_layers=args["num_layers"], hidden_size=args["hidden_size"], num_attention_heads=args["num_attention_heads"],
        kv_channels=args["kv_channels"], ffn_hidden_size=args["ffn_hidden_size"], use_cpu_initialization=True,
        activation_func=torch.nn.functional.gelu, layernorm_epsilon=1e-5, hidden_dropout=0.0, attention_dropout=0.0)
    return BertModel(config, 2 if args["bert_binary_head"] else 0, bert_layer_local_spec, vocab_size=64,
                     max_sequence_length=32, share_embeddings_and_output_weights=True,
                     add_binary_head=args["bert_binary_head"]).eval()


@pytest.mark.parametrize("binary_head", [True, False], ids=["binary_head", "no_binary_head"])
def test_a_bert_of_megatron_core_has_its_logits(trireme, rng, tries, tmp_path, megatron, binary_head):
    for i in range(tries(2)):
        args = dict(arguments(rng, False), bert_binary_head=binary_head, bias_gelu_fusion=False)
        model = build_bert(args)
        torch.manual_seed(rng.randrange(2**31))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        folder = tmp_path / str(i)
        save(model, args, folder / "megatron")
        trireme("convert", folder / "megatron", folder / "run")
        trireme("convert", "--to", "megatron", "--megatron-names", "local", folder / "run", folder / "back")
        again = build_bert(args)
        load(again, folder / "back")
        lines = random_tokens(rng)
        types = [[rng.randrange(2) for _ in line] for line in lines] if binary_head else None
        got = score(trireme, folder / "run", lines, folder, types)
        for s, line in enumerate(lines):
            inputs = torch.tensor([line]), torch.ones(1, len(line)), torch.tensor([types[s]]) if types else None
            with torch.no_grad():
                words, order = model(*inputs)
                assert torch.equal(again(*inputs)[0], words)
            assert_close(got[f"logits.{s}"], words[0])
            if binary_head:
                assert_close(got[f"order_logits.{s}"], order[0])


def test_words_that_pad_a_bert_count_for_nothing(trireme, rng, tmp_path, megatron):
    """Its loss is then that of the words alone."""
    args = dict(arguments(rng, False), num_layers=1, bert_binary_head=False, bias_gelu_fusion=False)
    save(build_bert(args), args, tmp_path / "megatron")
    trireme("convert", tmp_path / "megatron", tmp_path / "run", "--set", "model.vocab_size=61")
    trireme("convert", "--to", "megatron", "--megatron-names", "local", tmp_path / "run", tmp_path / "back")
    model = build_bert(args)
    load(model, tmp_path / "back")
    lines = [[rng.randrange(61) for _ in range(9)] for _ in range(2)]
    got = score(trireme, tmp_path / "run", lines, tmp_path)
    for s, line in enumerate(lines):
        with torch.no_grad():
            words = model(torch.tensor([line]), torch.ones(1, len(line)))[0][0]
        assert got[f"logits.{s}"].shape[1] == 61
        assert_close(got[f"logits.{s}"].log_softmax(-1), words.log_softmax(-1)[:, :61])


def compare_logits(trireme, rng, folder, model):
    lines = random_tokens(rng)
    got = score(trireme, folder / "run", lines, folder)
    for s, line in enumerate(lines):
        assert_close(got[f"logits.{s}"], logits(model, line))


def test_arguments_that_the_core_leaves_unread_do_not_count(trireme, rng, tmp_path, megatron):
    """openai_gelu, which only the legacy models read, and another factor than 8, which no model is given."""
    model, args = make(rng, False)
    for layer in model.decoder.layers:
        layer.mlp.activation_func = torch.nn.functional.gelu
    save(model, dict(args, openai_gelu=True, bias_gelu_fusion=False), tmp_path / "gelu/megatron")
    told = trireme("convert", tmp_path / "gelu/megatron", tmp_path / "gelu/run")
    assert "openai_gelu has no effect" in told.stdout
    compare_logits(trireme, rng, tmp_path / "gelu", model)

    args = dict(arguments(rng, True), use_rope_scaling=True, rope_scaling_factor=32.0)
    model = build(args)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    save(model, args, tmp_path / "rope/megatron")
    done = trireme("convert", tmp_path / "rope/megatron", tmp_path / "rope/run", code=2)
    assert "rope_scaling_factor is 32" in done.stderr and "model.rope_scaling_factor=8" in done.stderr
    trireme("convert", tmp_path / "rope/megatron", tmp_path / "rope/run", "--set", "model.rope_scaling_factor=8")
    compare_logits(trireme, rng, tmp_path / "rope", model)


def test_a_bert_of_two_gelus_is_noted(trireme, rng, tmp_path, megatron):
    """The layers fuse it with the bias, in its tanh form, as Megatron does by default; the head does not."""
    args = dict(arguments(rng, False), num_layers=1, bert_binary_head=True)
    save(build_bert(args), args, tmp_path / "megatron")
    for settings, expected in ([], True), (["--set", "model.activation=gelu_erf"], False):
        run = tmp_path / f"run{len(settings)}"
        told = trireme("convert", tmp_path / "megatron", run, *settings)
        assert ("in the layers of this BERT" in told.stdout) == expected
