#!/usr/bin/env bash
# Plants names in a copy of CONTRIBUTING.md, and expects scripts/check-contributing to find those that do not exist.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/expect.sh"
check=("$here/../scripts/check-contributing" "$scratch/page.md")

# with TEXT: appends TEXT to the unchanged page.
with() { { cat "$here/../CONTRIBUTING.md"; echo "$1"; } >"$scratch/page.md"; }

with '' && expect 0 ''
# The nonexistent name is split in two, since this file is searched too.
gone=no_such_"function"
with "The file \`src/config/gone.cpp\`." && expect 1 'names `src/config/gone.cpp`'
with "The file \`gone_rules.cpp\`." && expect 1 'no file is called that'
with "Call \`$gone\`." && expect 1 "names \`$gone\`"
with "A lone \` quote" && expect 0 ''
echo '`one`' >"$scratch/page.md" && expect 1 'not balanced'
exit $failed
