"""Compares Trireme's files and sample orders with Megatron's own; run by hand:
compare_with_megatron.py TRIREME MEGATRON_LM [SEED [CASES]]
MEGATRON_LM is a checkout (core 0.12); needs numpy, torch and g++. Its dataset classes run unchanged,
with stubs for the few modules around them. Each case builds random files with Megatron's
builder, compares Trireme's bytes, and compares the tokens of every sample of every split. Cases in
which Megatron itself stops (as on splits without documents) are counted separately."""
import json
import os
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import types
from pathlib import Path

import numpy
import torch
import torch.distributed

VOCAB = 1000


def module(name, **content):
    made = types.ModuleType(name)
    made.__dict__.update(content)
    sys.modules[name] = made
    return made


class Tokenizer:
    eod, bos, pad, vocab_size = 0, 0, 0, VOCAB
    unique_identifiers = {}


def load_megatron(checkout):
    core = Path(checkout) / "megatron/core"
    module("megatron").__path__ = [str(core.parent)]
    module("megatron.core").__path__ = [str(core)]
    module("megatron.core.utils", log_single_rank=lambda *a, **k: None)
    module("megatron.core.parallel_state", get_virtual_pipeline_model_parallel_rank=lambda: None)
    module("megatron.core.datasets.megatron_tokenizer", MegatronTokenizer=Tokenizer,
           MegatronLegacyTokenizer=Tokenizer)
    torch.distributed.get_rank = lambda *a, **k: 0
    library = core / "datasets" / ("helpers_cpp" + sysconfig.get_config_var("EXT_SUFFIX"))
    if not library.exists():
        subprocess.run(["g++", "-O2", "-shared", "-fPIC", "-std=c++17",
                        "-I", str(Path(torch.__file__).parent / "include"),
                        "-I", sysconfig.get_paths()["include"],
                        str(core / "datasets/helpers.cpp"), "-o", str(library)], check=True)


def build_file(trireme, prefix, rng, dtype):
    """Writes random documents with Megatron's builder and `trireme preprocess`, and compares the bytes."""
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
    with open(prefix + ".jsonl", "w") as lines:
        for _ in range(rng.choice([12, 40, 90, 200])):
            ids = [rng.randrange(VOCAB - 1) for _ in range(rng.choice([0, 2, 30, rng.randint(2, 300)]))]
            lines.write(json.dumps({"text": " ".join(map(str, ids))}) + "\n")
            builder.add_document(torch.tensor(ids, dtype=torch.int64), [len(ids)] if ids else [])
    builder.finalize(prefix + ".idx")
    if dtype == numpy.uint16:
        subprocess.run([trireme, "preprocess", "--input", prefix + ".jsonl", "--output-prefix", prefix,
                        "--tokenizer-type", "null", "--vocab-size", str(VOCAB)],
                       check=True, capture_output=True)
        for end in (".bin", ".idx"):
            assert Path(prefix + end).read_bytes() == Path(prefix + "_text_document" + end).read_bytes()


def run_case(trireme, folder, rng):
    """Returns the number of equal splits and descriptions of the different ones."""
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    prefixes = [f"{folder}/d{i}" for i in range(rng.choice([1, 1, 2, 3, 4]))]
    for prefix in prefixes:
        build_file(trireme, prefix, rng, rng.choice([numpy.uint16, numpy.int32]))
    weights = [rng.choice([0.1, 0.3, 1, 2.5, rng.random()]) for _ in prefixes]
    weighted = len(prefixes) > 1 and rng.random() < 0.7
    seq, seed = rng.choice([1, 4, 7, 16, 33, 128]), rng.choice([0, 1234, 2**31 - 1, rng.randrange(2**31)])
    iters, batch = rng.choice([1, 5, 30, 200]), rng.choice([1, 2, 8])
    interval, eval_iters = rng.choice([1, 7, 1000]), rng.choice([1, 2, 5])
    split = rng.choice(["969,30,1", "8,1,1", "100,0,0", "90,10,0", "1,1,1"])
    sizes = [iters * batch, (iters // interval + 1) * eval_iters * batch, eval_iters * batch]
    theirs = BlendedMegatronDatasetBuilder(
        GPTDataset, sizes, lambda: True,
        GPTDatasetConfig(random_seed=seed, sequence_length=seq, split=split, tokenizer=Tokenizer(),
                         blend=(prefixes, weights if weighted else None),
                         path_to_cache=folder + "/cache", reset_position_ids=False,
                         reset_attention_mask=False, eod_mask_loss=False)).build()
    path = sum(([repr(w), p] if weighted else [p] for p, w in zip(prefixes, weights)), [])
    settings = [f"run.seed={seed}", f"model.seq_length={seq}", f"data.path={json.dumps(path)}",
                f'data.split="{split}"', f"train.global_batch_size={batch}", f"train.iters={iters}",
                f"train.eval_interval={interval}", f"train.eval_iters={eval_iters}"]
    Path(folder, "run.toml").write_text("[model]\nnum_layers=1\nhidden_size=8\nnum_heads=1\n"
                                        "[optimizer]\nlr=1e-3\n")
    equal, different = 0, []
    for name, dataset, size in zip(["train", "valid", "test"], theirs, sizes):
        done = subprocess.run([trireme, "data", "samples", folder + "/run.toml", *settings, "--split",
                               name, "--first", "1000000", "--json", "--tokens"],
                              capture_output=True, text=True)
        # A blend by size may contain less than the run needs: ours reports it, Megatron runs out of data.
        if done.returncode == 2 and (dataset is None or len(dataset) < size):
            equal += 1
            continue
        ours = [json.loads(line)["tokens"] for line in done.stdout.splitlines()]
        samples = [] if dataset is None else [dataset[i] for i in range(len(dataset))]
        if ours == [s["tokens"].tolist() + [int(s["labels"][-1])] for s in samples]:
            equal += 1
        else:
            different.append(f"{name} of {settings}: {done.stderr.strip()}")
    return equal, different


def main():
    trireme, checkout = sys.argv[1:3]
    seed, cases = (int(a) for a in (sys.argv[3:] + ["1", "50"][len(sys.argv) - 3:])[:2])
    load_megatron(checkout)
    equal, stopped = 0, 0
    for case in range(cases):
        with tempfile.TemporaryDirectory() as folder:
            reader, writer = os.pipe()
            child = os.fork()  # Megatron may abort, or loop forever
            if child == 0:
                resource.setrlimit(resource.RLIMIT_CPU, (6, 6))
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                result = run_case(trireme, folder, random.Random(seed * 1000 + case))
                os.write(writer, json.dumps(result).encode())
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader) as pipe:
                text = pipe.read()
            os.waitpid(child, 0)
        if not text:
            stopped += 1
            continue
        same, different = json.loads(text)
        equal += same
        for line in different:
            print("different:", line)
    print(f"{equal} splits are equal; Megatron stopped in {stopped} of {cases} cases")


if __name__ == "__main__":
    main()
