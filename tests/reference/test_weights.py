"""Random tiny models against transformers: weights there and back, logits, greedy text."""
import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

transformers.logging.set_verbosity_error()


def gpt2(rng):
    heads = rng.choice([1, 2, 3, 4])
    return transformers.GPT2Config(
        vocab_size=rng.randint(40, 150), n_positions=rng.choice([32, 48, 64]),
        n_embd=heads * rng.choice([4, 8, 16]), n_layer=rng.randint(1, 3), n_head=heads,
        n_inner=rng.choice([None, 24, 40]),
        activation_function=rng.choice(["gelu_new", "gelu", "gelu_pytorch_tanh"]),
        layer_norm_epsilon=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.7)


def rope(rng, positions):
    theta = rng.choice([10000.0, 500000.0])
    return rng.choice([
        {"rope_type": "default", "rope_theta": theta},
        {"rope_type": "linear", "rope_theta": theta, "factor": rng.choice([2.0, 4.0])},
        {"rope_type": "llama3", "rope_theta": theta, "factor": 8.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": positions // 2},
    ])


def llama(rng):
    groups, queries = rng.choice([1, 2, 3]), rng.choice([1, 2, 4])
    heads, head_dim = groups * queries, rng.choice([4, 8, 16])
    bias = rng.random() < 0.3
    positions = rng.choice([32, 64])
    return transformers.LlamaConfig(
        vocab_size=rng.randint(40, 150), max_position_embeddings=positions,
        hidden_size=heads * head_dim if rng.random() < 0.7 else 8 * rng.randint(1, 6),
        head_dim=head_dim, intermediate_size=rng.choice([16, 24, 56]),
        num_hidden_layers=rng.randint(1, 3), num_attention_heads=heads, num_key_value_heads=groups,
        rms_norm_eps=rng.choice([1e-5, 1e-6]), tie_word_embeddings=rng.random() < 0.4,
        attention_bias=bias, mlp_bias=bias, rope_parameters=rope(rng, positions))


def bert(rng, config=transformers.BertConfig):
    heads = rng.choice([1, 2, 4])
    return config(
        vocab_size=rng.randint(40, 150), max_position_embeddings=rng.choice([32, 48]),
        hidden_size=heads * rng.choice([4, 8, 16]), num_hidden_layers=rng.randint(1, 3),
        num_attention_heads=heads, intermediate_size=rng.choice([16, 24, 56]),
        hidden_act=rng.choice(["gelu", "gelu_new"]), layer_norm_eps=rng.choice([1e-12, 1e-6]))


def megatron_bert(rng):
    return bert(rng, transformers.MegatronBertConfig)


KINDS = {
    "gpt2": (gpt2, transformers.GPT2LMHeadModel),
    "llama": (llama, transformers.LlamaForCausalLM),
    "bert": (bert, transformers.BertForPreTraining),
    "megatron_bert": (megatron_bert, transformers.MegatronBertForPreTraining),
}


def make_model(kind, rng):
    """A model with random weights everywhere, norms and biases included."""
    config, model_class = KINDS[kind]
    torch.manual_seed(rng.randrange(2**31))
    model = model_class(config(rng)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def random_lines(rng, model, count=5):
    """Lines of ids of different lengths."""
    config = model.config
    return [[rng.randrange(config.vocab_size) for _ in range(rng.randint(1, 24))]
            for _ in range(count)]


def reference_logits(model, line, types=None):
    """All logits of one line, the order head's second."""
    inputs = {"input_ids": torch.tensor([line])}
    if types is not None:
        inputs["token_type_ids"] = torch.tensor([types])
    with torch.no_grad():
        out = model(**inputs)
    if types is None:
        return out.logits[0], None
    return out.prediction_logits[0], out.seq_relationship_logits[0]


def score(trireme, run, lines, folder, types=None):
    rows = lines if types is None else [{"ids": i, "token_types": t} for i, t in zip(lines, types)]
    (folder / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trireme("score", run, "--ids", folder / "ids.jsonl", "--output", folder / "logits.safetensors",
            "--set", "run.precision=fp32")
    return load_file(folder / "logits.safetensors")


def assert_close(got, want):
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5 * max(1, want.abs().max().item()))


@pytest.mark.parametrize("kind", KINDS)
def test_imported_models_have_the_logits_of_the_reference(trireme, rng, tries, tmp_path, kind):
    for i in range(tries(6)):
        folder = tmp_path / str(i)
        model = make_model(kind, rng)
        model.save_pretrained(folder / "hf")
        trireme("convert", "--from", "hf", folder / "hf", folder / "run")
        lines = random_lines(rng, model)
        types = [[rng.randrange(2) for _ in line] for line in lines] if "bert" in kind else None
        got = score(trireme, folder / "run", lines, folder, types)
        for s, line in enumerate(lines):
            want, order = reference_logits(model, line, types and types[s])
            assert_close(got[f"logits.{s}"], want)
            if order is not None:
                assert_close(got[f"order_logits.{s}"], order)


@pytest.mark.parametrize("kind", KINDS)
def test_exported_models_are_bit_for_bit_what_was_imported(trireme, rng, tries, tmp_path, kind):
    for i in range(tries(3)):
        folder = tmp_path / str(i)
        model = make_model(kind, rng)
        model.save_pretrained(folder / "hf")
        trireme("convert", "--from", "hf", folder / "hf", folder / "run")
        trireme("convert", "--to", "hf", folder / "run", folder / "back")
        back, report = KINDS[kind][1].from_pretrained(folder / "back", output_loading_info=True)
        assert not any(report.values()), report
        want = dict(model.named_parameters())
        got = dict(back.named_parameters())
        assert want.keys() == got.keys()
        for name in want:
            assert torch.equal(want[name], got[name]), name
        line = random_lines(rng, model, 1)[0]
        types = [0] * len(line) if "bert" in kind else None
        assert torch.equal(reference_logits(model, line, types)[0],
                           reference_logits(back.eval(), line, types)[0])
