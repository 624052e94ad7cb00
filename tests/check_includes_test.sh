#!/usr/bin/env bash
# Breaks each rule of scripts/check-includes in a tree of three modules, and expects it to be reported.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/expect.sh"
check=("$here/../scripts/check-includes" "$scratch/table" "$scratch/src")

# A valid tree: `high` links `low/part`, which links `base`; base/inner.h is private.
fresh() {
  rm -rf "${scratch:?}"/*
  mkdir -p "$scratch"/src/{base,low/part,high}
  printf 'module base\nuses \nheaders api.h\nmodule low/part\nuses base\nheaders part.h\nmodule high\nuses low/part\nheaders \n' >"$scratch/table"
  echo '#include "base/inner.h"' >"$scratch/src/base/api.h"
  touch "$scratch/src/base/inner.h" "$scratch/src/high/own.h"
  echo '#include "base/api.h"' >"$scratch/src/low/part/part.h"
  printf '#include <vector>\n#include "base/api.h"\n#include "high/own.h"\n#include "low/part/part.h"\n' >"$scratch/src/high/main.cpp"
}

fresh && expect 0 ''
fresh && echo '#include "high/own.h"' >>"$scratch/src/base/api.h"
expect 1 'src/base/api.h:2 includes "high/own.h": module base does not link module high'
fresh && echo '  #  include "base/inner.h"' >>"$scratch/src/high/main.cpp"
expect 1 'src/high/main.cpp:5 includes "base/inner.h": not a public header'
fresh && echo '#include "base/gone.h"' >>"$scratch/src/high/main.cpp"
expect 1 'there is no such file'
fresh && mkdir "$scratch/src/new" && echo '#include "base/api.h"' >"$scratch/src/new/file.cpp"
expect 1 'not a module of src/CMakeLists.txt'
fresh && sed -i 's/^headers api.h/headers api.h lost.h/' "$scratch/table"
expect 1 'public header base/lost.h does not exist'
fresh && sed -i 's/^headers api.h/headers api.h inner.h/' "$scratch/table"
expect 1 'base/inner.h is listed as public, but no other module includes it'

fresh && echo '#include "high/own.h"' >>"$scratch/src/base/api.h"
echo 'exception base/api.h high/own.h for now' >>"$scratch/table"
expect 0 ''
fresh && echo 'exception base/api.h high/own.h for now' >>"$scratch/table"
expect 1 'stale exception: base/api.h high/own.h'
exit $failed
