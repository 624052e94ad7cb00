#!/bin/sh
# Tests that an installed tree is complete for its users, and that its program runs. Usage: install_test.sh BUILD-FOLDER
set -eu
prefix=$(mktemp -d)
trap 'status=$?; [ $status = 0 ] || cat "$prefix/log"; rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >"$prefix/log" 2>&1
for file in bin/trireme share/man/man1/trireme.1 share/bash-completion/completions/trireme \
  share/zsh/site-functions/_trireme share/fish/vendor_completions.d/trireme.fish; do
  [ -s "$prefix/$file" ] || { echo "$file is missing or empty"; exit 1; }
done
# The program must find the installed plug-in.
if ls "$1"/lib/libtrireme_mpi.so >/dev/null 2>&1; then
  cmp "$1/lib/libtrireme_mpi.so" "$prefix/lib/trireme/libtrireme_mpi.so"
fi
"$prefix/bin/trireme" --version

# External programs: one through pkg-config, the examples through find_package.
cd "$(dirname "$0")/.."
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" TRIREME_THREADS=1
g++ -std=c++20 tests/library/outside/main.cpp $(pkg-config --cflags --libs trireme) -Wl,-rpath,"$prefix/lib" \
  -o "$prefix/outside"
mkdir "$prefix/runs"
"$prefix/outside" "$prefix/runs"
# The training loop of the documentation, verbatim.
awk '/^```/ {inside = /^```cpp/ && !seen++; next} inside' docs/library.md >"$prefix/loop.cpp"
g++ -std=c++20 "$prefix/loop.cpp" $(pkg-config --cflags --libs trireme) -Wl,-rpath,"$prefix/lib" -o "$prefix/loop"
cmake -S examples/library -B "$prefix/examples" -DCMAKE_PREFIX_PATH="$prefix" >"$prefix/log" 2>&1
cmake --build "$prefix/examples" >"$prefix/log" 2>&1
cp README.md "$prefix/text.txt" && cd "$prefix"
"$prefix/bin/trireme" tokenizer train --input text.txt --vocab-size 512 --output runs/small/tokenizer >log 2>&1
"$prefix/bin/trireme" preprocess --input text.txt --documents paragraph --output-prefix runs/small/data --tokenizer-type gpt2 \
  --vocab-file runs/small/tokenizer/vocab.json --merge-file runs/small/tokenizer/merges.txt >log 2>&1
small=$OLDPWD/examples/library/small.toml
for example in own_loop own_schedule own_family; do
  "examples/$example" "$small" run.dir=runs/$example train.iters=20 >log 2>&1
  [ -s runs/$example/checkpoints/latest ] || { echo "$example has saved nothing"; exit 1; }
done
./loop "$small" run.dir=runs/loop train.iters=20 >log 2>&1
[ -s runs/loop/checkpoints/latest ] || { echo "the loop of docs/library.md has saved nothing"; exit 1; }
# When stopped at a step that is not a multiple of 100, it saves.
./loop "$small" run.dir=runs/stopped train.iters=20 train.exit_interval=7 >log 2>&1
[ -s runs/stopped/checkpoints/latest ] || { echo "the loop of docs/library.md loses what it did where it is stopped"; exit 1; }
examples/own_dataset train.iters=20 >log 2>&1
# Bad input ends with exit code 2 and one message.
status=0
examples/own_dataset train.itters=20 2>log || status=$?
[ "$status" = 2 ] && grep -q train.iters log
