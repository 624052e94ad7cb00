#!/usr/bin/env python3
"""Writes unicode_ranges.inc: the code points of \\p{L}, \\p{N} and \\p{White_Space}.

Run it with a Python whose unicodedata has the Unicode version of the PCRE2 that the tests link
against (14.0 for both Python 3.11 and PCRE2 10.42 of Debian 12); a test compares the two.
"""
import sys
import unicodedata

# White_Space is a stable property of 25 code points that unicodedata does not offer.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
               0x202F, 0x205F, 0x3000}


def class_of(code_point):
    if code_point in WHITE_SPACE:
        return "space"
    category = unicodedata.category(chr(code_point))[0]
    return {"L": "letter", "N": "number"}.get(category)


def ranges():
    begin, current = 0, None
    for code_point in range(sys.maxunicode + 2):
        now = class_of(code_point) if code_point <= sys.maxunicode else None
        if now != current:
            if current:
                yield begin, code_point - 1, current
            begin, current = code_point, now


def main():
    entries = [f"{{0x{a:X}, 0x{b:X}, {name}}}," for a, b, name in ranges()]
    print(f"// First, last and class of code points, Unicode {unicodedata.unidata_version}; all"
          " others are `other`.")
    print("// Written by make_unicode_ranges.py.")
    line = ""
    for entry in entries:
        if len(line) + len(entry) + 1 > 100:
            print(line)
            line = ""
        line += (" " if line else "") + entry
    print(line)


main()
