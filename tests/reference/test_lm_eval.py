"""Tests lm-evaluation-harness with trireme.lm_eval against its own transformers backend: tasks on local data, with all
three kinds of requests of the harness. Skipped if it is missing: build/reference-venv/bin/pip install lm_eval."""
import json
import os
import subprocess
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers

from conftest import BINARY

lm_eval = pytest.importorskip("lm_eval")
pytest.importorskip("datasets")
LIBRARY = BINARY.parents[2] / "lib/libtrireme.so"
WORDS = "the a of and to in ship oar wind wave rower captain turns sees carries follows meets north south night day".split()


def texts(rng, count, words):
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(*words))) for _ in range(count)]


def task(folder, name, rows, **config):
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}}, "test_split": "test",
            "num_fewshot": 0, **config}


def tasks(rng, folder):
    """A choice among continuations, the probability of one, and that of whole texts longer than a window."""
    metrics = lambda *names: [{"metric": name} for name in names]  # noqa: E731
    return [
        task(folder, "choices", [{"context": text, "choices": texts(rng, 4, (1, 5)), "answer": rng.randrange(4)}
                                 for text in texts(rng, 40, (3, 30))],
             output_type="multiple_choice", doc_to_text="{{context}}", doc_to_choice="{{choices}}", doc_to_target="answer",
             metric_list=metrics("acc", "acc_norm")),
        task(folder, "last_word", [{"context": text, "target": rng.choice(WORDS)} for text in texts(rng, 40, (5, 90))],
             output_type="loglikelihood", doc_to_text="{{context}}", doc_to_target="{{target}}", metric_list=metrics("perplexity", "acc")),
        task(folder, "whole", [{"text": text} for text in texts(rng, 10, (40, 300))],
             output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="{{text}}",
             metric_list=metrics("word_perplexity", "byte_perplexity", "bits_per_byte")),
    ]


def write_model(rng, folder, opens):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<end>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(rng, 200, (5, 20)), trainer)
    if opens:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<end> $A", special_tokens=[("<end>", 0)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", bos_token="<end>")
    fast.save_pretrained(folder)
    config = transformers.LlamaConfig(vocab_size=len(fast), hidden_size=64, intermediate_size=160, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                                      bos_token_id=fast.bos_token_id, eos_token_id=fast.eos_token_id)
    torch.manual_seed(rng.randrange(1 << 31))
    model = transformers.LlamaForCausalLM(config)
    for weights in model.parameters():  # makes differences between texts visible to the harness
        weights.data *= 1.5
    model.save_pretrained(folder)


def numbers(model, chosen):
    results = lm_eval.simple_evaluate(model=model, tasks=[dict(one) for one in chosen], bootstrap_iters=0)["results"]
    return {(name, key): value for name, found in results.items() for key, value in found.items()
            if isinstance(value, float) and "stderr" not in key}


@pytest.mark.parametrize("opens", [False, True])  # whether the tokenizer's template puts BOS in front
def test_numbers_of_the_harness(rng, tmp_path, monkeypatch, opens):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built (target trireme_shared)")
    monkeypatch.setitem(os.environ, "TRIREME_LIBRARY", str(LIBRARY))
    monkeypatch.setitem(os.environ, "HF_DATASETS_OFFLINE", "1")
    monkeypatch.setitem(os.environ, "HF_HOME", str(tmp_path / "hf"))
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "python"))
    from lm_eval.models.huggingface import HFLM
    from trireme.lm_eval import TriremeLM

    write_model(rng, tmp_path / "model", opens)
    chosen = tasks(rng, tmp_path)
    theirs = numbers(HFLM(pretrained=str(tmp_path / "model"), dtype="float32", device="cpu", batch_size=8), chosen)
    ours = numbers(TriremeLM(str(tmp_path / "model"), {"run.precision": "fp32"}), chosen)
    assert len(theirs) >= 7 and ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-6), key
    compare_command(tmp_path, theirs)


def compare_command(folder, theirs):
    """Compares with `trireme eval --tasks` on the same files."""
    run = lambda *arguments: subprocess.run([BINARY, *map(str, arguments)], check=True, capture_output=True, text=True)  # noqa: E731
    run("convert", folder / "model", folder / "run")
    files = [folder / "choices.jsonl", folder / "last_word.jsonl"]
    found = json.loads(run("eval", folder / "run", "--tasks", *files, "--set", "run.precision=fp32", "--json").stdout)["tasks"]
    for file, result in zip(files, found):
        for (name, key), value in theirs.items():
            if name == file.stem:
                assert result[key.split(",")[0]] == pytest.approx(value, rel=1e-6), (name, key)
