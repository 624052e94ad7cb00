"""Random flags of Megatron, translated by the program, mean what megatron_meaning.py reads in them."""
import json

from megatron_meaning import defaults, differences, effective, meaning


def random_flags(rng, program):
    """Flags of one training, and DeepSpeed's configuration as a dictionary, or None."""
    def maybe(*words):
        return list(map(str, words)) if rng.random() < 0.5 else []

    heads, tp, pp = rng.choice([4, 8]), rng.choice([1, 2]), rng.choice([1, 2, 4])
    hidden, layers, micro = heads * rng.choice([16, 64]), pp * rng.choice([2, 6]), 2
    batch = micro * rng.choice([8, 16])
    flags = ["--num-layers", layers, "--hidden-size", hidden, "--num-attention-heads", heads,
             "--seq-length", 64, "--max-position-embeddings", rng.choice([64, 128]),
             "--micro-batch-size", micro, "--global-batch-size", batch, "--lr", "3.0e-4",
             "--tensor-model-parallel-size", tp, "--pipeline-model-parallel-size", pp,
             "--data-path", *rng.choice([["corpus"], [".3", "a", "0.7", "b"]]),
             "--vocab-file", "v", "--merge-file", "m"]
    by_samples = rng.random() < 0.5
    unit = "samples" if by_samples else "iters"
    length = 100_000 if by_samples else 1000
    flags += [f"--train-{unit}", rng.choice([length, f"{length:_}"])]
    if by_samples:
        flags += maybe("--rampup-batch-size", micro * 4, micro * 4, 5000)
    if rng.random() < 0.5:
        flags += maybe("--train-tokens", 3_000_000)
        flags += ["--lr-decay-tokens", 6_000_000, *maybe("--lr-warmup-tokens", 640_000)]
    else:
        flags += maybe(f"--lr-decay-{unit}", length // 2)
        flags += rng.choice([[], [f"--lr-warmup-{unit}", length // 20],
                             ["--lr-warmup-fraction", ".01"]])
    flags += maybe("--lr-decay-style", rng.choice(["cosine", "constant", "inverse-square-root"]))
    flags += rng.choice([[], ["--bf16"], ["--fp16", *maybe("--loss-scale", 15),
                                          *maybe("--initial-loss-scale", 4096),
                                          *maybe("--hysteresis", 3)]])
    flags += rng.choice([[], ["--normalization", "layernorm"],
                         ["--normalization", "RMSNorm", *maybe("--qk-layernorm")]])
    flags += rng.choice([[], ["--swiglu"], ["--squared-relu"], ["--openai-gelu"]])
    flags += maybe("--ffn-hidden-size", 3 * hidden) + maybe("--no-bias-gelu-fusion")
    if program == "gpt":
        flags += maybe("--disable-bias-linear", *maybe("--add-qkv-bias"))
        flags += rng.choice([[], ["--group-query-attention", "--num-query-groups", 2],
                             ["--num-key-value-heads", 2]])
        flags += rng.choice([[], ["--use-rotary-position-embeddings"],
                             ["--position-embedding-type", "rope", "--rotary-percent", "0.5",
                              *maybe("--rotary-base", 500000)]])
        flags += maybe("--untie-embeddings-and-output-weights") + maybe(
            "--eod-mask-loss", "--calculate-per-token-loss")
        flags += maybe("--window-size", rng.choice(["(15,0)", "3,0", "(-1,0)"]))
    else:
        flags += maybe("--mask-prob", .2) + maybe("--bert-no-binary-head")
        flags += ["--calculate-per-token-loss"]
    if pp > 1:
        flags += rng.choice([[], ["--enable-zbh1-pipeline"],
                             ["--num-layers-per-virtual-pipeline-stage", 1]])
    flags += rng.choice([[], ["--use-distributed-optimizer"], ["--zero-stage", 2]])
    flags += rng.choice([[], ["--recompute-activations"], ["--checkpoint-activations"],
                         ["--activations-checkpoint-method", "uniform"],
                         ["--recompute-granularity", "full", "--recompute-method", "block",
                          "--recompute-num-layers", 1]])
    for words in (["--sequence-parallel"], ["--seed", 42], ["--weight-decay", "1e-1"],
                  ["--adam-beta2", .95], ["--clip-grad", "0.7"], ["--init-method-std", ".008"],
                  ["--hidden-dropout", 0], ["--attention-dropout", "0.0"], ["--min-lr", "1.0e-5"],
                  ["--layernorm-epsilon", "1e-6"], ["--save", "out", "--load", "out"],
                  ["--save-interval", 500], ["--eval-interval", 10], ["--eval-iters", -1],
                  ["--split", "98,2,0"], ["--exit-interval", 200], ["--tensorboard-dir", "t"],
                  ["--make-vocab-size-divisible-by", 256], ["--cpu-optimizer"]):
        flags += maybe(*words)
    return [str(word) for word in flags], random_deepspeed(rng, flags, micro, batch)


def random_deepspeed(rng, flags, micro, batch):
    """A configuration that contradicts no flag."""
    if rng.random() < 0.5:
        return None
    file = {"train_batch_size": batch, "train_micro_batch_size_per_gpu": micro}
    if "--clip-grad" not in flags and rng.random() < 0.5:
        file["gradient_clipping"] = 0.9
    if "--zero-stage" not in flags and rng.random() < 0.5:
        file["zero_optimization"] = {"stage": rng.choice([0, 1])}
    if "--use-distributed-optimizer" in flags:
        file.pop("zero_optimization", None)
    if "--fp16" in flags:
        scaling = {"loss_scale": 0, "loss_scale_window": 500, "hysteresis": 4, "min_loss_scale": 2,
                   "initial_scale_power": 11}
        file["fp16"] = {"enabled": True,
                        **{key: scaling[key] for key in scaling if rng.random() < 0.5}}
    elif "--bf16" in flags:
        file["bf16"] = {"enabled": True}
    return file


def test_random_flags_mean_the_same(trireme, rng, tries, tmp_path):
    absent = defaults(trireme("train", "--help").stdout)
    accepted = 0
    for case in range(tries(150)):
        program = rng.choice(["gpt", "gpt", "bert"])
        flags, deepspeed = random_flags(rng, program)
        files = {}
        if deepspeed is not None:
            files["ds.json"] = json.dumps(deepspeed)
            (tmp_path / "ds.json").write_text(files["ds.json"])
            flags += ["--deepspeed", "--deepspeed_config", "ds.json"]
        done = trireme(f"pretrain-{program}", "--print-config", *flags, cwd=tmp_path, code=None)
        if done.returncode == 2:  # flags that do not go together
            continue
        assert done.returncode == 0, done.stderr
        accepted += 1
        found = differences(meaning(program, flags, files), effective(done.stdout, absent))
        assert not found, "\n".join([f"case {case}: {' '.join(flags)}", *files.values(), *found])
    assert accepted > tries(150) // 2
