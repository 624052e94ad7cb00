#!/usr/bin/env python3
"""Writes unicode_ranges.inc and unicode_fallbacks.inc, with `pip install tokenizers==0.23.3`.

unicode_ranges.inc: the code points of \\p{L}, \\p{N} and \\p{White_Space} in the Unicode version of the
reference library (16.0).

unicode_fallbacks.inc: the Oniguruma of Debian 12 knows Unicode 14 only. For each character that the
newer one of the reference library takes for something else, a character that the older one takes for
just that: same general category, same script where it is old enough, same length in UTF-8.
"""
import bisect
import ctypes
import ctypes.util

from tokenizers import Regex, normalizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co "
              "Cn").split()
PROPERTIES = [r"\w", "[[:alpha:]]", "[[:lower:]]", "[[:upper:]]", r"\p{Emoji}",
              r"\p{Extended_Pictographic}"]
# The scripts that patterns name, and those that gained characters since Unicode 14.
SCRIPTS = ("Common Inherited Latin Han Hiragana Katakana Hangul Cyrillic Greek Arabic Hebrew Thai "
           "Devanagari Bengali Tamil Telugu Kannada Malayalam Myanmar Khmer Lao Georgian Armenian "
           "Ethiopic Mongolian Tibetan Balinese Khojki Kawi Ahom Brahmi Egyptian_Hieroglyphs "
           "Sinhala Gujarati Gurmukhi Oriya").split()
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, CHARACTERS))


def by_reference(pattern):
    rest = normalizers.Replace(Regex(pattern), "").normalize_str(TEXT)
    return set(CHARACTERS) - set(map(ord, rest))


class Onig(ctypes.CDLL):
    def __init__(self):
        super().__init__(ctypes.util.find_library("onig"))
        self.utf8 = ctypes.addressof(ctypes.c_char.in_dll(self, "OnigEncodingUTF8"))
        self.syntax = ctypes.addressof(ctypes.c_char.in_dll(self, "OnigSyntaxOniguruma"))
        self.onig_region_new.restype = ctypes.c_void_p
        self.onig_initialize((ctypes.c_void_p * 1)(self.utf8), 1)
        self.text = TEXT.encode()
        self.buffer = ctypes.create_string_buffer(self.text)
        self.characters = {}
        at = 0
        for c in CHARACTERS:
            self.characters[at] = c
            at += length(c)

    def __call__(self, pattern):
        regex, code = ctypes.c_void_p(), pattern.encode()
        place = ctypes.create_string_buffer(code)
        begin = ctypes.addressof(place)
        if self.onig_new(ctypes.byref(regex), ctypes.c_void_p(begin),
                         ctypes.c_void_p(begin + len(code)), 0, ctypes.c_void_p(self.utf8),
                         ctypes.c_void_p(self.syntax), None):
            return set()
        found, at = set(), 0
        begin = ctypes.addressof(self.buffer)
        end = begin + len(self.text)
        while at < len(self.text):
            at = self.onig_search(regex, *map(ctypes.c_void_p, (begin, end, begin + at, end)), None,
                                  0)
            if at < 0:
                break
            found.add(self.characters[at])
            at += length(self.characters[at])
        return found


def length(c):
    return 1 if c < 0x80 else 2 if c < 0x800 else 3 if c < 0x10000 else 4


def kinds(sets):
    """By character: where it is in, as a number."""
    out = dict.fromkeys(CHARACTERS, 0)
    for bit, members in enumerate(sets):
        for c in members:
            out[c] |= 1 << bit
    return out


def write(name, head, entries):
    lines = [""]
    for entry in entries:
        if len(lines[-1]) + len(entry) + 1 > 100:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + entry
    with open(name, "w", encoding="ascii") as file:
        file.write("\n".join([head, "// Written by make_unicode_ranges.py."] + lines) + "\n")


def class_ranges():
    letter, number, space = (by_reference(p) for p in (r"\p{L}", r"\p{N}", r"\s"))
    begin, current = 0, None
    for c in range(0x110001):
        name = "letter" if c in letter else "number" if c in number else "space" if c in space else None
        if name != current:
            if current:
                yield f"{{0x{begin:X}, 0x{c - 1:X}, {current}}},"
            begin, current = c, name


def nearest(c, members):
    at = bisect.bisect(members, c)
    return min(members[max(at - 1, 0):at + 1], key=lambda other: abs(other - c))


def fallbacks():
    onig = Onig()
    exact = [rf"\p{{{c}}}" for c in CATEGORIES] + PROPERTIES
    scripts = [rf"\p{{{s}}}" for s in SCRIPTS]
    new, old = (kinds([find(p) for p in exact]) for find in (by_reference, onig))
    new_script, old_script = (kinds([find(p) for p in scripts]) for find in (by_reference, onig))
    known = [c for c in CHARACTERS if (new[c], new_script[c]) == (old[c], old_script[c])]
    by_kind, by_category = {}, {}
    for c in known:
        by_kind.setdefault((length(c), old[c], old_script[c]), []).append(c)
        by_category.setdefault((length(c), old[c]), []).append(c)
    begin = last = fallback = None
    for c in CHARACTERS:
        now = None
        if (new[c], new_script[c]) != (old[c], old_script[c]):
            # A script that is younger than Unicode 14 has no bit in `old_script`; script 0 is any
            # that SCRIPTS does not name.
            now = nearest(c, by_kind.get((length(c), new[c], new_script[c])) or
                          by_kind.get((length(c), new[c], 0)) or
                          by_category[length(c), new[c]])
        if now != fallback:
            if fallback:
                yield f"{{0x{begin:X}, 0x{last:X}, 0x{fallback:X}}},"
            begin, fallback = c, now
        last = c


if __name__ == "__main__":
    write("unicode_ranges.inc",
          "// First, last and class of code points, Unicode 16.0; all others are `other`.",
          class_ranges())
    write("unicode_fallbacks.inc",
          "// First and last of code points that Unicode 16.0 and 14.0 take for something else, and what\n"
          "// Unicode 14.0 takes for the same as Unicode 16.0 takes them.", fallbacks())
