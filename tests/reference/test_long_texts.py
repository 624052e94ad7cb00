"""Tokenizers with large vocabularies on much real text, against Hugging Face's tokenizers and tiktoken.

TRIREME_TOKENS (default 300,000) is the number of tokens over all tokenizers, TRIREME_TEXT the folders, separated by
colons, whose files are the text: by default documentation, programs and the messages of all languages of this system.
"""
import base64
import gzip
import os
import random
from pathlib import Path

import pytest

tokenizers = pytest.importorskip("tokenizers")
tiktoken = pytest.importorskip("tiktoken")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers  # noqa: E402

from compare import encode  # noqa: E402
from conftest import ROOT, SEED  # noqa: E402
from test_tokenizers import CL100K, SHAPES, trained  # noqa: E402

TOKENS = int(os.environ.get("TRIREME_TOKENS", "300000"))
FOLDERS = os.environ.get("TRIREME_TEXT", "/usr/share/doc:/usr/share/perl:/usr/share/locale:/usr/lib/python3").split(":")
DATA = ROOT.parent / "shared" / "data"
SHAPED = ["gpt-neox", "llama-3", "qwen-2", "o200k", "kimi", "deepseek-v3", "bloom", "llama-2", "gemma", "mistral"]
VOCABULARY = 16000
TRAINED_ON = 2 << 20  # bytes
BATCH = 2 << 20       # bytes of a call


def text_of(path):
    """The text of a file, also a compressed one or a catalog of messages; empty if it has none."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8", "ignore" if path.suffix == ".mo" else "strict")
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        return ""
    return text.replace("\0", "\n")


def documents(seed):
    """Pieces of at most 4,096 characters, in a random order of the files, without end if there is any text."""
    rng = random.Random(seed)
    files = sorted(path for folder in FOLDERS for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink())
    while True:
        rng.shuffle(files)
        found = False
        for path in files:
            text = text_of(path)
            at = 0
            while at < len(text):
                size = rng.randint(1, 4096)
                found = True
                yield text[at:at + size]
                at += size
        if not found:
            return


def up_to(texts, size):
    """The next documents, of about `size` bytes."""
    out = []
    while size > 0 and (text := next(texts, None)) is not None:
        out.append(text)
        size -= len(text.encode())
    return out


@pytest.fixture(scope="module")
def corpus():
    corpus = up_to(documents("training"), TRAINED_ON)
    if not corpus:
        pytest.skip("none of the folders in TRIREME_TEXT has text")
    return corpus


def wordpiece(corpus):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(corpus, trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    return tokenizer


def compare(trireme, name, path, kind, ids_of, plain=False):
    """Encodes until this tokenizer's share of the tokens is reached, and compares the IDs of every document."""
    texts, tokens = documents(f"{SEED} {name}"), 0
    while tokens < TOKENS / (len(SHAPED) + 2):
        batch = up_to(texts, BATCH)
        got, message = encode(trireme, path, batch, kind, plain)
        assert not message
        for text, ids, expected in zip(batch, got, ids_of(batch)):
            assert ids == expected, f"{name}: {text!r}"
            tokens += len(ids)
    print(f"{name}: {tokens} tokens are equal")


@pytest.mark.parametrize("name", [*SHAPED, "wordpiece"])
def test_long_texts(name, trireme, corpus, tmp_path):
    tokenizer = wordpiece(corpus) if name == "wordpiece" else trained(name, *SHAPES[name], corpus, VOCABULARY)
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    compare(trireme, name, path, ("hf",),
            lambda batch: [found.ids for found in tokenizer.encode_batch_fast(batch, add_special_tokens=False)])


def test_long_texts_of_cl100k(trireme, corpus):
    path = DATA / "cl100k" / "cl100k_base.tiktoken"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    lines = (line.split() for line in path.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding("cl100k_base", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={})
    compare(trireme, "cl100k", path, ("tiktoken", "cl100k_base"),
            encoding.encode_ordinary_batch, plain=True)
