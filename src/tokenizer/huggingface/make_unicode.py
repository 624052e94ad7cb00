#!/usr/bin/env python3
"""Writes hf_unicode.inc, with Python 3.11 and `pip install tokenizers==0.23.3 unicodedata2==18.0.0`.

Hugging Face's library takes each property of characters from another version of Unicode, from 8 to
17. It is asked here, character by character; unicodedata2 only tells what a newer Unicode knows.
"""
import unicodedata

import unicodedata2
from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
nfd, nfkd, lower = normalizers.NFD(), normalizers.NFKD(), normalizers.Lowercase()


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def removed_by(normalizer):
    return [c for c in CHARACTERS if normalizer.normalize_str(f"a{c}b") == "ab"]


def isolated_by(pre_tokenizer):
    return [c for c in CHARACTERS if len(pre_tokenizer.pre_tokenize_str(f"a{c}b")) == 3]


def in_normal_forms(canonical, compatible):
    """Characters that normal forms replace, reorder or compose."""
    found = {c for c in CHARACTERS if compatible(c) != c}
    found.update(part for c in CHARACTERS for part in canonical(c) if canonical(c) != c)
    # A mark of class 240 or one of class 1 changes places with any other mark.
    found.update(c for c in CHARACTERS for text in (f"a\u0345{c}", f"a{c}\u0334")
                 if canonical(text) != text)
    return found


def left_alone():
    """Stretches without characters that the library's normal forms concern, from the first to the
    last that those of a newer Unicode concern."""
    known = in_normal_forms(nfd.normalize_str, nfkd.normalize_str)
    newer = in_normal_forms(lambda text: unicodedata2.normalize("NFD", text),
                            lambda text: unicodedata2.normalize("NFKD", text))
    first = last = None
    for c in CHARACTERS:
        if c in known and first:
            yield first, last
        if c in known:
            first = None
        elif c in newer:
            first, last = first or c, c
    if first:
        yield first, last


def runs(characters, continues):
    first = last = None
    for c in characters:
        if last is None or not continues(last, c):
            if last is not None:
                yield first, last
            first = c
        last = c
    yield first, last


def ranges(characters):
    return runs(characters, lambda last, c: ord(c) == ord(last) + 1)


def lower_of_young_letters():
    """Younger than Unicode 14, with a lower case in the library's version or in a newer one."""
    letters = [c for c in CHARACTERS if unicodedata.category(c) == "Cn"
               and (lower.normalize_str(c) != c or unicodedata2.category(c) in ("Lu", "Lt"))]
    offset = lambda c: ord(lower.normalize_str(c)) - ord(c)
    return [f"{{{number(first)}, {number(last)}, {offset(first)}}},"
            for first, last in runs(letters, lambda last, c: ord(c) == ord(last) + 1
                                    and offset(c) == offset(last))]


def number(c):
    return f"0x{ord(c):X}"


def write(file, name, entries):
    lines = [f"constexpr {name}[] = {{"]
    for entry in entries:
        if lines[-1].endswith("{") or len(lines[-1]) + len(entry) + 1 > 100:
            lines.append("   ")
        lines[-1] += " " + entry
    file.write("\n".join(lines) + "\n};\n")


if __name__ == "__main__":
    tables = {
        "control": ranges(removed_by(bert(clean_text=True))),
        # BERT decomposes first: a mark that has a decomposition never arrives.
        "nonspacing_marks": ranges(removed_by(bert(strip_accents=True))),
        "marks": ranges(removed_by(normalizers.StripAccents())),
        "punctuation": ranges(isolated_by(pre_tokenizers.Punctuation())),
        "numbers": ranges(isolated_by(pre_tokenizers.Digits(True))),
        "left_alone": left_alone(),
    }
    with open("hf_unicode.inc", "w", encoding="ascii") as out:
        out.write("// First and last of code points, and offsets of their lower case.\n"
                  "// Written by make_hf_unicode.py.\n")
        for name, found in tables.items():
            write(out, f"Range {name}",
                  (f"{{{number(first)}, {number(last)}}}," for first, last in found))
        write(out, "Offset young_lower", lower_of_young_letters())
