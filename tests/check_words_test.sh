#!/usr/bin/env bash
# Plants words in a small tree, and expects scripts/check-words to find exactly those of the glossary's first table.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/expect.sh"
check=("$here/../scripts/check-words" "$scratch")

fresh() {
  rm -rf "${scratch:?}"/*
  mkdir -p "$scratch"/{src/comm,docs,tests/cli/data,scripts}
  cat >"$scratch/docs/glossary.md" <<'END'
| not our word | the field's word | where it is from |
|---|---|---|
| `goes on`, `stand ins` | continues | |
| `mend` | fix | |

| not our word | the field's word | note |
|---|---|---|
| `window` | sliding window | |
END
  echo 'recommend(window);  // amended, from now on' >"$scratch/src/comm/a.cpp"
  echo 'it goes on' >"$scratch/tests/cli/data/text.md"
}

# planted FILE LINE: adds LINE to FILE and expects it to be found there.
planted() {
  fresh
  echo "$2" >>"$scratch/$1"
  expect 1 "$1:$(wc -l <"$scratch/$1"):" "$2"
}

fresh && expect 0 ''
for line in '// It goes on.' 'fail("the run Goes on");' 'TEST(Run, goes_on)' 'stand-ins' 'int stand_ins;' 'mend()'; do
  planted src/comm/a.cpp "$line"
done
planted docs/glossary-notes.md 'mend it'
planted scripts/tool 'echo mend'
fresh && rm "$scratch/docs/glossary.md" && touch "$scratch/docs/glossary.md" && expect 1 'has no table of words'
exit $failed
