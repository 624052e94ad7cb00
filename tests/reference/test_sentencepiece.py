"""Unigram models against the SentencePiece library: ids differ only between equal scores.

Of two ways to split a text that have the same total in fp32, Trireme takes the one that versions
0.1.97 to 0.2.1 of the library take; later ones may take the other.
"""
import struct

import pytest

sentencepiece = pytest.importorskip("sentencepiece")

from compare import encode  # noqa: E402

NORMAL, UNKNOWN, CONTROL = 1, 2, 3


def varint(value):
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def text_field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number, value):
    return varint(number << 3) + varint(value)


def piece(text, score, kind):
    return text_field(1, text_field(1, text.encode()) + b"\x15" + struct.pack("<f", score) +
                      number_field(3, kind))


def random_scores(rng):
    """Texts of pieces and their scores: a few values, so that many totals are equal, or any."""
    few = rng.random() < 0.5
    texts = ["\u2581", *"abcd"]
    texts += {"".join(rng.choice("abcd\u2581") for _ in range(rng.randint(2, 5)))
              for _ in range(30)}
    return {text: -float(rng.randint(1, 9)) if few else rng.uniform(-9, -1)
            for text in sorted(set(texts))}


def test_unigram_models(trireme, rng, tries, tmp_path):
    equal = ties = 0
    for number in range(tries(20)):
        scores = random_scores(rng)
        model = piece("<unk>", 0, UNKNOWN) + piece("<s>", 0, CONTROL) + piece("</s>", 0, CONTROL)
        model += b"".join(piece(text, score, NORMAL) for text, score in scores.items())
        model += text_field(2, number_field(3, 1)) + text_field(3, text_field(1, b"identity"))
        file = tmp_path / f"{number}.model"
        file.write_bytes(model)
        library = sentencepiece.SentencePieceProcessor(model_proto=model)
        value = [0.0, 0.0, 0.0, *scores.values()]
        texts = ["".join(rng.choice("abcdabcd x") for _ in range(rng.choice([5, 20, 300])))
                 for _ in range(60)]
        ids, message = encode(trireme, file, texts, ("sentencepiece",))
        assert not message
        for text, got in zip(texts, ids):
            want = library.encode(text)
            equal += got == want
            if got != want:
                ties += 1
                totals = [sum(value[i] for i in one) for one in (got, want)]
                assert got.count(0) == want.count(0), text  # unknown characters
                assert totals[0] == pytest.approx(totals[1], rel=1e-5), text
    print(f"\n{equal} texts are equal, {ties} have the same score")
    assert equal > 5 * ties
