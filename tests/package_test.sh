#!/bin/sh
# Tests that a portable archive works without anything of this machine: with one process, and with two after its MPI
# part was built, with the same losses as the original program. Usage: package_test.sh BUILD-FOLDER
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'status=$?; [ $status = 0 ] || cat "$scratch/log"; rm -rf "$scratch"' EXIT
log=$scratch/log
./package --build "$1" --output "$scratch" >"$log"
tar -C "$scratch" -xzf "$scratch"/trireme-*.tar.gz
cp README.md "$scratch/text.txt"
cp examples/library/small.toml "$scratch/"
own=$(cd "$1" && pwd)/src/cli/trireme
cd "$scratch"/trireme-*/bin
packed=$PWD/trireme
cd "$scratch"
bare() { env -i PATH=/usr/bin:/bin HOME="$scratch" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"; }
bare "$packed" tokenizer train --input text.txt --vocab-size 512 --output runs/small/tokenizer >>"$log" 2>&1
bare "$packed" preprocess --input text.txt --documents paragraph --output-prefix runs/small/data --tokenizer-type gpt2 \
  --vocab-file runs/small/tokenizer/vocab.json --merge-file runs/small/tokenizer/merges.txt >>"$log" 2>&1
settings="train.iters=4 train.log_interval=1 train.micro_batch_size=2 parallel.numerics=exact"
# shellcheck disable=SC2086
run() { dir=$1; shift; bare "$@" small.toml "run.dir=$dir" $settings >>"$log" 2>&1; }
losses() { sed -n 's/.*"loss":\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; }
run one "$packed" train
run own "$own" train
[ -n "$(losses own)" ] && [ "$(losses one)" = "$(losses own)" ] || { echo "the losses are not those of the program"; exit 1; }

# Without its MPI part it explains how to build it; with it, two processes train.
status=0
run two "$packed" train --nproc 2 || status=$?
[ "$status" = 1 ] && grep -q "lib/trireme/build-mpi' once" "$log" || { echo "no advice on the MPI part"; exit 1; }
command -v mpicxx >/dev/null || { echo "no mpicxx: the MPI part was not built"; exit 0; }
bare "$(dirname "$packed")/../lib/trireme/build-mpi" >>"$log" 2>&1
run two "$packed" train --nproc 2
[ "$(losses two)" = "$(losses own)" ] || { echo "the losses of two processes are not those of one"; exit 1; }

# An MPI part of another version is rejected.
sed -i 's/define TRIREME_MPI_INTERFACE .*/define TRIREME_MPI_INTERFACE 1/' "$(dirname "$packed")/../lib/trireme/mpi/trireme_mpi.h"
bare "$(dirname "$packed")/../lib/trireme/build-mpi" >>"$log" 2>&1
status=0
run three "$packed" train --nproc 2 || status=$?
[ "$status" = 1 ] && [ "$(grep -c "belongs to a different version of trireme" "$log")" = 1 ] ||
  { echo "a part of another version was taken, or refused by each process"; exit 1; }
