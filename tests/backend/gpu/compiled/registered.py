#!/usr/bin/env python3
"""Checks that every kernel that the host registers is in every code object of its file, and that no architecture
is missing. Launching a missing kernel fails only at run time, without any warning from the compiler.

usage: registered.py REGISTERED ARCHITECTURE...
"""

import sys

from code_objects import code_objects, plain_names
from resources import images


def missing(objects, registered, architectures):
    """Returns descriptions of what an image lacks."""
    names = plain_names(registered)
    for architecture in architectures:
        found = [o for o in objects if o.architecture == architecture]
        if len(found) != 1:
            yield "%d code objects for %s" % (len(found), architecture)
            continue
        for name in registered:
            if name not in found[0].kernels:
                yield "%s has no %s" % (architecture, names[name])


def main(registered, *architectures):
    bad = kernels = 0
    for image, names in images(registered):
        kernels += len(names)
        for complaint in missing(code_objects(image), names, architectures):
            print(complaint)
            bad += 1
    print("%d kernels, each for %s" % (kernels, ", ".join(architectures)))
    return 1 if bad or not kernels else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
