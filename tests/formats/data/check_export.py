"""Checks that exported folders load without warnings in the reference implementation and compute the
same; run by hand: check_export.py TRIREME [GPT2_FOLDER BERT_FOLDER], folders with vocab.json and
merges.txt, and with vocab.txt, for the tokenizers. Needs torch and transformers."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers as tf

HERE = Path(__file__).parent / "hf"
CLASSES = {
    "gpt2": tf.GPT2LMHeadModel,
    "llama": tf.LlamaForCausalLM,
    "llama_tied": tf.LlamaForCausalLM,
    "bert": tf.BertForPreTraining,
    "megatron_bert": tf.MegatronBertForPreTraining,
    "llama3_rope": tf.LlamaForCausalLM,
    "linear_rope": tf.LlamaForCausalLM,
}


def check_model(trireme, name, folder):
    run = lambda *args: subprocess.run([trireme, "convert", *map(str, args)], check=True)
    run("--from", "hf", HERE / name, folder / "run")
    run("--to", "hf", folder / "run", folder / "hf")
    model, info = CLASSES[name].from_pretrained(folder / "hf", output_loading_info=True)
    assert not any(info.values()), info
    golden = json.loads((HERE / name / "golden.json").read_text())
    ids = torch.tensor(golden["ids"])
    with torch.no_grad():
        if "bert" in name:
            out = model(input_ids=ids, token_type_ids=torch.tensor(golden["token_types"]))
            logits = out.prediction_logits
        else:
            logits = model(ids).logits
    error = (logits - torch.tensor(golden["logits"])).abs().max().item()
    print(f"{name}: largest difference of a logit {error:.1e}")
    assert error < 1e-5


def check_tokenizer(trireme, name, vocabulary, folder, reference):
    """Copies the reference model with a vocabulary's files beside it, there and back."""
    source = folder / "source"
    source.mkdir(parents=True)
    for file in [*(HERE / name).iterdir(), *Path(vocabulary).iterdir()]:
        if file.suffix in (".json", ".safetensors", ".txt") and file.name != "tokenizer.json":
            (source / file.name).write_bytes(file.read_bytes())
    run = lambda *args: subprocess.run([trireme, "convert", *map(str, args)], check=True)
    run("--from", "hf", source, folder / "run")
    run("--to", "hf", folder / "run", folder / "hf")
    ours, theirs = tf.AutoTokenizer.from_pretrained(folder / "hf"), reference(vocabulary)
    for text in ["Hello world", "  Ünïcode 123\n\n  x", "don't <|endoftext|> [SEP]", "日本語 🙂"]:
        assert ours(text)["input_ids"] == theirs(text)["input_ids"], text
    assert ours.decode(ours("Hello there")["input_ids"]) == theirs.decode(
        theirs("Hello there")["input_ids"])
    print(f"{name}: {type(ours).__name__} agrees")


def main():
    trireme = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        for name in CLASSES:
            check_model(trireme, name, Path(scratch) / name)
        if len(sys.argv) > 3:
            check_tokenizer(trireme, "gpt2", sys.argv[2], Path(scratch) / "tokenizer1",
                            lambda folder: tf.GPT2TokenizerFast(
                                vocab=f"{folder}/vocab.json", merges=f"{folder}/merges.txt"))
            check_tokenizer(trireme, "bert", sys.argv[3], Path(scratch) / "tokenizer2",
                            lambda folder: tf.BertTokenizerFast(vocab=f"{folder}/vocab.txt"))


main()
