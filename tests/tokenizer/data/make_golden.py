#!/usr/bin/env python3
"""Makes the golden files beside this script with the reference libraries.

    pip install tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3
    python make_golden.py

Each *.golden.json contains a small tokenizer.json, trained here, and the reference's results for a list
of texts: IDs, IDs and types with special tokens, IDs and types of pairs, and decoded texts. The
SentencePiece files are a .model and its results; tiktoken.golden.json contains a file of ranks. The
reference trainers depend on the order of hash tables: a second run creates other vocabularies, with
golden values to match.
"""
import base64
import json
import random
from pathlib import Path

import sentencepiece
import tiktoken
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

HERE = Path(__file__).parent
PROSE = """
The trireme was the fast ship of the Aegean: three banks of oars on each side, one man to an oar, and
a ram of bronze at the bow. A hundred and seventy rowers pulled in time to the pipe of one player.
They didn't sleep on board; they'd beach her each night, and she'd be dry and light by morning.
Who steers well in 480 BC, with 200 ships against 1,207, wins at Salamis. "Row!" he cried, "row, you
dogs, we're winning!" It's said that they sang while rowing. Speed: 9.5 knots, or more, for hours?
if (oars[i] != NULL) { pull(oars[i], time + 1); }  // three per column
    return banks * 54 + 8;\t/* thranites, zygites, thalamites */
Café naïve façade Ünïcode über straße; привет мир, как дела? 日本語の文字列と漢字。カタカナ
ένα δύο τρία, 42 ½ ² Ⅷ १२३ 👍🏽 🏴 e\u0301a\u0323\u0307 \u00a0\u2003end
""".strip().split("\n") * 3
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def texts(special, count=60):
    """Returns texts that mix prose, special tokens and characters that pre-tokenizers distinguish."""
    draw = random.Random(len(special))
    words = " ".join(PROSE).split(" ")
    pools = ["aAsSrReEvVlLdDmMtTéÉßſàñÅK\u0301", "  \n\r\t\u0085\u00a0\u2028\u3000", "'\".,!?-_<>|()[]{}’°👍",
             "0179²१Ⅷ½", "的一是不漢字カ", "▁▁ab "]
    out = ["", " ", "  ", "\n", *special, PROSE[2], PROSE[5] + "\n" + PROSE[6]]
    while len(out) < count:
        text = ""
        for _ in range(draw.randint(1, 8)):
            kind = draw.random()
            if kind < 0.4:
                text += draw.choice(["", " "]) + draw.choice(words)
            elif kind < 0.55 and special:
                text += draw.choice(["", " ", "  "]) + draw.choice(special) + draw.choice(["", " ", "\n"])
            else:
                pool = draw.choice(pools)
                text += "".join(draw.choice(pool) for _ in range(draw.randint(1, 5)))
        out.append(text)
    return out


def write(name, content):
    with open(HERE / f"{name}.golden.json", "w", encoding="ascii") as file:
        json.dump(content, file, separators=(",", ":"))
        file.write("\n")


def golden(name, tokenizer):
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()][:20]
    draw = random.Random(name)
    valid = [i for i in range(tokenizer.get_vocab_size()) if tokenizer.id_to_token(i) is not None]
    all_texts = texts(special)
    cases = []
    for text in all_texts:
        other = draw.choice(all_texts)
        plain = tokenizer.encode(text, add_special_tokens=False)
        single = tokenizer.encode(text)
        pair = tokenizer.encode(text, other)
        cases.append({"text": text, "ids": plain.ids, "single": [single.ids, single.type_ids],
                      "other": other, "pair": [pair.ids, pair.type_ids]})
    lists = [case["pair"][0] for case in cases]
    lists += [[draw.choice(valid) for _ in range(draw.randint(1, 8))] for _ in range(40)]
    decoded = [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False),
                "skipped": tokenizer.decode(ids, skip_special_tokens=True)} for ids in lists]
    write(name, {"tokenizer": json.loads(tokenizer.to_str()), "cases": cases, "decoded": decoded})


def train(model, pre_tokenizer, trainer, normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(PROSE, trainer)
    return json.loads(tokenizer.to_str())["model"]


def with_model(tokenizer, model):
    content = json.loads(tokenizer.to_str())
    content["model"] = model
    return Tokenizer.from_str(json.dumps(content))


def llama2(name, normalizer, pre_tokenizer, decoder, fallback=True, fuse=True, extra=()):
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    special = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    model = train(models.BPE(unk_token="<unk>"), metaspace,
                  trainers.BpeTrainer(vocab_size=len(special) + 260, special_tokens=special,
                                      limit_alphabet=60, show_progress=False))
    model.update(byte_fallback=fallback, fuse_unk=fuse)
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer = with_model(tokenizer, model)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in special[:3]])
    tokenizer.add_special_tokens([token for token in extra if token.special])
    tokenizer.add_tokens([token for token in extra if not token.special])
    golden(name, tokenizer)


def llama2_family():
    sequence = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                  decoders.Strip(" ", 1, 0)])
    llama2("llama2_prepend", normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
           None, sequence)
    llama2("llama2_metaspace_first", None,
           pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False), sequence)
    llama2("char_bpe_unknown", None,
           pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True),
           decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True), fallback=False,
           fuse=False,
           extra=[AddedToken("oar", single_word=True), AddedToken("<x>", lstrip=True, rstrip=True),
                  AddedToken("ow", normalized=True), AddedToken("owe", normalized=False),
                  AddedToken("<mask>", lstrip=True, special=True)])


def byte_level_model(pre_tokenizer, size):
    return train(models.BPE(), pre_tokenizer,
                 trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                     show_progress=False))


def byte_level_family():
    split = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    model = byte_level_model(split, 450)
    # Without these merges, some tokens can only be found by looking up the whole piece.
    model["merges"] = [merge for i, merge in enumerate(model["merges"]) if i % 7]
    model["ignore_merges"] = True
    size = len(model["vocab"])
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>"]

    def build(pre_tokenizer, normalizer=None):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizer
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer = with_model(tokenizer, model)
        tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in names])
        return tokenizer

    tokenizer = build(split)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                      pair="<|begin_of_text|>:0 $A:0 <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", size)])])
    golden("llama3", tokenizer)

    other = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    golden("byte_level_nfc_regex", build(other, normalizers.NFC()))

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer = with_model(tokenizer, byte_level_model(tokenizer.pre_tokenizer, 400))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("é x", normalized=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 401), ("<s>", 400))
    golden("roberta", tokenizer)


def bert_family():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for name, lowercase in (("bert_uncased", True), ("bert_cased", False)):
        normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        model = train(models.WordPiece(unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer(),
                      trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False),
                      normalizer)
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix="##")
        tokenizer = with_model(tokenizer, model)
        tokenizer.add_special_tokens(special)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        golden(name, tokenizer)

    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(),
                                                 normalizers.StripAccents(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation(behavior="merged_with_next"),
        pre_tokenizers.Split("a", "merged_with_previous")])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    golden("wordpiece_sequence", tokenizer)


def sentencepiece_files():
    prefix = str(HERE / "sentencepiece")
    text = HERE / "prose.txt"
    text.write_text("\n".join(PROSE), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=prefix, vocab_size=500, model_type="bpe", byte_fallback=True,
        split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=0.98, minloglevel=2)
    text.unlink()
    Path(prefix + ".vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
    cases = [{"text": text, "ids": processor.encode(text)} for text in texts(["<s>", "</s>", "<unk>"])]
    draw = random.Random(1)
    lists = [case["ids"] for case in cases]
    lists += [[draw.randrange(500) for _ in range(8)] for _ in range(40)]
    write("sentencepiece", {"cases": cases,
                            "decoded": [{"ids": ids, "text": processor.decode(ids)} for ids in lists]})


def tiktoken_file():
    model = json.loads((HERE / "llama3.golden.json").read_text())["tokenizer"]["model"]
    kept = list(range(ord("!"), 127)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 256))
    alphabet = {chr(b): b for b in kept}
    alphabet.update({chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in kept)})
    ranks = {bytes(alphabet[c] for c in token): rank for token, rank in model["vocab"].items()}
    size = len(ranks)
    special = {"<|begin_of_text|>": size, "<|end_of_text|>": size + 1, "<|eot_id|>": size + 9,
               "<|reserved_special_token_0|>": size + 2, "<|reserved_special_token_4|>": size + 8,
               "<|reserved_special_token_250|>": size + 255}
    encoding = tiktoken.Encoding("small", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=special)
    cases = [{"text": text, "ids": encoding.encode(text, allowed_special="all"),
              "plain": encoding.encode_ordinary(text)} for text in texts(list(special))]
    lines = [f"{base64.b64encode(token).decode()} {rank}" for token, rank in ranks.items()]
    write("tiktoken", {"ranks": "\n".join(lines) + "\n", "cases": cases})


def main():
    llama2_family()
    byte_level_family()
    bert_family()
    sentencepiece_files()
    tiktoken_file()


main()
