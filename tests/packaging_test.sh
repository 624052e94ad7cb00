#!/bin/sh
# Checks that every library that the build looks for is in the packaging recipes: Debian's packages (scripts/setup.sh),
# conda-forge's and spack's. A new library fails here until it has a line.
set -eu
cd "$(dirname "$0")/.."
# name in the build | Debian | conda-forge | spack
table='fmt libfmt-dev fmt fmt
nlohmann_json nlohmann-json3-dev nlohmann_json nlohmann-json
CLI11 libcli11-dev cli11 cli11
tomlplusplus libtomlplusplus-dev tomlplusplus tomlplusplus
dnnl libdnnl-dev onednn onednn
ZLIB zlib1g-dev zlib zlib-api
LibLZMA liblzma-dev liblzma-devel xz
oniguruma libonig-dev oniguruma oniguruma
libxxhash libxxhash-dev xxhash xxhash
libzstd libzstd-dev zstd zstd
simdjson libsimdjson-dev simdjson simdjson
yaml-cpp libyaml-cpp-dev yaml-cpp yaml-cpp
libutf8proc libutf8proc-dev libutf8proc utf8proc
cpp-httplib libcpp-httplib-dev cpp-httplib cpp-httplib
sentencepiece libsentencepiece-dev libsentencepiece sentencepiece
PkgConfig pkg-config pkg-config pkgconfig
MPI libopenmpi-dev openmpi mpi'
bad=0
complain() { echo "$1"; bad=1; }
wanted=$(sed -n -e 's/^find_package(\([A-Za-z0-9_]*\).*REQUIRED.*/\1/p' -e 's/^find_library([A-Z_]* \([a-z]*\).*/\1/p' \
  -e 's/^pkg_check_modules([A-Z0-9_]* REQUIRED IMPORTED_TARGET \(.*\))/\1/p' cmake/dependencies.cmake)
[ "$(echo "$wanted" | wc -l)" -ge 17 ] || complain "cmake/dependencies.cmake was not understood"
for library in $wanted MPI; do
  case $library in Threads | OpenMP) continue ;; esac  # part of the compiler
  row=$(echo "$table" | grep "^$library " || true)
  [ -n "$row" ] || { complain "$library, which cmake/dependencies.cmake asks for, is not in the table of tests/packaging_test.sh"; continue; }
  # shellcheck disable=SC2086
  set -- $row
  sed -n '/^trireme_packages=(/,/^)/p' scripts/setup.sh | grep -qw -- "$2" || complain "scripts/setup.sh lacks $2"
  grep -q "^  - $3\( \|\$\)" packaging/environment.yml || complain "packaging/environment.yml lacks $3"
  grep -q "depends_on(\"$4[\"@]" packaging/spack/package.py || complain "packaging/spack/package.py lacks $4"
done
version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
grep -q "version(\"$version\")" packaging/spack/package.py || complain "packaging/spack/package.py is not of version $version"
[ -e packaging/easybuild/trireme-"$version"-*.eb ] || complain "packaging/easybuild has no recipe of version $version"
for script in packaging/trireme packaging/build-mpi; do sh -n "$script" || bad=1; done
exit $bad
