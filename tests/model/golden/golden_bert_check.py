"""BERT against transformers' two classes."""

import torch

from golden_bert import bert_logits
from golden_formulas import bert_batch, largest, weight
from golden_shapes import shapes
from golden_variants import SEQ, VOCAB


def check_bert(m):
    from transformers import (BertConfig, BertForPreTraining, MegatronBertConfig,
                              MegatronBertForPreTraining)
    post = m["norm_placement"] == "post"
    config, kind = ((BertConfig, BertForPreTraining) if post
                    else (MegatronBertConfig, MegatronBertForPreTraining))
    model = kind(config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, max_position_embeddings=SEQ, layer_norm_eps=1e-12,
                        hidden_act="gelu"))
    w = {name: weight(name, shape) for name, shape in shapes(m).items()}
    words, heads = "bert.embeddings.", "cls.predictions."
    state = {words + "word_embeddings.weight": w["embedding.word.weight"],
             words + "position_embeddings.weight": w["embedding.position.weight"],
             words + "token_type_embeddings.weight": w["embedding.token_type.weight"],
             heads + "bias": w["masked_head.bias"], heads + "decoder.bias": w["masked_head.bias"],
             heads + "decoder.weight": w["embedding.word.weight"]}
    names = {"pooler": "bert.pooler.dense", "masked_head.dense": heads + "transform.dense",
             "masked_head.norm": heads + "transform.LayerNorm", "order_head": "cls.seq_relationship"}
    names |= {"embedding.norm": words + "LayerNorm"} if post else {"final_norm": "bert.encoder.ln"}
    for n in range(2):
        ours, theirs = f"layers.{n}.", f"bert.encoder.layer.{n}."
        names |= {ours + "attention.out": theirs + "attention.output.dense",
                  ours + "mlp.up": theirs + "intermediate.dense",
                  ours + "mlp.down": theirs + "output.dense"}
        if post:
            names |= {ours + "mlp_norm": theirs + "attention.output.LayerNorm",
                      ours + "output_norm": theirs + "output.LayerNorm"}
        else:
            names |= {ours + "input_norm": theirs + "attention.ln", ours + "mlp_norm": theirs + "ln"}
        for kind in ("weight", "bias"):
            qkv = w[f"{ours}attention.qkv.{kind}"].view(4, 3, 8, -1)
            for i, part in enumerate(("query", "key", "value")):
                name = f"{theirs}attention.self.{part}.{kind}"
                state[name] = qkv[:, i].reshape(32, *qkv.shape[3:]).squeeze(-1 if kind == "bias" else 0)
    for ours, theirs in names.items():
        state |= {f"{theirs}.{kind}": w[f"{ours}.{kind}"] for kind in ("weight", "bias")}
    missing = model.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and all("_ids" in k for k in missing.missing_keys), missing
    inputs, _, _, segments, lengths, _ = bert_batch(0)
    mask = (torch.arange(SEQ) < lengths[:, None]).long()
    theirs = model.eval()(inputs, attention_mask=mask, token_type_ids=segments)
    words, order = bert_logits(m, w, inputs, segments, lengths)
    real = mask.bool()
    print(f"bert, {m['norm_placement']}-norm, against {type(model).__name__}:",
          largest(theirs.prediction_logits[real], words[real]),
          largest(theirs.seq_relationship_logits, order))
