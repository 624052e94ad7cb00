"""Shared by the differential tests of tokenizers: texts, their encoding, and a tally."""
import json
import subprocess

from tokenizers import Tokenizer

PROSE = """
The trireme was the fast ship of the Aegean: three banks of oars on each side, one man to an oar, and
a ram of bronze at the bow. They didn't sleep on board; they'd BEACH her each night, and she'd be dry.
if (oars[i] != NULL) { pull(oars[i], time + 1); }  // three per column
    return banks * 54 + 8;\t/* thranites, zygites, thalamites */ 480 BC, 1,207 ships, 20240501
Café naïve façade Ünïcode über straße; привет мир, как дела? 日本語の文字列と漢字。カタカナ한국어
ένα δύο τρία, 42 ½ ² Ⅷ १२३ 👍🏽 🏴 éạ̇ \u00a0\u2003end iPhone HelloWorld camelCaseText
""".strip().split("\n") * 3
POOLS = ["abcABC ", "ab ab", "aAsSrReEvVlLdDmMtTéÉßſàñÅ", "e\u0301\u0323a\u0302\u0939\u093f", "  \n\r\t", "\x0b\u0085\u00a0\u2028\u3000\u200b",
         "'\".,!?-_<>|()[]{}’°$+^`~#&*/\\", "0179²१Ⅷ½", "一是不漢字カなー한국々〇、", "▁▁ab ", "ĠéâÃ²", "👍🏽\u200d\ufe0f🏴",
         "\u1c8a\U0001fa77\U00031350\U0002ebf0\U00010d40\U0001df25", "\0\x7f\u00ad\ufffd", "İIıKſ", "ǅʰªºໆ"]


def random_text(rng, words=()):
    text = ""
    for _ in range(rng.randint(0, 8)):
        kind = rng.random()
        if kind < 0.3:
            text += rng.choice(["", " "]) + rng.choice(rng.choice(PROSE).split(" "))
        elif kind < 0.5 and words:
            text += rng.choice(["", " ", "  ", "\n"]) + rng.choice(words) + rng.choice(["", " ", "a"])
        else:
            pool = rng.choice(POOLS)
            text += "".join(rng.choice(pool) for _ in range(rng.randint(1, 7)))
    return text


def encode(trireme, path, texts, kind=("hf",), plain=False):
    """Returns the IDs of each text, or an error message and the IDs up to there."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    flags = ["--tokenizer-pattern", kind[1]] if len(kind) > 1 else []
    flags += ["--plain-special-text"] if plain else []
    done = subprocess.run([trireme.path, "tokenizer", "encode", "--tokenizer-type", kind[0],
                           "--tokenizer-model", path, "--jsonl", "-", *flags],
                          input=lines, capture_output=True, text=True, timeout=300)
    ids = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert done.returncode in (0, 2), f"exit code {done.returncode}: {done.stderr}"
    assert (done.returncode == 0) == (len(ids) == len(texts)), done.stderr
    return ids, done.stderr.strip()


def reference_ids(tokenizer, text):
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids
    except BaseException as error:  # the library panics, which Python sees as BaseException
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


class Tally:
    """Counts equal and rejected results, and shows the first difference."""

    def __init__(self):
        self.equal = self.refused_files = self.refused_texts = self.failed_references = 0
        self.messages = {}

    def compare(self, trireme, path, content, texts, describe=""):
        tokenizer = content if isinstance(content, Tokenizer) else Tokenizer.from_str(content)
        path.write_text(content.to_str() if isinstance(content, Tokenizer) else content,
                        encoding="utf-8")
        ids, message = encode(trireme, path, texts)
        for text, got in zip(texts, ids):
            expected = reference_ids(tokenizer, text)
            if expected is None:
                self.failed_references += 1
                continue
            assert got == expected, f"{describe}\ntext {text!r}\n{path.read_text()[:3000]}"
            self.equal += 1
        if message:
            if ids:
                self.refused_texts += 1
            else:
                self.refused_files += 1
            short = message.replace(str(path), "FILE")[:110]
            self.messages[short] = self.messages.get(short, 0) + 1
        return not message

    def add(self, other):
        for count in ("equal", "refused_files", "refused_texts", "failed_references"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        for message, count in other.messages.items():
            self.messages[message] = self.messages.get(message, 0) + count

    def report(self, name):
        print(f"\n{name}: {self.equal} texts equal, {self.refused_files} files refused, "
              f"{self.refused_texts} refused at a text, the reference failed {self.failed_references} "
              "times")
        for message, count in sorted(self.messages.items(), key=lambda item: -item[1])[:12]:
            print(f"  {count} x {message}")
