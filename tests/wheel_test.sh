#!/bin/sh
# Tests that a wheel can be made of a build, and that what pip installs from it works without this machine's environment: the
# program, and the package over the installed library. Usage: wheel_test.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'status=$?; case $status in 0 | 77) ;; *) cat "$scratch/log" ;; esac; rm -rf "$scratch"' EXIT
log=$scratch/log
skip() { echo "$1: the wheel is not tested"; exit 77; }
for tool in patchelf objdump xz bible; do command -v $tool >/dev/null || skip "$tool is not there"; done
python3 -m venv "$scratch/venv" >"$log" 2>&1 || skip "python3-venv is not there"
packaging/make-wheel "$1" "$scratch" >"$log" 2>&1
cp README.md "$scratch/text.txt"
cd "$scratch"
bare() { env -i PATH="$scratch/venv/bin:/usr/bin:/bin" HOME="$scratch" "$@"; }
bare pip install --quiet --no-index trireme_llm-*.whl >>"$log" 2>&1
[ "$(bare trireme --version | head -n 1)" = "trireme $(bare python3 -c 'import trireme; print(trireme.__version__)')" ] ||
  { echo "the package and the program have different versions"; exit 1; }
bare trireme tokenizer train --input text.txt --vocab-size 300 --output tokenizer >>"$log" 2>&1
bare python3 -c 'import trireme; t = trireme.Tokenizer("tokenizer"); assert t.decode(t.encode("a wheel")) == "a wheel"' >>"$log" 2>&1
# The commands of the README that name a recipe.
sed -n 's/ *#.*//; s/^trireme \(plan recipes.*\)/\1/p' text.txt >plans
[ -s plans ] || { echo "README.md names no recipe"; exit 1; }
# shellcheck disable=SC2046
bare trireme $(cat plans) >>"$log" 2>&1
bare python3 -c 'import trireme; trireme.Config("recipes/quickstart.toml")' >>"$log" 2>&1
