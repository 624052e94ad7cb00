"""Stores the weights of transformers' models in the layouts of Meta's Llama and Megatron-LM.

Follows the formats exactly, without the programs that define them: fairscale's layers sharded as
in Meta's llama/model.py, Megatron's names and shards as in its legacy models and in megatron-core.
The files themselves are written by PyTorch. Used for test data and for tests/reference."""
import argparse
import enum
import json
import sys
import types

import torch


def save_sharded_bin(state, folder, shards):
    """Writes pytorch_model.bin, or shards with an index, as transformers 4 did."""
    folder.mkdir(parents=True, exist_ok=True)
    if shards == 1:
        return torch.save(state, folder / "pytorch_model.bin")
    names = list(state)
    weight_map = {}
    for i in range(shards):
        file = f"pytorch_model-{i + 1:05d}-of-{shards:05d}.bin"
        part = {name: state[name].clone() for name in names[i::shards]}
        weight_map |= dict.fromkeys(part, file)
        torch.save(part, folder / file)
    total = sum(tensor.nbytes for tensor in state.values())
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2) + "\n")


# Meta's Llama ------------------------------------------------------------------------------------

def rotate_as_meta(weight, head_dim):
    """Reorders from half-head pairs to adjacent pairs."""
    rows, columns = weight.shape
    return weight.view(rows // head_dim, 2, head_dim // 2, columns).transpose(1, 2).reshape(
        rows, columns)


META_LAYER = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk",
              "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
              "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
              "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
              "post_attention_layernorm": "ffn_norm"}
META_OTHER = {"model.embed_tokens.weight": "tok_embeddings.weight",
              "model.norm.weight": "norm.weight", "lm_head.weight": "output.weight"}


def save_meta_llama(state, config, folder, shards, words_by_columns):
    """`words_by_columns`: the embedding is split by columns as in Llama 1 and 2; Llama 3 splits its rows."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = [{} for _ in range(shards)]
    for name, tensor in state.items():
        if name in META_OTHER:
            meta = META_OTHER[name]
        else:
            layer, module = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            meta = f"layers.{layer}.{META_LAYER[module]}.weight"
            if module.endswith(("q_proj", "k_proj")):
                tensor = rotate_as_meta(tensor, config.head_dim)
        by_columns = meta.endswith(("wo.weight", "w2.weight")) or (
            words_by_columns and meta == "tok_embeddings.weight")
        for rank in range(shards):
            part = tensor if tensor.dim() == 1 else tensor.chunk(shards, 1 if by_columns else 0)[rank]
            ranks[rank][meta] = part.contiguous().clone()
    for rank, tensors in enumerate(ranks):
        tensors["rope.freqs"] = torch.arange(config.head_dim // 2, dtype=torch.float32)
        torch.save(tensors, folder / f"consolidated.{rank:02d}.pth")
    params = {"dim": config.hidden_size, "n_layers": config.num_hidden_layers,
              "n_heads": config.num_attention_heads, "n_kv_heads": config.num_key_value_heads,
              "norm_eps": config.rms_norm_eps,
              "vocab_size": -1 if words_by_columns else config.vocab_size,
              "rope_theta": config.rope_parameters["rope_theta"]}
    if config.head_dim * config.num_attention_heads != config.hidden_size:
        params["head_dim"] = config.head_dim
    if config.rope_parameters["rope_type"] == "llama3":
        params |= {"use_scaled_rope": True,
                   "rope_scaling_factor": config.rope_parameters["factor"],
                   "high_freq_factor": config.rope_parameters["high_freq_factor"]}
    (folder / "params.json").write_text(json.dumps(params) + "\n")


# Megatron ----------------------------------------------------------------------------------------

class Cut(enum.Enum):
    copy, rows, columns, gated, words = range(5)


def fused_qkv(query, key, value, groups, version, tp):
    """Returns [tp] parts of queries, keys and values in the order of a checkpoint_version."""
    d = key.shape[0] // groups
    rest = query.shape[1:]
    grouped = torch.cat([query.view(groups, -1, d, *rest), key.view(groups, 1, d, *rest),
                         value.view(groups, 1, d, *rest)], 1)
    parts = []
    for part in grouped.chunk(tp):  # [groups / tp, 3, d, ...] without grouped queries
        if version == 0:
            part = part.transpose(0, 1)
        elif version == 1:
            part = part.transpose(1, 2)
        parts.append(part.reshape(-1, *rest))
    return parts


def cut_for_ranks(tensor, cut, tp):
    if cut == Cut.copy:
        return [tensor] * tp
    if cut == Cut.gated:
        gate, up = tensor.chunk(2)
        return [torch.cat(pair) for pair in zip(gate.chunk(tp), up.chunk(tp))]
    return tensor.chunk(tp, 1 if cut == Cut.columns else 0)


def pad_words(tensor, multiple):
    padding = -tensor.shape[0] % multiple
    extra = torch.full((padding, *tensor.shape[1:]), 0.125, dtype=tensor.dtype)
    return torch.cat([tensor, extra])


LEGACY = {"qkv": "self_attention.query_key_value", "out": "self_attention.dense",
          "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h", "norm1": "input_layernorm.",
          "norm2": "post_attention_layernorm.", "layers": "language_model.encoder.layers.",
          "embedding": "language_model.embedding.", "final": "language_model.encoder.final_layernorm.",
          "head": "language_model.output_layer.weight", "pooler": "language_model.pooler.dense.",
          "tied": "word_embeddings_for_head.weight", "lm_norm": "lm_head.layernorm.",
          "lm_bias": "lm_head.bias"}
OLDEST = LEGACY | {"qkv": "attention.query_key_value", "out": "attention.dense",
                   "layers": "language_model.transformer.layers.",
                   "final": "language_model.transformer.final_layernorm."}
CORE = {"qkv": "self_attention.linear_qkv", "out": "self_attention.linear_proj",
        "up": "mlp.linear_fc1", "down": "mlp.linear_fc2",
        "norm1": "self_attention.linear_qkv.layer_norm_", "norm2": "mlp.linear_fc1.layer_norm_",
        "layers": "decoder.layers.", "embedding": "embedding.", "final": "decoder.final_layernorm.",
        "head": "output_layer.weight", "tied": "output_layer.weight"}


def gpt2_layers(state, config, names, version, tp):
    for i in range(config.n_layer):
        h = f"transformer.h.{i}."
        for ending in ("weight", "bias"):
            q, k, v = state[h + f"attn.c_attn.{ending}"].chunk(3, -1)
            turn = (lambda t: t.t()) if ending == "weight" else (lambda t: t)
            row = Cut.columns if ending == "weight" else Cut.copy
            yield i, f"{names['qkv']}.{ending}", fused_qkv(turn(q), turn(k), turn(v), config.n_head,
                                                           version, tp)
            for theirs, key, cut in (("attn.c_proj", "out", row), ("mlp.c_fc", "up", Cut.rows),
                                     ("mlp.c_proj", "down", row)):
                tensor = turn(state[h + f"{theirs}.{ending}"]).contiguous()
                yield i, f"{names[key]}.{ending}", cut_for_ranks(tensor, cut, tp)
            for theirs, key in (("ln_1", "norm1"), ("ln_2", "norm2")):
                yield i, names[key] + ending, [state[h + f"{theirs}.{ending}"]] * tp


def gpt2_ends(state, names):
    yield "first", names["embedding"] + "word_embeddings.weight", state["transformer.wte.weight"], \
        Cut.words
    yield "first", names["embedding"] + "position_embeddings.weight", \
        state["transformer.wpe.weight"], Cut.copy
    for ending in ("weight", "bias"):
        yield "last", names["final"] + ending, state[f"transformer.ln_f.{ending}"], Cut.copy


def llama_layers(state, config, names, version, tp):
    for i in range(config.num_hidden_layers):
        h = f"model.layers.{i}."
        parts = [state[h + f"self_attn.{part}_proj.weight"] for part in "qkv"]
        yield i, names["qkv"] + ".weight", fused_qkv(*parts, config.num_key_value_heads, version, tp)
        fc1 = torch.cat([state[h + "mlp.gate_proj.weight"], state[h + "mlp.up_proj.weight"]])
        yield i, names["up"] + ".weight", cut_for_ranks(fc1, Cut.gated, tp)
        yield i, names["out"] + ".weight", cut_for_ranks(state[h + "self_attn.o_proj.weight"],
                                                         Cut.columns, tp)
        yield i, names["down"] + ".weight", cut_for_ranks(state[h + "mlp.down_proj.weight"],
                                                          Cut.columns, tp)
        yield i, names["norm1"] + "weight", [state[h + "input_layernorm.weight"]] * tp
        yield i, names["norm2"] + "weight", [state[h + "post_attention_layernorm.weight"]] * tp


def llama_ends(state, names):
    yield "first", names["embedding"] + "word_embeddings.weight", \
        state["model.embed_tokens.weight"], Cut.words
    yield "last", names["final"] + "weight", state["model.norm.weight"], Cut.copy
    if "lm_head.weight" in state:
        yield "last", names["head"], state["lm_head.weight"], Cut.words


def bert_layers(state, config, names, version, tp):
    for i in range(config.num_hidden_layers):
        h = f"bert.encoder.layer.{i}."
        for ending in ("weight", "bias"):
            row = Cut.columns if ending == "weight" else Cut.copy
            parts = [state[h + f"attention.self.{part}.{ending}"] for part in ("query", "key", "value")]
            yield i, f"{names['qkv']}.{ending}", fused_qkv(*parts, config.num_attention_heads,
                                                           version, tp)
            for theirs, key, cut in (("attention.output.dense", "out", row),
                                     ("intermediate.dense", "up", Cut.rows),
                                     ("output.dense", "down", row)):
                yield i, f"{names[key]}.{ending}", cut_for_ranks(state[h + f"{theirs}.{ending}"],
                                                                 cut, tp)
            for theirs, key in (("attention.ln", "norm1"), ("ln", "norm2")):
                yield i, names[key] + ending, [state[h + f"{theirs}.{ending}"]] * tp


def bert_ends(state, names):
    for theirs, ours, cut in (("word", "word", Cut.words), ("position", "position", Cut.copy),
                              ("token_type", "tokentype", Cut.copy)):
        yield "first", names["embedding"] + f"{ours}_embeddings.weight", \
            state[f"bert.embeddings.{theirs}_embeddings.weight"], cut
    for ending in ("weight", "bias"):
        for theirs, ours in (("bert.encoder.ln.", names["final"]), ("bert.pooler.dense.", names["pooler"]),
                             ("cls.predictions.transform.dense.", "lm_head.dense."),
                             ("cls.predictions.transform.LayerNorm.", names["lm_norm"]),
                             ("cls.seq_relationship.", "binary_head.")):
            yield "last", ours + ending, state[theirs + ending], Cut.copy
    yield "last", names["lm_bias"], state["cls.predictions.bias"], Cut.words


FAMILIES = {"gpt2": (gpt2_layers, gpt2_ends), "llama": (llama_layers, llama_ends),
            "megatron-bert": (bert_layers, bert_ends)}


def nested(flat, core):
    """Nests names as legacy models do: dictionaries in dictionaries down to `encoder` and the like."""
    if core:
        return flat
    out = {}
    for name, tensor in flat.items():
        keys = name.split(".")
        depth = 2 if keys[0] == "language_model" and keys[1] in ("encoder", "transformer") else \
            len(keys) - 1
        place = out
        for key in keys[:depth]:
            place = place.setdefault(key, {})
        place[".".join(keys[depth:])] = tensor
    return out


def foreign_enum(module, name, **members):
    made = enum.Enum(name, members)
    made.__module__ = module
    for i in range(module.count(".") + 1):
        part = ".".join(module.split(".")[:i + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    setattr(sys.modules[module], name, made)
    return made


def megatron_arguments(config, tp, pp, padded, names):
    core = names is CORE
    args = dict(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
                padded_vocab_size=padded, make_vocab_size_divisible_by=8, num_experts=None,
                vocab_file="/old/vocab.json", lr=1e-3, params_dtype=torch.float32,
                model_type=foreign_enum("megatron.core.enums", "ModelType",
                                        encoder_or_decoder=1).encoder_or_decoder,
                hidden_dropout=0.1, attention_dropout=0.1, init_method_std=0.02)
    if config.model_type == "gpt2":
        args |= dict(num_layers=config.n_layer, hidden_size=config.n_embd,
                     num_attention_heads=config.n_head, ffn_hidden_size=4 * config.n_embd,
                     max_position_embeddings=config.n_positions, seq_length=config.n_positions,
                     kv_channels=config.n_embd // config.n_head, bias_gelu_fusion=True,
                     layernorm_epsilon=config.layer_norm_epsilon)
        return args
    args |= dict(num_layers=config.num_hidden_layers, hidden_size=config.hidden_size,
                 num_attention_heads=config.num_attention_heads,
                 ffn_hidden_size=config.intermediate_size,
                 max_position_embeddings=config.max_position_embeddings,
                 seq_length=config.max_position_embeddings)
    if config.model_type == "llama":
        groups = config.num_key_value_heads
        return args | dict(
            kv_channels=config.head_dim, group_query_attention=groups < config.num_attention_heads,
            num_query_groups=groups, swiglu=True, normalization="RMSNorm", add_bias_linear=False,
            add_qkv_bias=False, position_embedding_type="rope", rotary_percent=1.0,
            rotary_base=int(config.rope_parameters["rope_theta"]), norm_epsilon=config.rms_norm_eps,
            untie_embeddings_and_output_weights=not config.tie_word_embeddings,
            bias_gelu_fusion=core, hidden_dropout=0.0, attention_dropout=0.0)
    return args | dict(kv_channels=config.hidden_size // config.num_attention_heads,
                       bias_gelu_fusion=False, layernorm_epsilon=config.layer_norm_eps,
                       bert_binary_head=True)


def save_megatron(state, config, folder, tp=1, pp=1, virtual=1, version=3.0, names=LEGACY,
                  iteration=100):
    """Saves all ranks of one step; `virtual` chunks of layers on each pipeline stage."""
    make_layers, make_ends = FAMILIES[config.model_type]
    core, per_chunk = names is CORE, None
    layers = list(make_layers(state, config, names, version, tp))
    per_chunk = (max(layer for layer, _, _ in layers) + 1) // (pp * virtual)
    ranks = [[[{} for _ in range(virtual)] for _ in range(pp)] for _ in range(tp)]
    for layer, name, parts in layers:
        chunk, local = divmod(layer, per_chunk)
        for rank in range(tp):
            ranks[rank][chunk % pp][chunk // pp][f"{names['layers']}{local}.{name}"] = \
                parts[rank].contiguous().clone()
            if core:
                ranks[rank][chunk % pp][chunk // pp][
                    f"{names['layers']}{local}.mlp.linear_fc1._extra_state"] = None
    padded = 0
    for place, name, tensor, cut in make_ends(state, names):
        if cut == Cut.words:
            tensor = pad_words(tensor, 8 * tp)
            padded = tensor.shape[0]
        stage, chunk = (0, 0) if place == "first" else (pp - 1, virtual - 1)
        for rank, part in enumerate(cut_for_ranks(tensor, cut, tp)):
            ranks[rank][stage][chunk][name] = part.contiguous().clone()
            # The last stage has a second copy of the tied embedding.
            tied = config.tie_word_embeddings and pp > 1
            if tied and name.endswith("word_embeddings.weight"):
                ranks[rank][pp - 1][virtual - 1][names["tied"]] = part.contiguous().clone()
    args = megatron_arguments(config, tp, pp, padded, names)
    step = folder / f"iter_{iteration:07d}"
    for rank in range(tp):
        for stage in range(pp):
            place = step / (f"mp_rank_{rank:02d}" + (f"_{stage:03d}" if pp > 1 else ""))
            place.mkdir(parents=True, exist_ok=True)
            saved = {"args": argparse.Namespace(**args), "iteration": iteration}
            if version:
                saved["checkpoint_version"] = version
            for i, chunk in enumerate(ranks[rank][stage]):
                saved[f"model{i}" if virtual > 1 else "model"] = nested(chunk, core)
            torch.save(saved, place / "model_optim_rng.pt")
    (folder / "latest_checkpointed_iteration.txt").write_text(str(iteration))
