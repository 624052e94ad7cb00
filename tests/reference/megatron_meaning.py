"""A second, independent definition of the flags of Megatron's pre-training scripts.

meaning() reads an argument vector as Megatron-LM (core 0.12) and Megatron-DeepSpeed with DeepSpeed
do, and returns the values in a configuration of the same training. It shares nothing with the
translation under test, so that a flag that either of them forgets shows as a difference. An unknown
flag is an error: a script with it is not compared, but must be examined.
"""
import json
import tomllib

# Flags that do not affect the results of a training: logs, kernels, processes, buffers.
HARMLESS = set("""
--data-impl --dataset-impl --deepspeed --deepspeed-activation-checkpointing
--distributed-backend --enable-zbh1-exact-semantics --log-batch-size-to-tensorboard --local-rank
--log-optimizer-states-to-tensorboard --log-timers-to-tensorboard --log-throughput --num-workers
--log-validation-ppl-to-tensorboard --no-async-tensor-model-parallel-allreduce --codecarbon-dir
--no-gradient-accumulation-fusion --no-masked-softmax-fusion --no-query-key-layer-scaling
--override-opt_param-scheduler --tensorboard-queue-size --use-flash-attn --use-flash-attn-v2
--use-mcore-models --transformer-impl --mmap-warmup
--cpu-optimizer --exit-signal-handler --calculate-per-token-loss --overlap-grad-reduce
--overlap-param-gather --use-flash-attn-triton --no-bias-dropout-fusion
""".split())

MULTIPLE = {"--data-path", "--train-data-path", "--valid-data-path", "--test-data-path",
            "--rampup-batch-size"}


def parse(arguments):
    """Returns {flag: [values]} as argparse reads them: the last of several occurrences wins."""
    flags, name = {}, None
    for word in arguments:
        number = len(word) > 1 and word[0] == "-" and (word[1].isdigit() or word[1] == ".")
        if word.startswith("-") and not number:
            name, equals, value = word.partition("=")
            flags[name] = [value] if equals else []
        else:
            flags[name].append(word)
    return flags


def feed_forward(hidden, gated):
    return int((4 * hidden * 2 / 3) / 64) * 64 if gated else 4 * hidden


class Meaning:
    def __init__(self, program, arguments, files):
        self.flags = parse(arguments)
        self.program = program
        self.read = set(HARMLESS)
        self.deepspeed = {}
        path = self.text("--deepspeed_config")
        if path is not None:
            self.deepspeed = json.loads(files[path])

    def has(self, name):
        self.read.add(name)
        return name in self.flags

    def text(self, name, absent=None):
        return self.flags[name][0] if self.has(name) and self.flags[name] else absent

    def integer(self, name, absent=None):
        value = self.text(name)
        return absent if value is None else int(value)

    def number(self, name, absent=None):
        value = self.text(name)
        return absent if value is None else float(value)

    def first(self, names, kind, absent=None):
        found = [kind(name) for name in names if self.has(name)]
        return found[-1] if found else absent

    def window(self):
        """Returns the number of keys that a query sees, itself included; Megatron counts those before it."""
        left = int(self.text("--window-size", "-1,0").strip("()").split(",")[0])
        return left + 1

    def model(self):
        hidden, heads = self.integer("--hidden-size"), self.integer("--num-attention-heads")
        gated = self.has("--swiglu") or self.text("--glu-activation") == "swiglu"
        inner = self.integer("--ffn-hidden-size")
        if inner is None:
            # BigScience's fork adds a gate without making the layer narrower.
            inner = feed_forward(hidden, gated and not self.has("--glu-activation"))
        groups = heads
        if self.has("--group-query-attention"):
            groups = self.integer("--num-query-groups", 1)
        self.has("--num-query-groups")
        groups = self.integer("--num-key-value-heads", groups)
        bias = not self.has("--disable-bias-linear")
        if gated:
            activation = "swiglu"
        elif self.has("--squared-relu"):
            activation = "squared_relu"
        elif self.has("--openai-gelu"):
            activation = "gelu_tanh"
        else:  # fused with the bias: the tanh form; otherwise the exact form
            fused = bias and not self.has("--no-bias-gelu-fusion")
            activation = "gelu_tanh" if fused else "gelu_erf"
        self.has("--no-bias-gelu-fusion")
        kind = self.text("--position-embedding-type", "learned_absolute")
        if self.has("--use-rotary-position-embeddings"):
            kind = "rope"
        elif self.has("--no-position-embedding") and kind != "rope":
            kind = "none"
        values = {
            "model.num_layers": self.first(["--encoder-num-layers", "--num-layers"], self.integer),
            "model.hidden_size": hidden,
            "model.num_heads": heads,
            "model.num_kv_heads": groups,
            "model.head_dim": self.integer("--kv-channels", hidden // heads),
            "model.ffn_hidden_size": inner,
            "model.seq_length": self.seq_length(),
            "model.max_positions": self.integer("--max-position-embeddings"),
            "model.position": {"learned_absolute": "learned"}.get(kind, kind),
            "model.norm": {"layernorm": "layer_norm", "rmsnorm": "rms_norm"}[
                self.text("--normalization", "LayerNorm").lower()],
            "model.norm_eps": self.first(["--layernorm-epsilon", "--norm-epsilon"], self.number,
                                         1e-5),
            "model.activation": activation,
            "model.bias": bias,
            "model.qkv_bias": bias or self.has("--add-qkv-bias"),
            "model.qk_norm": self.has("--qk-layernorm"),
            "model.embedding_norm": self.has("--embed-layernorm"),
            "model.attention_window": self.window(),
            "model.tie_embeddings": not self.has("--untie-embeddings-and-output-weights"),
            "model.hidden_dropout": self.number("--hidden-dropout", 0.1),
            "model.attention_dropout": self.number("--attention-dropout", 0.1),
            "model.init_std": self.number("--init-method-std", 0.02),
            "model.vocab_multiple": self.integer("--make-vocab-size-divisible-by", 128),
        }
        base = self.first(["--rotary-position-embeddings-theta", "--rotary-base"], self.number, 1e4)
        percent = self.number("--rotary-percent", 1.0)
        if kind == "rope":
            values |= {"model.rope_base": base, "model.rope_percent": percent}
        if self.program == "bert":
            values["model.order_head"] = not self.has("--bert-no-binary-head")
        self.has("--add-qkv-bias")
        return values

    def seq_length(self):
        return self.first(["--encoder-seq-length", "--seq-length"], self.integer)

    def batches(self):
        micro = self.deepspeed.get("train_micro_batch_size_per_gpu",
                                   self.integer("--micro-batch-size"))
        size = self.deepspeed.get("train_batch_size", self.integer("--global-batch-size", 0))
        self.has("--global-batch-size")
        ramp = self.flags["--rampup-batch-size"] if self.has("--rampup-batch-size") else []
        return {"train.micro_batch_size": micro, "train.global_batch_size": size,
                "train.rampup_batch_size": [int(word) for word in ramp]}

    def length(self):
        return {
            "train.iters": self.integer("--train-iters", 0),
            "train.samples": self.integer("--train-samples", 0),
            "train.tokens": self.integer("--train-tokens", 0),
            "train.eval_interval": self.integer("--eval-interval", 1000),
            "train.eval_iters": max(0, self.integer("--eval-iters", 100)),
            "train.exit_interval": self.integer("--exit-interval", 0),
            "train.exit_duration_minutes": self.number("--exit-duration-in-mins", 0.0),
            "train.log_interval": self.integer("--log-interval", 100),
        }

    def learning_rate(self):
        values = {
            "optimizer.lr": self.number("--lr"),
            "optimizer.min_lr": self.number("--min-lr", 0.0),
            "optimizer.decay_style": self.text("--lr-decay-style", "linear").replace(
                "inverse-square-root", "inverse_sqrt").lower(),
            "optimizer.warmup_fraction": self.number("--lr-warmup-fraction", 0.0),
            "optimizer.warmup_init_lr": self.number("--lr-warmup-init", 0.0),
        }
        for name in ("decay", "warmup"):
            for unit in ("iters", "samples", "tokens"):
                values[f"optimizer.{name}_{unit}"] = self.integer(f"--lr-{name}-{unit}", 0)
        return values

    def optimizer(self):
        values = {
            "optimizer.name": {"adam": "adamw", "sgd": "sgd", "lion": "lion",
                               "muon": "muon", "dist_muon": "muon"}[self.text("--optimizer", "adam")],
            "optimizer.weight_decay": self.number("--weight-decay", 0.01),
            "optimizer.clip_grad": self.number("--clip-grad", 1.0),
        }
        if self.deepspeed:  # DeepSpeed clips instead
            values["optimizer.clip_grad"] = self.deepspeed.get("gradient_clipping", 1.0)
        adam = {"optimizer.beta1": self.number("--adam-beta1", 0.9),
                "optimizer.beta2": self.number("--adam-beta2", 0.999),
                "optimizer.eps": self.number("--adam-eps", 1e-8)}
        momentum = {"optimizer.momentum": self.number("--sgd-momentum", 0.9)}
        lion = {"optimizer.lion_beta1": self.number("--lion-beta1", 0.95),
                "optimizer.lion_beta2": self.number("--lion-beta2", 0.98)}
        scales = {"spectral": "spectral", "unit_rms_norm": "unit_rms", "shape_scaling": "original"}
        muon = adam | {
            "optimizer.muon_momentum": self.number("--muon-momentum", 0.9),
            "optimizer.muon_nesterov":
                self.has("--muon-nesterov") or self.has("--muon-use-nesterov"),
            "optimizer.muon_steps": self.integer("--muon-num-ns-steps", 5),
            "optimizer.muon_coefficients": self.text("--muon-coefficient-type", "quintic"),
            "optimizer.muon_scale": scales[self.text("--muon-scale-mode", "spectral")],
            "optimizer.muon_scale_factor": self.number("--muon-extra-scale-factor", 1.0)}
        return values | {"sgd": momentum, "lion": lion, "muon": muon}.get(
            values["optimizer.name"], adam)

    def precision(self):
        kind = "fp16" if self.has("--fp16") else "bf16" if self.has("--bf16") else "fp32"
        for name in ("fp16", "bf16", "bfloat16"):
            if self.deepspeed.get(name, {}).get("enabled") is True:
                kind = {"bfloat16": "bf16"}.get(name, name)
        given = {
            "optimizer.loss_scale": self.number("--loss-scale", 0.0),
            "optimizer.initial_loss_scale": self.number("--initial-loss-scale", 2.0**32),
            "optimizer.loss_scale_window": self.number("--loss-scale-window", 1000),
            "optimizer.min_loss_scale": self.number("--min-loss-scale", 1.0),
            "optimizer.hysteresis": self.integer("--hysteresis", 2),
        }
        scaling = self.deepspeed.get("fp16", {})
        if scaling.get("enabled") is True:  # DeepSpeed scales the loss, and ignores the flag
            given = {
                "optimizer.loss_scale": scaling.get("loss_scale", 0),
                "optimizer.initial_loss_scale": 2.0 ** scaling.get("initial_scale_power", 16),
                "optimizer.loss_scale_window": scaling.get("loss_scale_window", 1000),
                "optimizer.min_loss_scale": scaling.get("min_loss_scale", 1),
                "optimizer.hysteresis": scaling.get("hysteresis", 2),
            }
        return {"run.precision": kind, **(given if kind == "fp16" else {})}

    def layout(self):
        tp = self.integer("--tensor-model-parallel-size", 1)
        pp = self.integer("--pipeline-model-parallel-size", 1)
        assert not (self.has("--no-pipeline-parallel") and pp > 1)
        layers = self.first(["--encoder-num-layers", "--num-layers"], self.integer)
        zero = self.integer("--zero-stage",
                            1 if self.has("--use-distributed-optimizer") else 0)
        self.has("--use-distributed-optimizer")
        schedule, chunks = "1f1b", 1
        if self.has("--num-layers-per-virtual-pipeline-stage"):
            chunks = layers // pp // self.integer("--num-layers-per-virtual-pipeline-stage")
            schedule = "interleaved" if chunks > 1 else schedule
        if self.has("--enable-zbh1-pipeline") and pp > 1:
            schedule = "zb1p"
        recompute = self.text("--recompute-granularity", "none")
        if self.has("--recompute-activations"):
            recompute = "selective"
        if self.has("--checkpoint-activations") or self.has("--activations-checkpoint-method"):
            recompute = "full"
        method = self.text("--activations-checkpoint-method",
                           self.text("--recompute-method", "uniform"))
        self.has("--recompute-method")
        few = self.integer("--recompute-num-layers", 1)
        self.has("--checkpoint-num-layers")
        return {
            "parallel.tp": tp, "parallel.pp": pp,
            "parallel.cp": self.integer("--context-parallel-size",
                                        self.integer("--ds-sequence-parallel-size", 1)),
            "parallel.zero": self.deepspeed.get("zero_optimization", {}).get("stage", zero),
            "parallel.schedule": schedule, "parallel.virtual_stages": chunks,
            "parallel.sequence_parallel": self.has("--sequence-parallel") and tp > 1,
            "parallel.recompute": recompute,
            "parallel.distribute_saved_activations":
                self.has("--partition-activations") and recompute == "full",
            "parallel.recompute_layers": few if method == "block" and recompute == "full" else 0,
        }

    def data(self):
        kinds = {"GPT2BPETokenizer": "gpt2", "BertWordPieceLowerCase": "bert",
                 "BertWordPieceCase": "bert_cased", "GPTSentencePieceTokenizer": "sentencepiece",
                 "Llama2Tokenizer": "llama2", "NullTokenizer": "null",
                 "SentencePieceTokenizer": "SentencePieceTokenizer",
                 "HuggingFaceTokenizer": "hf", "HFTokenizer": "hf"}
        default = "BertWordPieceLowerCase" if self.program == "bert" else "GPT2BPETokenizer"
        values = {
            "data.tokenizer": kinds[self.text("--tokenizer-type", default)],
            "data.vocab_file": self.text("--vocab-file", ""),
            "data.merge_file": self.text("--merge-file", ""),
            "data.tokenizer_model": self.text("--tokenizer-model", ""),
            "data.cache_dir": self.text("--data-cache-path", ""),
            "data.reset_position_ids": self.has("--reset-position-ids"),
            "data.reset_attention_mask": self.has("--reset-attention-mask"),
            "data.eod_mask_loss": self.has("--eod-mask-loss"),
        }
        assert self.text("--dataloader-type", "single") == "single"
        for flag, key in [("--data-path", "path"), ("--train-data-path", "train_path"),
                          ("--valid-data-path", "valid_path"), ("--test-data-path", "test_path")]:
            values[f"data.{key}"] = self.flags[flag] if self.has(flag) else []
        if values["data.path"]:
            values["data.split"] = self.text("--split", "969, 30, 1")
        if self.program == "bert":
            values |= {"data.mask_prob": self.number("--mask-prob", 0.15),
                       "data.short_seq_prob": self.number("--short-seq-prob", 0.1)}
        if values["data.tokenizer"] == "null":
            values["model.vocab_size"] = self.integer("--vocab-size") + 1
        self.has("--vocab-size")
        return values

    def curriculum(self):
        section = self.deepspeed.get("curriculum_learning", {})
        self.has("--curriculum-learning-legacy")
        if section.get("enabled") is not True:
            return {"curriculum.schedule": "none"}
        assert section["curriculum_type"] == "seqlen"
        assert section["max_difficulty"] == self.seq_length()
        how = section["schedule_config"]
        return {"curriculum.schedule": section["schedule_type"],
                "curriculum.min_length": section["min_difficulty"],
                "curriculum.iters": how["total_curriculum_step"],
                "curriculum.length_step": how["difficulty_step"]}

    def folders(self):
        save, load = self.text("--save", "runs/default"), self.text("--load")
        return {
            "run.seed": self.integer("--seed", 1234),
            "run.dir": save,
            "checkpoint.load": load if load is not None and load != save else "",
            "checkpoint.interval": self.integer("--save-interval", 0),
            "checkpoint.load_optimizer": not self.has("--no-load-optim"),
            "checkpoint.finetune": self.has("--finetune"),
            "checkpoint.async": self.has("--async-save"),
            "log.tensorboard": self.has("--tensorboard-dir"),
        }

    def all(self):
        values = {}
        for part in (self.model, self.batches, self.length, self.learning_rate, self.optimizer,
                     self.precision, self.layout, self.data, self.curriculum, self.folders):
            values |= part()
        unknown = set(self.flags) - self.read
        assert not unknown, f"flags whose meaning is not written down: {sorted(unknown)}"
        return values


def meaning(program, arguments, files=None):
    """Returns {"section.key": value} of the training that `arguments` start; `program` is gpt or bert.
    `files` contains the texts of the files that they name."""
    return Meaning(program, arguments, files or {}).all()


def defaults(help_text):
    """Returns {"section.key": value} from `trireme train --help`, which prints each key's default."""
    values = {}
    for line in help_text.split("\n"):
        key, _, default = line.strip().partition(" ")
        if line.startswith("  ") and not line.startswith("   ") and "." in key and default[:1] == "[":
            given = default[1:default.rindex("]")]
            if given != "by family":  # a translation sets these keys itself
                values[key] = tomllib.loads(f"x = {given}")["x"]
    return values


def effective(toml_text, absent):
    """Returns all values of a configuration: its own, or else those of `absent`, resolved."""
    values = dict(absent)
    for section, keys in tomllib.loads(toml_text).items():
        values |= {f"{section}.{name}": value for name, value in keys.items()}
    hidden, heads = values["model.hidden_size"], values["model.num_heads"]
    follows = {
        "model.num_kv_heads": heads,
        "model.head_dim": hidden // max(heads, 1),
        "model.ffn_hidden_size": feed_forward(hidden, values["model.activation"] == "swiglu"),
        "model.max_positions": values["model.seq_length"],
    }
    for key, value in follows.items():
        values[key] = values[key] or value
    return values


def differences(expected, found):
    """Returns lines "key: expected, found" for values that differ."""
    def same(a, b):
        if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, (int, float)):
            return a == b
        return isinstance(b, (int, float)) and abs(a - b) <= 1e-12 * max(abs(a), abs(b))
    return [f"{key}: {value!r}, {found.get(key)!r}" for key, value in sorted(expected.items())
            if not same(value, found.get(key))]
