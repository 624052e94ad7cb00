#!/usr/bin/env bash
# Compares the release build with the reference implementations: Hugging Face tokenizers and
# transformers, tiktoken, SentencePiece, PyTorch. Called by ./test reference; arguments are passed
# to pytest (./test reference -k weights). TRIREME_REFERENCE_VENV: another folder for the virtual
# environment, for example one that several clones share.
set -uo pipefail
cd "$(dirname "$0")/.."

venv=${TRIREME_REFERENCE_VENV:-build/reference-venv}
requirements=tests/reference/requirements.txt
log=build/reference-venv.log

# Tests of packages that cannot be installed are skipped and counted.
skip() {
  echo "skipped: $1"
  echo "0 passed, 0 failed, $(cat tests/reference/test_*.py | grep -c '^def test_') skipped"
  exit 0
}

# Created once per list of requirements, of which it contains a copy.
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  echo "installing the reference programs into $venv (several GB; log: $log)"
  mkdir -p build
  python3 -m venv "$venv" >"$log" 2>&1 ||
    skip "python3 -m venv failed (Debian: python3-venv): $(tail -n 1 "$log")"
  "$venv/bin/pip" install --disable-pip-version-check -r "$requirements" >>"$log" 2>&1 ||
    skip "the reference programs could not be installed (no network?): $(grep -m 1 ERROR "$log")"
  cp "$requirements" "$venv/requirements.txt"
fi

exec "$venv/bin/python" -m pytest -q -rs -p no:cacheprovider tests/reference "$@"
