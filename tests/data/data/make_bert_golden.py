#!/usr/bin/env python3
"""Writes bert_golden.json: BERT sample mappings and samples, as Megatron's dataset defines them.

Run with numpy: python3 make_bert_golden.py > bert_golden.json
The corpus follows a rule that the test repeats: document d has d * 7 % 11 sentences, sentence s
of it has (d * 31 + s * 17) % 23 + 1 tokens, and token t is 5 + (d * 131 + s * 37 + t * 11) % 55, so
that IDs 5 to 59 occur. In the vocabulary of 60 IDs, those from 40 on continue a word; 2 is [CLS],
3 [SEP], 4 [MASK], 0 [PAD].
"""
import json
import sys
import zlib

import numpy as np

CLS, SEP, MASK, SIZE = 2, 3, 4, 60


def corpus(documents):
    return [[[5 + (d * 131 + s * 37 + t * 11) % 55 for t in range((d * 31 + s * 17) % 23 + 1)]
             for s in range(d * 7 % 11)] for d in range(documents)]


class Mt64:
    """MT19937-64 (Nishimura and Matsumoto), which numpy does not have."""

    def __init__(self, seed):
        self.mask = 2**64 - 1
        self.state = [seed & self.mask]
        for i in range(1, 312):
            last = self.state[-1]
            self.state.append((6364136223846793005 * (last ^ last >> 62) + i) & self.mask)
        self.at = 312

    def twist(self):
        upper, lower = 0xFFFFFFFF80000000, 0x7FFFFFFF
        for i in range(312):
            x = self.state[i] & upper | self.state[(i + 1) % 312] & lower
            self.state[i] = self.state[(i + 156) % 312] ^ x >> 1 ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        self.at = 0

    def next(self):
        if self.at == 312:
            self.twist()
        x = self.state[self.at]
        self.at += 1
        x ^= x >> 29 & 0x5555555555555555
        x ^= x << 17 & 0x71D67FFFEDA60000
        x ^= x << 37 & 0xFFF7EEE000000000
        return x ^ x >> 43


def mapping(docs, wanted, max_tokens, min_sentences, short_prob, seed):
    words = np.random.RandomState(seed)
    ratio = round(1 / short_prob) if short_prob > 0 else 0

    def target():
        if ratio == 0:
            return max_tokens
        r = int(words.randint(0, 2**32, dtype=np.uint32))
        return 2 + r % (max_tokens - 1) if r % ratio == 0 else max_tokens

    starts = np.cumsum([0] + [len(d) for d in docs])
    samples = []
    while True:
        for d, sentences in enumerate(docs):
            n = len(sentences)
            if n < min_sentences or (n > 1 and max(map(len, sentences)) > 512):
                continue
            first, tokens, goal = 0, 0, target()
            for s in range(n):
                tokens += len(sentences[s])
                left = n - s - 1
                if (tokens >= goal and left > 1 and s + 1 - first >= min_sentences) or left == 0:
                    samples.append((int(starts[d]) + first, s + 1 - first, goal))
                    first, tokens, goal = s + 1, 0, target()
        if wanted is None or len(samples) >= wanted:
            break
    generator = Mt64(seed + 1)
    for i in range(len(samples) - 1, 0, -1):
        j = generator.next() % (i + 1)
        samples[i], samples[j] = samples[j], samples[i]
    return samples


def masked(tokens, goal, prob, r):
    words = []
    for i, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        if token >= 40 and words:
            words[-1].append(i)
        else:
            words.append([i])
    wanted = min(prob * goal, max(1, int(round(len(tokens) * prob))))
    p = 1.0 / np.arange(1, 4)
    p = p / p.sum()
    p = p / p.sum()
    order = list(range(len(words)))
    r.shuffle(order)
    out, labels = list(tokens), {}
    for w in order:
        if len(labels) >= wanted:
            break
        n = int(r.choice([1, 2, 3], p=p))
        while n > 0 and len(labels) + sum(map(len, words[w:w + n])) > wanted:
            n -= 1
        run = [i for word in words[w:w + n] for i in word]
        if any(i in labels for i in run):
            continue
        for i in run:
            labels[i] = tokens[i]
            if r.random_sample() < 0.8:
                out[i] = MASK
            elif r.random_sample() >= 0.5:
                out[i] = int(r.randint(0, SIZE))
    return out, sorted(labels), [labels[i] for i in sorted(labels)]


def sample(sentences, entry, index, seed, head, prob):
    first, count, goal = entry
    chosen = sentences[first:first + count]
    r = np.random.RandomState((seed + index) % 2**32)
    pivot, swapped = len(chosen), False
    if head:
        pivot = int(r.randint(1, len(chosen))) if len(chosen) >= 3 else 1
        swapped = bool(r.random_sample() < 0.5)
    a, b = sum(chosen[:pivot], []), sum(chosen[pivot:], [])
    if swapped:
        a, b = b, a
    while len(a) + len(b) > goal:
        longer = a if len(a) > len(b) else b
        del longer[0 if r.random_sample() < 0.5 else -1]
    tokens = [CLS] + a + [SEP]
    segments = [0] * len(tokens)
    if b:
        tokens += b + [SEP]
        segments += [1] * (len(b) + 1)
    tokens, positions, labels = masked(tokens, goal, prob, r)
    return {"tokens": tokens, "segments": segments, "positions": positions, "labels": labels, "swapped": swapped}


def case(documents, wanted, seq_length, seed, head, prob, short):
    docs = corpus(documents)
    entries = mapping(docs, wanted, seq_length - 3, 2 if head else 1, short, seed)
    sentences = [s for d in docs for s in d]
    made = [sample(sentences, e, i, seed, head, prob) for i, e in enumerate(entries)]
    everything = [x for m in made for k in ("tokens", "segments", "positions", "labels") for x in m[k]]
    everything += [int(m["swapped"]) for m in made]
    return {"documents": documents, "samples": -1 if wanted is None else wanted, "seq_length": seq_length,
            "seed": seed, "order_head": head, "mask_prob": prob, "short_seq_prob": short, "count": len(entries),
            "head": entries[:8], "order_crc": zlib.crc32(np.array(entries, dtype=np.int64).tobytes()),
            "first": made[:3], "all_crc": zlib.crc32(np.array(everything, dtype=np.int32).tobytes())}


if __name__ == "__main__":
    cases = [case(60, None, 64, 1234, True, 0.15, 0.1), case(60, 700, 40, 7, True, 0.15, 0.1),
             case(200, 500, 128, 2**31, False, 0.15, 0.1), case(100, 300, 24, 99, True, 0.4, 0.0),
             case(40, 100, 16, 2**32 - 5, False, 0.15, 0.5)]
    json.dump(cases, sys.stdout, separators=(",", ":"))
    print()
