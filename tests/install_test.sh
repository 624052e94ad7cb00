#!/bin/sh
# An installed tree has what its users look for, and its program runs. Usage: install_test.sh BUILD-FOLDER
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >"$prefix/log" 2>&1 || { cat "$prefix/log"; exit 1; }
for file in bin/trireme share/man/man1/trireme.1 share/bash-completion/completions/trireme \
  share/zsh/site-functions/_trireme share/fish/vendor_completions.d/trireme.fish; do
  [ -s "$prefix/$file" ] || { echo "$file is missing or empty"; exit 1; }
done
# The plug-in that the program finds is the installed one.
if ls "$1"/lib/libtrireme_mpi.so >/dev/null 2>&1; then
  cmp "$1/lib/libtrireme_mpi.so" "$prefix/lib/trireme/libtrireme_mpi.so"
fi
"$prefix/bin/trireme" --version
