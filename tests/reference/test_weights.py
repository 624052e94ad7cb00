"""Tests of random tiny models against transformers: weights in both directions, logits, greedy text."""
import json
import sys
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

from random_models import KINDS, bert, gpt_oss, make_model, random_lines

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from read_checkpoint import read_checkpoint  # noqa: E402


def reference_logits(model, line, types=None):
    """Returns all logits of a line, with those of the sentence order head second."""
    inputs = {"input_ids": torch.tensor([line])}
    if types is not None:
        inputs["token_type_ids"] = torch.tensor([types])
    with torch.no_grad():
        out = model(**inputs)
    if "logits" in out:
        return out.logits[0], None
    return out.prediction_logits[0], out.seq_relationship_logits[0]


def score(trireme, run, lines, folder, types=None):
    rows = lines if types is None else [{"ids": i, "token_types": t} for i, t in zip(lines, types)]
    (folder / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trireme("score", run, "--ids", folder / "ids.jsonl", "--output", folder / "logits.safetensors",
            "--set", "run.precision=fp32")
    return load_file(folder / "logits.safetensors")


# Both programs round in 32 bits; a recurrence amplifies that.
TOLERANCES = {"qwen3_next": 1e-4, "qwen3_5": 1e-4, "qwen3_5_moe": 1e-4, "granite_hybrid": 1e-4,
              "nemotron_h": 1e-4}

# Classes that a model is written as where another one computes the same with other tensors.
WRITTEN_AS = {"qwen3_5_moe": transformers.Qwen3NextForCausalLM}


def assert_close(got, want, tolerance=2e-5):
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=tolerance,
                               atol=tolerance * max(1, want.abs().max().item()))


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
            assert_close(got[f"logits.{s}"], want, TOLERANCES.get(kind, 2e-5))
            if order is not None:
                assert_close(got[f"order_logits.{s}"], order)


def assert_same_tensors(model, back):
    want, got = (dict(m.named_parameters()) | {
        name: buffer for name, buffer in m.named_buffers() if name.endswith("correction_bias")}
        for m in (model, back))
    assert want.keys() == got.keys()
    for name in want:
        assert torch.equal(want[name], got[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_exported_models_are_bit_for_bit_what_was_imported(trireme, rng, tries, tmp_path, kind):
    for i in range(tries(3)):
        folder = tmp_path / str(i)
        model = make_model(kind, rng)
        model.save_pretrained(folder / "hf")
        trireme("convert", "--from", "hf", folder / "hf", folder / "run")
        trireme("convert", "--to", "hf", folder / "run", folder / "back")
        written_as = WRITTEN_AS.get(kind, KINDS[kind][1])
        back, report = written_as.from_pretrained(folder / "back", output_loading_info=True)
        assert not any(report.values()), report
        if kind in WRITTEN_AS:
            trireme("convert", "--from", "hf", folder / "back", folder / "again")
            trireme("diff", folder / "run", folder / "again")
        else:
            assert_same_tensors(model, back)
        line = random_lines(rng, model, 1)[0]
        types = [0] * len(line) if "bert" in kind else None
        # Not bit-equal: "gelu_pytorch_tanh" comes back as "gelu_new", the same function.
        assert_close(reference_logits(back.eval(), line, types)[0],
                     reference_logits(model, line, types)[0])


TEXT = """The galley lay in the harbour, and the rowers slept on their benches. At dawn the drum began.
Three banks of oars dipped, pulled and rose again; the water ran white along her sides.
She passed the mole, turned into the wind and was gone before the fishermen had raised a sail.
"""


def save_tokenizer(folder, opens, vocabulary):
    """Saves a byte-level BPE; with `opens` every text begins with <s>, as in a Llama."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    if opens:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>",
                                                eos_token="</s>")
    fast.save_pretrained(folder)
    return fast


def model_with_tokenizer(rng, kind, opens, folder):
    """Saves a random model with a vocabulary of 300 in `folder`, and its tokenizer."""
    config, model_class = KINDS[kind]
    config = config(rng)
    config.vocab_size, config.bos_token_id, config.eos_token_id = 300, 0, 1
    torch.manual_seed(rng.randrange(2**31))
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model, save_tokenizer(folder, opens, 300)


CASES = [("llama", True), ("llama", False), ("gpt2", True)]


# Windows and norms over all heads must work with the KV cache, too.
@pytest.mark.parametrize("kind,opens", CASES + [("mistral", True), ("olmo2", True),
                                                ("bloom", True), ("gemma", True),
                                                ("gemma2", True), ("gemma3", True),
                                                ("smollm3", True), ("ministral3", True),
                                                ("glm4", True), ("granite", True),
                                                ("deepseek_v3", True), ("gpt_oss", True),
                                                ("qwen3_next", True), ("qwen3_5", True),
                                                ("qwen3_5_moe", True), ("phi3_longrope", True),
                                                ("llama4", True), ("granite_hybrid", True),
                                                ("nemotron_h", True)])
def test_greedy_text_is_that_of_the_reference(trireme, rng, tries, tmp_path, kind, opens):
    for i in range(tries(3)):
        folder = tmp_path / str(i)
        model, tokenizer = model_with_tokenizer(rng, kind, opens, folder / "hf")
        trireme("convert", "--from", "hf", folder / "hf", folder / "run")
        start = rng.randrange(len(TEXT) - 20)
        prompt = TEXT[start:start + rng.randint(1, 20)]
        got = trireme.json("generate", folder / "run", "--prompt", prompt, "--greedy", "--json",
                           "--max-new-tokens", 12, "--set", "run.precision=fp32")
        inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        assert got["prompt_tokens"] == inputs["input_ids"].shape[1]
        want = model.generate(**inputs, do_sample=False, max_new_tokens=12, pad_token_id=1)[0]
        assert got["ids"] == want.tolist()
        assert got["text"] == tokenizer.decode(want, skip_special_tokens=True,
                                               clean_up_tokenization_spaces=False)


def test_weights_in_mxfp4_are_read_as_by_the_reference(trireme, rng, tmp_path):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    config = gpt_oss(rng)
    config.hidden_size, config.intermediate_size = 64, 32
    torch.manual_seed(rng.randrange(2**31))
    model = transformers.GptOssForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "hf")
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    for name in [n for n in tensors if n.endswith(("gate_up_proj", "down_proj"))]:
        experts, inner, out = tensors.pop(name).shape
        blocks = torch.randint(0, 256, (experts, out, inner // 32, 16), dtype=torch.uint8)
        scales = torch.randint(121, 126, (experts, out, inner // 32), dtype=torch.uint8)
        tensors |= {name + "_blocks": blocks, name + "_scales": scales}
        with torch.no_grad():
            model.get_parameter(name).copy_(convert_moe_packed_tensors(blocks, scales))
    save_file(tensors, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((tmp_path / "hf" / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(settings))
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "run")
    lines = random_lines(rng, model)
    got = score(trireme, tmp_path / "run", lines, tmp_path)
    for s, line in enumerate(lines):
        assert_close(got[f"logits.{s}"], reference_logits(model, line)[0])


def windowed_loss(model, ids, length):
    """Each token is scored in the first window that contains it; windows start every half window."""
    total, scored, begin, last = 0.0, 0, 0, len(ids) - 1
    while scored < last:
        window = torch.tensor([ids[begin:min(begin + length, last)]])
        with torch.no_grad():
            losses = -torch.log_softmax(model(window).logits[0].double(), -1)
        for at in range(scored, min(last, begin + length)):
            total += losses[at - begin, ids[at + 1]].item()
        scored = min(last, begin + length)
        begin += length // 2
    return total / last


@pytest.mark.parametrize("kind,opens", CASES)
def test_eval_reads_text_as_training_does(trireme, rng, tmp_path, kind, opens):
    model, tokenizer = model_with_tokenizer(rng, kind, opens, tmp_path / "hf")
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "run")
    (tmp_path / "text.txt").write_text(TEXT)
    length = model.config.max_position_embeddings
    documents = {"file": [TEXT], "line": [line for line in TEXT.split("\n") if line]}
    for form, texts in documents.items():
        got = trireme.json("eval", tmp_path / "run", "--text", tmp_path / "text.txt",
                           "--documents", form, "--json", "--set", "run.precision=fp32")
        ids = [] if opens else [1]
        for text in texts:
            ids += tokenizer(text)["input_ids"] + ([1] if form == "line" else [])
        assert got["tokens"] == len(ids) - 1
        assert got["loss"] == pytest.approx(windowed_loss(model, ids, length), rel=1e-5)
    # The same documents through preprocessing.
    trireme("preprocess", "--input", tmp_path / "text.txt", "--documents", "line", "--append-eod",
            "--tokenizer-type", "hf", "--tokenizer-model", tmp_path / "hf/tokenizer.json",
            "--output-prefix", tmp_path / "data")
    indexed = trireme.json("eval", tmp_path / "run", "--data", tmp_path / "data_text_document",
                           "--json", "--set", "run.precision=fp32")
    assert indexed["loss"] == got["loss"] and indexed["tokens"] == got["tokens"]


def test_a_head_that_is_not_the_embedding_is_not_dropped(trireme, rng, tmp_path):
    """transformers loads an lm_head that differs from the tied embedding; we reject it."""
    model = make_model("llama", rng)
    model.config.tie_word_embeddings = True
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tensors["lm_head.weight"] = torch.randn_like(tensors["model.embed_tokens.weight"])
    model.config.save_pretrained(tmp_path / "hf")
    save_file(tensors, tmp_path / "hf/model.safetensors", {"format": "pt"})
    done = trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "run", code=2)
    assert "'lm_head.weight' differs from 'model.embed_tokens.weight'" in done.stderr


def test_an_untied_bert_keeps_its_head(trireme, rng, tmp_path):
    config = bert(rng)
    config.tie_word_embeddings = False
    torch.manual_seed(1)
    model = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.cls.predictions.bias.copy_(model.cls.predictions.decoder.bias)
    model.save_pretrained(tmp_path / "hf")
    trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "run")
    lines = random_lines(rng, model)
    types = [[0] * len(line) for line in lines]
    got = score(trireme, tmp_path / "run", lines, tmp_path, types)
    for s, line in enumerate(lines):
        assert_close(got[f"logits.{s}"], reference_logits(model, line, types[s])[0])


@pytest.mark.parametrize("place", ["top", "rope_parameters"])
def test_partial_rotary_factor_is_treated_as_by_the_reference(trireme, rng, tmp_path, place):
    model = make_model("llama", rng)
    model.save_pretrained(tmp_path / "hf")
    file = tmp_path / "hf/config.json"
    config = json.loads(file.read_text())
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    (config if place == "top" else config["rope_parameters"])["partial_rotary_factor"] = 0.5
    file.write_text(json.dumps(config))
    model = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "hf").eval()
    done = trireme("convert", "--from", "hf", tmp_path / "hf", tmp_path / "run")
    assert "partial_rotary_factor has no effect" in done.stdout
    lines = random_lines(rng, model)
    got = score(trireme, tmp_path / "run", lines, tmp_path)
    for s, line in enumerate(lines):
        assert_close(got[f"logits.{s}"], reference_logits(model, line)[0])


@pytest.mark.parametrize("layout", ["parallel.tp=2", "parallel.zero=1", "parallel.zero=3"])
def test_checkpoints_of_several_ranks_are_read_in_python(trireme, rng, tmp_path, layout):
    (tmp_path / "text.txt").write_text(
        "\n".join(" ".join(str(rng.randrange(90)) for _ in range(40)) for _ in range(30)))
    trireme("preprocess", "--input", tmp_path / "text.txt", "--documents", "line", "--append-eod",
            "--tokenizer-type", "null", "--vocab-size", 90, "--output-prefix", tmp_path / "data")
    settings = {
        "run.dir": tmp_path / "run", "run.precision": "fp32", "model.num_layers": 2,
        "model.hidden_size": 24, "model.num_heads": 2, "model.seq_length": 16,
        "model.vocab_size": 91, "data.path": tmp_path / "data_text_document",
        "train.micro_batch_size": 2, "train.global_batch_size": 4, "train.iters": 2,
        "train.eval_interval": 0, "optimizer.lr": 1e-3}
    (tmp_path / "run.toml").write_text("")
    trireme("train", "--nproc", 2, tmp_path / "run.toml", layout,
            *(f"{key}={value}" for key, value in settings.items()))
    trireme("convert", "--to", "hf", tmp_path / "run", tmp_path / "hf")
    want = load_file(tmp_path / "hf/model.safetensors")
    got = read_checkpoint(tmp_path / "run")
    assert torch.equal(got["embedding.word.weight"], want["transformer.wte.weight"])
    for layer in range(2):
        ours, theirs = f"layers.{layer}.", f"transformer.h.{layer}."
        for part, name in [("mlp.up", "mlp.c_fc"), ("mlp.down", "mlp.c_proj"),
                           ("attention.out", "attn.c_proj")]:
            assert torch.equal(got[f"{ours}{part}.weight"].T, want[f"{theirs}{name}.weight"])
            assert torch.equal(got[f"{ours}{part}.bias"], want[f"{theirs}{name}.bias"])
