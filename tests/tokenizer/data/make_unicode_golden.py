#!/usr/bin/env python3
"""Makes unicode.golden.json: the results of Hugging Face's library for single characters.

    pip install tokenizers==0.23.3 xxhash
    python make_unicode_golden.py

For each normalizer, hashes (XXH3) of the normal forms of pages of characters; for each pre-tokenizer,
hashes of one digit per character: the number of pieces that it gives for the character between two letters.
"""
import json
from pathlib import Path

import xxhash
from tokenizers import Tokenizer

BEFORE, AFTER = "a\u0345", "\u0334b"  # combining marks that are reordered with most others

NORMALIZERS = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")]
NORMALIZERS += [{"type": "BertNormalizer", "clean_text": part == 0, "handle_chinese_chars": part == 1,
                 "strip_accents": part == 2, "lowercase": part == 3} for part in range(4)]
PRE_TOKENIZERS = [{"type": "Digits", "individual_digits": True},
                  {"type": "Punctuation", "behavior": "Isolated"}, {"type": "BertPreTokenizer"},
                  {"type": "Whitespace"}, {"type": "WhitespaceSplit"}]


def pages():
    """Yields the planes with most characters in full, then parts of ideographs and the rest."""
    for begin, end, step in [*((c, c + 0x800, 1) for c in range(0, 0x20000, 0x800)),
                             (0x2B700, 0x30000, 1), (0x20000, 0x110000, 61)]:
        yield [chr(c) for c in range(begin, end, step) if not 0xD800 <= c < 0xE000]


def made(**parts):
    model = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
    return Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": model,
                                          "normalizer": None, "pre_tokenizer": None,
                                          "post_processor": None, "decoder": None, **parts}))


def hashes(of_page):
    return [xxhash.xxh3_64_hexdigest(of_page(page).encode()) for page in pages()]


golden = []
for part in NORMALIZERS:
    normalize = made(normalizer=part).normalizer.normalize_str
    golden.append({"normalizer": part, "pages": hashes(
        lambda page: "".join(normalize(f"{BEFORE}{c}{AFTER}{c}") for c in page))})
for part in PRE_TOKENIZERS:
    cut = made(pre_tokenizer=part).pre_tokenizer.pre_tokenize_str
    golden.append({"pre_tokenizer": part, "pages": hashes(
        lambda page: "".join(str(len(cut(f"a{c}b"))) for c in page))})
(Path(__file__).parent / "unicode.golden.json").write_text(
    "[" + ",\n".join(map(json.dumps, golden)) + "]\n")
