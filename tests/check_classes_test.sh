#!/usr/bin/env bash
# Plants classes of the same name in small trees; scripts/check-classes must report those linked together.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/expect.sh"
check=("$here/../scripts/check-classes" "$scratch")

expect 1 'has no sources'
mkdir "$scratch"/{one,two}
printf 'namespace trireme {\n\nstruct Site {\n};\n\n}  // namespace trireme\n' >"$scratch/one/site.h"
# In another namespace, in none, and as a member.
printf 'namespace trireme::gpu {\n\nstruct Site {\n};\n\n}  // namespace trireme::gpu\n' >"$scratch/two/gpu.h"
printf 'namespace trireme {\nnamespace {\n\nclass Site {\n};\n\n}  // namespace\n}  // namespace trireme\n' >"$scratch/two/local.cpp"
printf 'namespace trireme {\n\nclass Other {\n  struct Site {\n  };\n};\n\n}  // namespace trireme\n' >"$scratch/two/other.h"
expect 0 ''
printf 'namespace trireme {\n\nclass Site : public Other {\n};\n\n}  // namespace trireme\n' >"$scratch/two/site.h"
expect 1 'two/site.h:3: class trireme::Site is also defined in '
exit $failed
