"""Every key of the configuration classes of transformers, changed one at a time.

An edit of config.json is right where transformers cannot build the model either, where the program
refuses it by the name of the key, or where both compute the same logits.
"""
import collections
import copy
import dataclasses
import json
import os
import shutil

import pytest
import torch
import transformers

from random_models import KINDS, random_lines
from test_weights import score

TOLERANCE = 1e-4

# Keys that the classes do not declare: those that only code of transformers asks for, those of
# older versions and those that other programs write.
OTHER_KEYS = [
    "_attn_implementation", "_flash_attn_2_enabled", "_name_or_path", "_num_labels",
    "add_cross_attention", "architectures", "attention_bias", "attention_chunk_size",
    "attn_implementation", "auto_map", "classifier_dropout", "clip_qkv", "compression_config",
    "cross_attention_hidden_size", "decoder_start_token_id", "do_sample", "embedding_scale",
    "ep_size", "experts_implementation", "finetuning_task", "gradient_checkpointing", "head_dim",
    "hidden_activation", "is_causal", "is_decoder", "layer_types", "logit_scale", "max_length",
    "max_sequence_length", "max_window_layers", "mlp_bias", "moe_layer_freq", "n_ctx", "n_inner",
    "num_labels", "original_max_position_embeddings", "output_attentions", "output_past",
    "partial_rotary_factor", "per_layer_config", "position_embedding_type", "pretraining_tp",
    "pruned_heads", "quantization", "quantization_config", "residual_multiplier", "rope_interleave",
    "rope_interleaved", "rope_parameters", "rope_scaling", "rope_theta", "scoring_func",
    "seq_length", "sep_token_id", "sliding_window", "sliding_window_pattern",
    "sliding_window_size", "task_specific_params", "temperature", "tie_encoder_decoder",
    "tie_word_embeddings", "tokenizer_class", "topk_method", "torch_dtype", "torchscript",
    "unk_token_id", "unpadded_vocab_size", "unsloth_version", "use_bfloat16",
    "use_bidirectional_attention", "use_cache", "use_mrope", "use_qk_norm", "use_sliding_window",
    "qk_head_dim",
]

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16, "rope_theta": 10000.0}
ROPES = [
    {"rope_type": "default"}, {"type": "default"}, {"type": "linear", "factor": 2.0},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}, {"rope_type": "linear"},
    {"rope_type": "linear", "factor": 1.0}, {"rope_type": "linear", "factor": None},
    {"type": "dynamic", "factor": 2.0}, {"rope_type": "linear", "type": "dynamic", "factor": 2.0},
    {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 2.0, "attention_factor": 1.5},
    {"rope_type": "linear", "factor": 2.0, "mscale_all_dim": 0.7},
    LLAMA3, {**LLAMA3, "factor": 1.0}, {**LLAMA3, "low_freq_factor": None},
    {k: v for k, v in LLAMA3.items() if not k.startswith("original")},
    {**LLAMA3, "attention_factor": 1.5}, {**LLAMA3, "rope_theta": None},
    YARN, {**YARN, "type": "yarn"}, {**YARN, "rope_theta": 500.0}, {**YARN, "factor": None},
    {**YARN, "factor": 1.0}, {**YARN, "factor": 1.0, "attention_factor": 1.25},
    {**YARN, "factor": 1.0, "mscale": 0.7, "mscale_all_dim": 0.5},
    {k: v for k, v in YARN.items() if not k.startswith("original")},
    {"type": "yarn", "factor": None, "attention_factor": 1.25},
    *({**YARN, "attention_factor": value} for value in (1.25, 1, 0.0, None)),
    {**YARN, "beta_fast": 8.0, "beta_slow": 0.5}, {**YARN, "beta_fast": 0, "beta_slow": None},
    {**YARN, "beta_fast": 1, "beta_slow": 1}, {**YARN, "beta_fast": 0.5, "beta_slow": 2.0},
    *({**YARN, "truncate": value} for value in (True, False, None)),
    {**YARN, "mscale": 0.7}, {**YARN, "mscale_all_dim": 0.7},
    {**YARN, "mscale": 0.7, "mscale_all_dim": 0.5}, {**YARN, "mscale": 0, "mscale_all_dim": None},
    {**YARN, "mscale": 0.7, "mscale_all_dim": 0.5, "attention_factor": 1.25},
    {**YARN, "partial_rotary_factor": 0.5}, {**YARN, "partial_rotary_factor": 1.0},
    {**YARN, "finetuned": True}, {**YARN, "original_max_position_embeddings": None},
    {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, {"rope_theta": 500.0},
    *({"rope_type": "longrope", "short_factor": [1.0, 1.2] * (pairs // 2),
       "long_factor": [1.5, 6.0] * (pairs // 2), "original_max_position_embeddings": 12, **more}
      for pairs in (2, 4, 8) for more in (
          {}, {"attention_factor": 1.25}, {"attention_factor": 0.0}, {"factor": 4.0},
          {"factor": None}, {"long_factor": None}, {"mscale": 0.7})),
    {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
     "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}, {},
]

CODE = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
SPECIAL = {
    "rope_parameters": ROPES, "rope_scaling": ROPES,
    "hidden_act": ["silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_python", "relu",
                   "quick_gelu", "mish", "relu2"],
    "dtype": ["float32", "float64", None], "torch_dtype": ["float32", None],
    "auto_map": [CODE, {}, None, {"AutoTokenizer": ["tokenization_own.Own", None]}],
    "architectures": [["OwnForCausalLM"], None, []],
    "quantization_config": [None, {}, {"quant_method": "fp8"}],
    "quantization": [None, {"bits": 4}], "compression_config": [None, {"format": "dense"}],
    "pruned_heads": [{}, {"0": [0]}, None],
    "per_layer_config": [None, {}, {"0": {"attention_dropout": 0.5}},
                         {"0": {"intermediate_size": 8}}],
    "id2label": [None, {"0": "a", "1": "b", "2": "c"}], "label2id": [None, {"a": 0, "b": 1}],
    "problem_type": [None, "regression"], "task_specific_params": [None, {"x": {"y": 1}}],
    "mlp_only_layers": [None, [], [0], [1], [0, 1], [7]],
    "_attn_implementation": ["eager", "sdpa"], "attn_implementation": ["eager"],
    "experts_implementation": ["eager"], "tokenizer_class": ["Own", None],
    "position_embedding_type": ["absolute", "relative_key", None],
    "scoring_func": ["sigmoid", "softmax"], "topk_method": ["noaux_tc", "greedy"],
    "summary_type": ["last", "mean"], "summary_activation": [None, "tanh"],
    "chunk_size_feed_forward": [0, 1], "pretraining_tp": [1, 2, None], "n_ctx": [8, 1024],
    "layer_types": [None, "all full", "all sliding", "mixed", "wrong", "short"],
    "eos_token_id": [None, 3, [3, 4], 10**6], "unsloth_version": ["2025.1"],
    "is_causal": [True, False, None], "rope_interleave": [True, False, None],
    "sliding_window": [None, 0, 3, 5], "sliding_window_size": [3, 4096],
    "query_pre_attn_scalar": [4, 144, 8.5, None], "clip_qkv": [None, 0.5, 8.0],
    "transformers_version": ["4.30.0", None], "_name_or_path": ["somewhere/else"],
    "original_max_position_embeddings": [8, 4096, None],
}
SPECIAL["activation_function"] = SPECIAL["hidden_activation"] = SPECIAL["hidden_act"]


# Sizes that config.json also states as another key, which a refusal names when the two differ.
ALSO_STATED = {
    "deepseek_v3": {"num_attention_heads": "num_key_value_heads",
                    "qk_nope_head_dim": "qk_head_dim", "qk_rope_head_dim": "qk_head_dim"},
}


def values_for(key, now):
    """Values to try for a key; those by its type where none are listed."""
    if key in SPECIAL:
        return SPECIAL[key]
    if isinstance(now, bool):
        return [not now, now, None]
    if isinstance(now, int):
        return [now + 1, 2 * now, max(now // 2, 1), 0, None, -1]
    if isinstance(now, float):
        return [now * 2, 0.25, 0, None]
    if isinstance(now, str):
        return ["other", None]
    return [None, True, False, 1, 2, 0.5]


def spelled(value, layers):
    """The list of layers' kinds that a short name in SPECIAL stands for."""
    full, sliding = ["full_attention"], ["sliding_attention"]
    return {"all full": full * layers, "all sliding": sliding * layers,
            "mixed": (sliding + full * layers)[:layers], "wrong": ["linear_attention"] * layers,
            "short": full * (layers - 1)}.get(value, value) if isinstance(value, str) else value


def base_of(kind, rng):
    """The content of a config.json with two layers or more, and its configuration."""
    while True:
        config = KINDS[kind][0](rng)
        if config.num_hidden_layers < 2:
            continue
        content = json.loads(config.to_json_string(use_diff=False))
        for key in ("_attn_implementation", "attn_implementation"):
            content.pop(key, None)
        return {key: value for key, value in content.items() if not key.startswith("_")}, config


def edits_of(kind, base, config):
    """(key, edited content of config.json) of every edit."""
    declared = [field.name for field in dataclasses.fields(type(config))]
    for key in dict.fromkeys([*declared, *type(config).attribute_map, *OTHER_KEYS]):
        for value in values_for(key, getattr(config, key, None)):
            value = spelled(value, config.num_hidden_layers)
            if key in base and base[key] == value and type(base[key]) is type(value):
                continue
            yield key, {**copy.deepcopy(base), key: copy.deepcopy(value)}
        if key in base and key != "model_type":
            yield key, {k: copy.deepcopy(v) for k, v in base.items() if k != key}


def shapes_of(model):
    """What decides which tensors a saved model has: equal for models that can share a file."""
    tensors = model.state_dict(keep_vars=True)
    first = {}  # Tied tensors are one, which is saved once.
    return tuple((name, tuple(t.shape), first.setdefault(id(t), name))
                 for name, t in tensors.items())


def build(kind, folder, saved):
    """The model of the config.json in a folder, its weights written there; None: there is none.

    `saved` keeps the first model of every set of shapes: the next one takes its weights and its
    file, since most edits change no tensor and saving one takes longer than all else.
    """
    file = folder / "config.json"
    text = file.read_text()
    torch.manual_seed(1)
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        if kind == "gemma2":
            config._attn_implementation = "eager"
        config.dtype = torch.float32
        model = KINDS[kind][1](config).eval().float()
        shapes = shapes_of(model)
        if shapes in saved:
            model.load_state_dict(saved[shapes][0])
        else:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.2 * torch.randn_like(parameter))
        logits_of(model, [1, 2, 3], "bert" in kind)
        if shapes not in saved:
            model.save_pretrained(folder)
    except Exception:  # of any kind: a configuration that does not work there
        return None
    finally:
        file.write_text(text)
    if shapes in saved:
        os.link(saved[shapes][1], folder / "model.safetensors")
    else:
        weights = folder.parents[1] / f"{len(saved)}.safetensors"
        os.link(folder / "model.safetensors", weights)
        saved[shapes] = {name: t.clone() for name, t in model.state_dict().items()}, weights
    return model


def logits_of(model, line, is_bert):
    inputs = {"input_ids": torch.tensor([line])}
    if is_bert:
        inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    with torch.no_grad():
        out = model(**inputs, return_dict=True)
    return (out.logits if "logits" in out else out.prediction_logits)[0]


def logits_here(trireme, folder, model, rng, is_bert, scored):
    """Lines of ids, and the logits that the run in a folder has for them.

    `scored` keeps those of every run: edits that come to the same run need no second look at it.
    """
    run = folder / "run"
    key = tuple(file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file())
    if key not in scored:
        most = model.config.max_position_embeddings if is_bert else None
        lines = [line[:most] for line in random_lines(rng, model, 3)]
        types = [[0] * len(line) for line in lines] if is_bert else None
        scored[key] = lines, score(trireme, run, lines, folder, types)
    return scored[key]


def outcome_of(trireme, kind, key, content, folder, rng, saved, scored):
    """What becomes of an edit, and a text about it where it is wrong."""
    (folder / "hf").mkdir(parents=True)
    (folder / "hf/config.json").write_text(json.dumps(content))
    model = build(kind, folder / "hf", saved)
    if model is None:
        return "no model of the reference", ""
    done = trireme("convert", "--from", "hf", folder / "hf", folder / "run", code=None)
    if done.returncode == 2:
        named = key in done.stderr or any(
            alias in done.stderr for pair in type(model.config).attribute_map.items()
            for alias in pair if key in pair)
        other = ALSO_STATED.get(kind, {}).get(key)
        named = named or (other in content and
                          f"{other} is the number {content[other]}; only " in done.stderr)
        # A size is also refused by the name that it has here.
        named = named or "model." in done.stderr or "moe." in done.stderr
        return ("refused", "") if named else ("wrong", f"{key} is not named: {done.stderr}")
    if done.returncode != 0:
        return "wrong", f"exit code {done.returncode}: {done.stderr}"
    is_bert = "bert" in kind
    lines, got = logits_here(trireme, folder, model, rng, is_bert, scored)
    for s, line in enumerate(lines):
        want = logits_of(model, line, is_bert)
        if got[f"logits.{s}"].shape != want.shape:
            return "wrong", f"logits of the shape {got[f'logits.{s}'].shape}, not {want.shape}"
        off = ((got[f"logits.{s}"] - want).abs().max() / want.abs().max().clamp(min=1)).item()
        if not off < TOLERANCE:
            return "wrong", f"logits are off by {off:.2g}"
    return "equal", ""


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_is_read_refused_or_without_effect(trireme, rng, tries, tmp_path, kind):
    base, config = base_of(kind, rng)
    edits = list(edits_of(kind, base, config))
    count = tries(60)  # all of them with TRIREME_SCALE=20
    if count < len(edits):
        edits = rng.sample(edits, count)
    counts, wrong, saved, scored = collections.Counter(), [], {}, {}
    for key, content in edits:
        folder = tmp_path / "edit"  # One name for all: runs contain their own path.
        outcome, text = outcome_of(trireme, kind, key, content, folder, rng, saved, scored)
        shutil.rmtree(folder)
        counts[outcome] += 1
        if outcome == "wrong":
            wrong.append(f"{key} = {json.dumps(content.get(key, 'absent'))}: {text}")
            print(f"\n{kind}: {wrong[-1]}")
    print(f"\n{kind}: {len(edits)} edits, {dict(counts)}, {len(saved)} shapes, {len(scored)} runs")
    assert not wrong, "\n".join(wrong)
