#!/bin/sh
# Tests that scripts that install, build and run print their help without starting anything, and reject unknown
# arguments. Whatever they would start first fails here.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in dpkg-query apt-get sudo cmake ctest; do
  printf '#!/bin/sh\necho "$0 was started" >>"%s/started"\nexit 1\n' "$scratch" >"$scratch/$name"
  chmod +x "$scratch/$name"
done
export PATH="$scratch:$PATH"
# run SCRIPT EXPECTED-CODE WORDS ARGUMENT...
run() {
  script=$1 expected=$2 words=$3
  shift 3
  code=0
  out=$(timeout 20 "$script" "$@" 2>&1) || code=$?
  [ "$code" = "$expected" ] || { echo "$script $*: exit code $code instead of $expected: $out"; exit 1; }
  case $out in *"$words"*) ;; *) echo "$script $*: no '$words' in: $out"; exit 1 ;; esac
  [ ! -e "$scratch/started" ] || { echo "$script $*: $(cat "$scratch/started")"; exit 1; }
}
for help in --help -h; do
  run ./quickstart 0 "usage: ./quickstart" $help
  run ./test 0 "./test MODULE..." $help
  run ./package 0 "usage: ./package" $help
  run scripts/gpu-check 0 "scripts/gpu-check [cuda|hip|emulated]" $help
  run scripts/gpu-bundle 0 "usage: scripts/gpu-bundle" $help
  run scripts/gpu-rebuild 0 "usage: gpu-rebuild" $help
done
for wrong in --helpp nothing ../src; do
  run ./quickstart 2 "unknown argument" $wrong
  run ./test 2 "see ./test --help" $wrong
  run ./package 2 "unknown argument" $wrong
  run scripts/gpu-check 2 "unknown argument" $wrong
  run scripts/gpu-bundle 2 "unrecognized arguments" $wrong
  run scripts/gpu-rebuild 2 "unrecognized arguments" $wrong
done
run ./quickstart 2 "needs a folder" --output
mkdir "$scratch/old"
echo "of an earlier version" >"$scratch/old/config.toml"
for flags in --full ''; do
  # shellcheck disable=SC2086
  run ./quickstart 2 "move it away, or give another folder with --output" $flags --output "$scratch/old"
done
run scripts/gpu-check 2 "there is no part 'everything'" emulated --parts "doctor everything"
run scripts/gpu-check 2 "--budget is '9m'" emulated --budget 9m
run scripts/gpu-bundle 2 "--archs is 'sm_90'" --archs sm_90
# Every kind of tests that the help names is known.
for kind in $(./test --help | sed -n 's|^ *\./test \([a-z]*\)  .*|\1|p'); do
  case $kind in reference | nodes) ;; *) run ./test 2 "takes no further arguments" "$kind" slow ;; esac
done
run ./test 2 "see ./test --help" plan nothing
