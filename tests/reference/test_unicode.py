"""Tests of every assigned character, and random texts of rare ones, in the normalizers and pre-tokenizers of
tokenizer.json, against Hugging Face's library, whose parts follow Unicode 8 to 17."""
import unicodedata

import pytest

tokenizers = pytest.importorskip("tokenizers")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402

from compare import encode  # noqa: E402

# No characters are assigned in the gaps, and only private-use ones after the last range.
CHARACTERS = [chr(c) for c in (*range(0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE1000),
                               *range(0x40000, 0x110000, 61))]


def bert(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False):
    return normalizers.BertNormalizer(clean_text, handle_chinese_chars, strip_accents, lowercase)


NORMALIZERS = {
    "nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(),
    "lowercase": normalizers.Lowercase(), "strip-accents": normalizers.StripAccents(),
    "strip": normalizers.Strip(), "bert-clean": bert(clean_text=True),
    "bert-ideographs": bert(handle_chinese_chars=True), "bert-accents": bert(strip_accents=True),
    "bert-lowercase": bert(lowercase=True), "bert": normalizers.BertNormalizer()}
PRE_TOKENIZERS = {
    "digits": pre_tokenizers.Digits(True), "punctuation": pre_tokenizers.Punctuation(),
    "bert": pre_tokenizers.BertPreTokenizer(), "whitespace": pre_tokenizers.Whitespace(),
    "whitespace-split": pre_tokenizers.WhitespaceSplit()}


def bytes_alone(normalizer):
    """Returns a tokenizer whose IDs are the bytes of the normal form."""
    tokenizer = Tokenizer(models.BPE({f"<0x{i:02X}>": i for i in range(256)}, [], byte_fallback=True))
    tokenizer.normalizer = normalizer
    return tokenizer


def show(text):
    return " ".join(f"{ord(c):04X}" for c in text)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_normalizers(name, trireme, rng, tries, tmp_path):
    normalizer = NORMALIZERS[name]
    texts = [f"a\u0345{c}\u0334b{c}" for c in CHARACTERS]
    marks = [c for c in CHARACTERS if normalizer.normalize_str(f"a{c}b") == "ab" or unicodedata.combining(c)]
    composed = [c for c in CHARACTERS if unicodedata.decomposition(c)]
    parts = sorted({part for c in composed for part in unicodedata.normalize("NFKD", c)})
    hangul = list("\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2\u11c3\uac00\uac01\ud788")
    pools = [marks or ["\u0301"], composed, parts, hangul, list("aeoAEÅ \n.,"), CHARACTERS]
    for _ in range(tries(20000)):
        used = rng.sample(pools, rng.randint(1, 3))
        texts.append("".join(rng.choice(rng.choice(used)) for _ in range(rng.randint(1, 12))))
    path = tmp_path / "tokenizer.json"
    path.write_text(bytes_alone(normalizer).to_str(), encoding="utf-8")
    got, message = encode(trireme, path, texts)
    assert not message
    for text, ids in zip(texts, got, strict=True):
        assert bytes(ids).decode() == normalizer.normalize_str(text), show(text)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokenizers(name, trireme, tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "a": 1, "b": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]
    texts = [f"a{c}b" for c in CHARACTERS]
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    got, message = encode(trireme, path, texts)
    assert not message
    for text, ids in zip(texts, got, strict=True):
        words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
        assert ids == [{"a": 1, "b": 2}.get(word, 0) for word in words], show(text)
