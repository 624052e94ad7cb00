"""Tests of tokenizers that are read from files, against Hugging Face's tokenizers and tiktoken.

Every file that Trireme accepts must give the reference's IDs for every text; a file or a text that
it rejects is counted. TRIREME_SCALE multiplies the number of random files (500 by default, each
with 125 texts).
"""
import base64
import json
import multiprocessing
import random

import pytest

tokenizers = pytest.importorskip("tokenizers")
tiktoken = pytest.importorskip("tiktoken")

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, trainers)

from compare import PROSE, Tally, encode, random_text  # noqa: E402

TEXTS_PER_FILE = 125


# --- Random files -----------------------------------------------------------------------------------

REGEXES = [
    r"\s+", r"\d", r"\p{L}+", r"[a-c]", r"\w+|[^\w\s]+", r"(?=(\d{3})+(?!\d))", r"\b", r"^", r"$", r"",
    r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"a*", r"(?<=a)b", r"[[:punct:]]",
    r"\p{Lu}?\p{Ll}+", r"(?i)S", r".", r"(?m).", r"\R", r"[一-龥぀-ゟ゠-ヿ]+", r"[\p{P}\p{S}]"]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def random_pattern(rng):
    return rng.choice([" ", "a", "ab", "▁", "b ", "é"]) if rng.random() < 0.5 else Regex(rng.choice(REGEXES))


def random_normalizer(rng, depth=0):
    kind = rng.randrange(12)
    if kind == 0 and depth < 2:
        return normalizers.Sequence([random_normalizer(rng, depth + 1) for _ in range(rng.randint(1, 3))])
    return [lambda: normalizers.Lowercase(), lambda: normalizers.NFC(), lambda: normalizers.NFD(),
            lambda: normalizers.NFKC(), lambda: normalizers.NFKD(), lambda: normalizers.StripAccents(),
            lambda: normalizers.Strip(rng.random() < 0.7, rng.random() < 0.7),
            lambda: normalizers.Prepend(rng.choice(["▁", " ", "x", "ab "])),
            lambda: normalizers.Replace(random_pattern(rng), rng.choice(["", "▁", " ", "a", "xy"])),
            lambda: normalizers.BertNormalizer(*(rng.random() < 0.5 for _ in range(4))),
            lambda: normalizers.ByteLevel(), lambda: normalizers.Lowercase()][kind]()


def random_pre_tokenizer(rng, depth=0):
    kind = rng.randrange(11)
    if kind < 3 and depth < 2:
        return pre_tokenizers.Sequence(
            [random_pre_tokenizer(rng, depth + 1) for _ in range(rng.randint(1, 3))])
    return [lambda: pre_tokenizers.ByteLevel(rng.random() < 0.5, True, rng.random() < 0.7),
            lambda: pre_tokenizers.Metaspace(rng.choice("▁_"), rng.choice(["always", "first", "never"]),
                                             rng.random() < 0.6),
            lambda: pre_tokenizers.Whitespace(), lambda: pre_tokenizers.WhitespaceSplit(),
            lambda: pre_tokenizers.BertPreTokenizer(), lambda: pre_tokenizers.Digits(rng.random() < 0.5),
            lambda: pre_tokenizers.Punctuation(rng.choice(BEHAVIORS)),
            lambda: pre_tokenizers.Split(random_pattern(rng), rng.choice(BEHAVIORS), rng.random() < 0.3),
            lambda: pre_tokenizers.CharDelimiterSplit(rng.choice("a ▁")),
            lambda: pre_tokenizers.ByteLevel(False, True, True),
            lambda: pre_tokenizers.Split(Regex(rng.choice(REGEXES)), "isolated")][kind]()


def spelled_bytes():
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def random_bpe(rng, spelled):
    characters = list("abcABC sStTdDlLrRve'0179.,!?é▁") + list("一漢字カ한")
    letters = spelled_bytes() if spelled else characters
    if rng.random() < 0.4:
        letters = rng.sample(letters, rng.randint(1, len(letters)))
    prefix = "##" if rng.random() < 0.1 else None
    suffix = "</w>" if rng.random() < 0.1 else None
    tokens = list(letters)
    if prefix:
        tokens += [prefix + letter for letter in letters]
    if suffix:
        tokens += [token + suffix for token in list(tokens)]
    if rng.random() < 0.4:
        codes = [f"<0x{i:02X}>" for i in range(256)]
        tokens += codes if rng.random() < 0.7 else rng.sample(codes, 100)
    unknown = "<unk>" if rng.random() < 0.5 else None
    if unknown:
        tokens.append(unknown)
    frequent = [t for t in tokens if t.strip("#</w>") in ("a", "b", "c", " ", "Ġ", "▁", "s", "t", "A", "Ã", "©")]
    merges = []
    for _ in range(rng.choice([0, 5, 40, 150])):
        pool = (frequent if frequent and rng.random() < 0.7 else tokens) + [a + b for a, b in merges[-5:] if not prefix]
        left, right = rng.choice(pool), rng.choice(pool)
        if prefix and not right.startswith(prefix) or suffix and left.endswith(suffix):
            continue
        joined = left + right[len(prefix or ""):]
        if (left, right) in merges or left not in tokens or right not in tokens or len(joined) > 100:
            continue  # tokens that are merged with themselves double every time
        if joined not in tokens:
            tokens.append(joined)
        merges.append((left, right))
    tokens = list(dict.fromkeys(tokens))
    options = {"unk_token": unknown, "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
    return models.BPE({token: i for i, token in enumerate(tokens)}, merges,
                      **{key: value for key, value in options.items() if value}, fuse_unk=rng.random() < 0.5, byte_fallback=rng.random() < 0.5,
                      ignore_merges=rng.random() < 0.3)


def random_words(rng):
    words = {w for line in PROSE for w in line.split(" ") if w}
    out = ["<unk>"] + sorted(rng.sample(sorted(words), 30))
    out += list("abcdefghijklmnopqrstuvwxyzABC .,'0123456789") + ["##" + c for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    return {word: i for i, word in enumerate(dict.fromkeys(out))}


def random_model(rng):
    kind = rng.random()
    if kind < 0.1:
        return models.WordLevel(random_words(rng), unk_token="<unk>")
    if kind < 0.25:
        return models.WordPiece(random_words(rng), unk_token="<unk>",
                                max_input_chars_per_word=rng.choice([100, 5]),
                                continuing_subword_prefix=rng.choice(["##", "##", ""]))
    return random_bpe(rng, kind < 0.7)


def random_file(rng):
    tokenizer = Tokenizer(random_model(rng))
    if rng.random() < 0.5:
        tokenizer.normalizer = random_normalizer(rng)
    if rng.random() < 0.9:
        tokenizer.pre_tokenizer = random_pre_tokenizer(rng)
    words = ["<s>", " ", "  ", "   ", "[X]", "é", "ab", "Ġ", "<|e|>", "THE", "\n", "▁", "ÃĮ"]
    added = []
    for content in rng.sample(words, rng.choice([0, 0, 1, 3, 6])):
        special = rng.random() < 0.4
        token = AddedToken(content, single_word=rng.random() < 0.2, lstrip=rng.random() < 0.3,
                           rstrip=rng.random() < 0.3, normalized=rng.random() < 0.5, special=special)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
        added.append(content)
    return tokenizer.to_str(), added


def compare_random_files(program, path, seeds):
    tally, made = Tally(), 0
    for seed in seeds:
        draw = random.Random(seed)
        try:
            content, added = random_file(draw)
            Tokenizer.from_str(content)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            continue  # for example two added tokens with the same content, which the reference rejects
        made += 1
        texts = [random_text(draw, added) for _ in range(TEXTS_PER_FILE)]
        tally.compare(program, path, content, texts, f"file of seed {seed}")
    return tally, made


def test_random_files(trireme, rng, tries, tmp_path):
    tally, made, count = Tally(), 0, tries(500)
    # Uses one process per hundred: the library leaks half a megabyte per tokenizer.
    hundreds = [(trireme, tmp_path / "tokenizer.json", [rng.random() for _ in range(min(100, count - i))])
                for i in range(0, count, 100)]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for part, files in pool.starmap(compare_random_files, hundreds, chunksize=1):
            tally.add(part)
            made += files
    tally.report(f"{made} random files")
    assert tally.equal > 0.5 * made * TEXTS_PER_FILE


# --- Regular expressions ----------------------------------------------------------------------------

PATTERNS = REGEXES + [
    # empty matches
    r"(?=[A-Z])", r"(?<=[a-z])(?=[A-Z])", r"(?!a)", r"\B", r"x*|b", r"(?:)", r"a??", r"(?=\s)|\d", r"\G", r"()",
    # sets
    r"[a-z&&[^aeiou]]+", r"[\p{L}&&[^\p{Han}]]+", r"[a[b[c]]]+", r"[^a[b]]", r"[\w&&\d]", r"[a-c&&b-d]+",
    r"[]a]+", r"[a\]b]", r"[\d\s]+", r"[^\s\S]", r"[a-]", r"[--a]",
    # scripts and categories
    r"\p{Han}+", r"\p{Hiragana}+", r"\p{Katakana}+", r"\p{Latin}+", r"\p{Cyrillic}", r"\p{Greek}+", r"\p{Hangul}",
    r"\p{Common}", r"\p{Inherited}+", r"\P{L}", r"\p{^L}+", r"\P{^L}+", r"\pL", r"\p{Letter}+", r"\p{Nd}", r"\p{N}{1,3}",
    r"\p{M}+", r"\p{Lm}", r"\p{Lt}", r"\p{Lo}+", r"\p{Sm}", r"\p{Sc}", r"\p{So}+", r"\p{Zs}", r"\p{Cc}", r"\p{Cf}", r"\p{Cn}",
    r"\p{Alphabetic}+", r"\p{White_Space}+", r"\p{Emoji}", r"\p{Extended_Pictographic}", r"\p{Any}", r"\p{Script=Han}",
    r"\p{InBasicLatin}+", r"\p{Block=Basic_Latin}", r"\p{Ideographic}+",
    # words and marks
    r"\w", r"\W", r"\w+", r"\W+", r"\b\w", r"\b(?=\p{M})", r"\bl|\Bl", r"\p{L}\p{M}*", r"\X", r"\d+", r"\D+", r"\S+", r"\h", r"\H+",
    # anchors and line ends
    r"^a", r"a$", r"^\s*$", r"\Aa", r"\R+", r"\N+", r"\O", r"\n", r"[\r\n]+", r".+", r"(?s).+", r"(?m).+", r"(?m)^a.", r"(?x) a b # c", r"\v",
    # repetition
    r"a{1,2}+", r"a{,2}", r"a{2}", r"a{1,2}?", r"a++", r"a*+b", r"(?>a+)b", r"a+?", r"(a|ab)(c|bcd)", r"(?:ab|a)*", r"b{2,}", r"a{0}",
    # case
    r"(?i)ss", r"(?i)ß", r"(?i)straße", r"(?i)k", r"(?i:'s|'t|'re)", r"(?i)[a-c]+", r"(?i)\p{Lu}", r"(?i)ſ", r"(?i)i", r"(?-i)A", r"(?i)é", r"(?i)ﬀ",
    # POSIX sets
    r"[[:alpha:]]+", r"[[:digit:]]", r"[[:punct:]]+", r"[[:space:]]", r"[[:upper:]]", r"[[:lower:]]+", r"[[:alnum:]]+", r"[[:^alpha:]]",
    r"[[:word:]]+", r"[[:^punct:]a]+", r"[[:cntrl:]]", r"[[:xdigit:]]+", r"[[:graph:]]", r"[[:blank:]]", r"[^[:alpha:][:digit:]]+", r"[[:ascii:]]+",
    # references, look-around and other constructs
    r"(a)\1", r"(?<x>a)\k<x>", r"(?<!a)b", r"(?<=a|bc)d", r"a(?=b)", r"a(?!b)", r"\Kb", r"a\Kb", r"(?:a|(b))\1", r"\x{4e00}", r"[\x{4e00}-\x{9fa5}]+",
    r"\u4e00", r"\t", r"\e|\a", r"\x41", r"\Qa.b\E", r"(?#comment)a", r"\p{Punct}", r"(?I)a", r"(?~ab)", r"(a)?(?(1)b|c)", r"\z", r"a|\Z", r"(*FAIL)",
    # patterns of well-known files
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"[0-9][0-9][0-9]", r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]


def test_regular_expressions(trireme, rng, tmp_path):
    """Uses each pattern in Split and in Replace, so that every boundary shows in the IDs."""
    tally, refused = Tally(), []
    for pattern in PATTERNS:
        try:
            Regex(pattern)
        except Exception:
            continue  # the reference does not accept the pattern either
        texts = [random_text(rng, ["aab", "abc", "1234567", "ab12", "aaa", "a\nb", "bb"])
                 for _ in range(TEXTS_PER_FILE)]
        accepted = True
        for behavior in ("isolated", rng.choice(BEHAVIORS)):
            split = pre_tokenizers.Split(Regex(pattern), behavior, rng.random() < 0.2)
            replace = normalizers.Replace(Regex(pattern), "·")
            pieces = {"?"}
            for text in texts:
                pieces.update(piece for piece, _ in split.pre_tokenize_str(text))
                pieces.update([replace.normalize_str(text)])
            model = models.WordLevel({piece: i for i, piece in enumerate(sorted(pieces))}, unk_token="?")
            splitting, replacing = Tokenizer(model), Tokenizer(model)
            splitting.pre_tokenizer = split
            replacing.normalizer = replace
            for tokenizer in (splitting, replacing):
                accepted &= tally.compare(trireme, tmp_path / "tokenizer.json", tokenizer, texts, pattern)
        if not accepted:
            refused.append(pattern)
    tally.report(f"{len(PATTERNS)} regular expressions, {len(refused)} refused")
    print("  refused:", "  ".join(refused))
    assert len(refused) < 20


def test_every_code_point(trireme, tmp_path):
    """Letters, numbers, spaces and words match the reference, for every character that its regular
    expressions know; its other parts support Unicode 17."""
    unassigned = normalizers.Replace(Regex(r"\p{Cn}"), "")
    lines = ["".join(f"a{chr(c)}" for c in range(start, start + 256) if not 0xD800 <= c < 0xE000)
             for start in range(0, 0x110000, 256)]
    lines = [unassigned.normalize_str(line) for line in lines]
    for pre_tokenizer in (pre_tokenizers.Split(Regex(CL100K), "isolated"),
                          pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}|\s+"), "isolated"),
                          pre_tokenizers.Split(Regex(r"[\p{P}\p{S}]|\p{Lu}|\p{M}|\p{Han}+"), "isolated"),
                          pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(),
                          pre_tokenizers.Digits(True)):
        pieces = {"?"}
        for line in lines:
            pieces.update(piece for piece, _ in pre_tokenizer.pre_tokenize_str(line))
        tokenizer = Tokenizer(models.WordLevel({p: i for i, p in enumerate(sorted(pieces))}, unk_token="?"))
        tokenizer.pre_tokenizer = pre_tokenizer
        tally = Tally()
        assert tally.compare(trireme, tmp_path / "tokenizer.json", tokenizer, lines, str(pre_tokenizer)), tally.messages


# --- Files shaped like well-known ones --------------------------------------------------------------

def byte_level(*before, after=(), use_regex=False):
    own = pre_tokenizers.ByteLevel(False, True, use_regex)
    return pre_tokenizers.Sequence([*before, own, *after]) if before or after else own


def regex_split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace("{1,3}", "")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+" + CONTRACTION + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + CONTRACTION + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
SPACES = [AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)]

SHAPES = {
    "gpt2": (None, byte_level(use_regex=True), ["<|endoftext|>"], []),
    "gpt-neox": (normalizers.NFC(), byte_level(use_regex=True), ["<|endoftext|>", "<|padding|>"], SPACES),
    "llama-3": (None, byte_level(regex_split(CL100K)), ["<|begin_of_text|>", "<|end_of_text|>"], []),
    "qwen-2": (normalizers.NFC(), byte_level(regex_split(QWEN2)), ["<|endoftext|>", "<|im_start|>"], []),
    "o200k": (None, byte_level(regex_split(O200K)), ["<|endoftext|>"], []),
    "kimi": (None, byte_level(regex_split(KIMI)), ["[BOS]", "[EOS]"], []),
    "deepseek-v3": (None, byte_level(*map(regex_split, DEEPSEEK)), ["<｜begin▁of▁sentence｜>"], []),
    "superbpe": (None, byte_level(regex_split(r"(?=(\d{3})+(?!\d))"),
                                  regex_split(r" ?[^\s\d]+| ?\d+|\s+(?!\S)|\s+")), ["<|endoftext|>"], []),
    "falcon": (None, byte_level(pre_tokenizers.Punctuation("contiguous"), use_regex=True,
                                after=[pre_tokenizers.Digits(False), regex_split("[0-9][0-9][0-9]")]),
               [">>TITLE<<", "<|endoftext|>"], []),
    "bloom": (None, byte_level(regex_split(BLOOM)), ["<unk>", "<s>", "</s>", "<pad>"], []),
    "starcoder": (None, byte_level(pre_tokenizers.Digits(True), use_regex=True), ["<|endoftext|>", "<fim_prefix>"], []),
    "llama-2": (normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                ["<unk>", "<s>", "</s>"], []),
    "gemma": (normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
              ["<pad>", "<eos>", "<bos>"], [AddedToken("\n" * n, normalized=False) for n in range(2, 9)]),
    "mistral": (None, pre_tokenizers.Metaspace("▁", "first", False), ["<unk>", "<s>", "</s>"], []),
    "clip": (normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
             byte_level(pre_tokenizers.Split(
                 Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True)),
             ["<|startoftext|>", "<|endoftext|>"], []),
    "byte-level-normalizer": (normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()]), None, ["<s>"], []),
}


def trained(name, normalizer, pre_tokenizer, special, added, texts=PROSE, size=700):
    suffix = "</w>" if name == "clip" else None
    options = {"end_of_word_suffix": suffix, "unk_token": "<unk>" if "<unk>" in special else None}
    given = {key: value for key, value in options.items() if value}
    tokenizer = Tokenizer(models.BPE(**given))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    spelled = "ByteLevel" in tokenizer.to_str()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False,
        **({"end_of_word_suffix": suffix} if suffix else {}), initial_alphabet=spelled_bytes() if spelled else []))
    tokenizer.add_tokens(added)
    tokenizer.decoder = decoders.ByteLevel() if spelled else decoders.Metaspace("▁", "always", True)
    return tokenizer


@pytest.mark.parametrize("name", SHAPES)
def test_shaped_like(name, trireme, rng, tries, tmp_path):
    tokenizer = trained(name, *SHAPES[name])
    words = SHAPES[name][2] + [token.content for token in SHAPES[name][3][-3:]]
    texts = PROSE[:6] + ["\n".join(PROSE)] + [random_text(rng, words) for _ in range(tries(1500))]
    tally = Tally()
    assert tally.compare(trireme, tmp_path / "tokenizer.json", tokenizer, texts, name), tally.messages
    if name == "clip":
        return  # transformers decodes it with BPEDecoder after ByteLevel
    valid = [i for i in range(tokenizer.get_vocab_size()) if tokenizer.id_to_token(i) is not None]
    lists = [[rng.choice(valid) for _ in range(rng.randint(1, 9))] for _ in range(300)]
    got = trireme.lines("tokenizer", "decode", "--tokenizer-type", "hf", "--tokenizer-model",
                        tmp_path / "tokenizer.json", "--jsonl", "-",
                        input="".join(json.dumps(ids) + "\n" for ids in lists))
    for ids, line in zip(lists, got):
        assert line["text"] == tokenizer.decode(ids, skip_special_tokens=False), ids


# --- tiktoken ---------------------------------------------------------------------------------------

def llama_specials(size, named):
    names, reserved = {}, 0
    for offset in range(256):
        if offset in named:
            names[named[offset]] = size + offset
        else:
            names[f"<|reserved_special_token_{reserved}|>"] = size + offset
            reserved += 1
    return names


LLAMA3 = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 6: "<|start_header_id|>", 7: "<|end_header_id|>", 9: "<|eot_id|>"}
LLAMA31 = {**LLAMA3, 4: "<|finetune_right_pad_id|>", 5: "<|step_id|>", 8: "<|eom_id|>", 10: "<|python_tag|>"}
KIMI_NAMES = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 10: "<|im_system|>",
              17: "<|im_middle|>", 254: "[UNK]", 255: "[PAD]"}
TIKTOKEN = {
    "gpt2": (GPT2, lambda n: {"<|endoftext|>": n}),
    "cl100k_base": (CL100K, lambda n: {"<|endoftext|>": n + 1, "<|fim_prefix|>": n + 2, "<|endofprompt|>": n + 20}),
    "o200k_base": (O200K, lambda n: {"<|endoftext|>": n + 1, "<|endofprompt|>": n + 20}),
    "llama3": (CL100K, lambda n: llama_specials(n, LLAMA3)),
    "llama3.1": (CL100K, lambda n: llama_specials(n, LLAMA31)),
    "qwen": (QWEN2, lambda n: {"<|endoftext|>": n, "<|im_start|>": n + 1, "<|im_end|>": n + 2, "<|extra_7|>": n + 10}),
    "qwen2": (QWEN2, lambda n: {"<|endoftext|>": n, "<|im_start|>": n + 1, "<|im_end|>": n + 2}),
    "kimi": (KIMI, lambda n: {name: n + offset for offset, name in KIMI_NAMES.items()}),
}


@pytest.fixture(scope="module")
def ranks():
    tokenizer = trained("llama-3", *SHAPES["llama-3"])
    bytes_of = {c: i for i, c in enumerate(bytes_in_order())}
    special = set(SHAPES["llama-3"][2])
    vocabulary = sorted((i, t) for t, i in tokenizer.get_vocab().items() if t not in special)
    return {bytes(bytes_of[c] for c in token): rank for rank, (_, token) in enumerate(vocabulary)}


def bytes_in_order():
    """Returns the spelling of each byte from 0 to 255."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in kept else chr(next(others)) for b in range(256)]


@pytest.mark.parametrize("name", TIKTOKEN)
def test_tiktoken(name, trireme, rng, tries, tmp_path, ranks):
    import unicodedata
    pattern, specials = TIKTOKEN[name]
    special = specials(len(ranks))
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    file = tmp_path / "ranks.tiktoken"
    file.write_text("".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items()))
    texts = PROSE[:6] + ["\n".join(PROSE)] + [random_text(rng, list(special)[-12:]) for _ in range(tries(1500))]
    if name.startswith("qwen"):
        # Qwen's own program composes characters first; characters newer than this Python are left out.
        texts = [text for text in texts if "\u1c89" not in text and "\U0001df25" not in text]
    ids, message = encode(trireme, file, texts, ("tiktoken", name))
    plain, _ = encode(trireme, file, texts, ("tiktoken", name), plain=True)
    assert not message
    for text, got, ordinary in zip(texts, ids, plain):
        source = unicodedata.normalize("NFC", text) if name.startswith("qwen") else text
        assert got == encoding.encode(source, allowed_special="all"), text
        assert ordinary == encoding.encode_ordinary(source), text
    assert encode(trireme, file, ["a"], ("tiktoken",))[1].startswith("trireme: "), "it has to ask"
