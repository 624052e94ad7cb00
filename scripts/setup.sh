# Installs the packages for building and testing on Debian 12, and builds. Sourced by ./quickstart and ./test.

trireme_packages=(
  g++ cmake ninja-build ccache pkg-config
  libdnnl-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev
  libonig-dev libutf8proc-dev libsentencepiece-dev libsimdjson-dev libxxhash-dev libyaml-cpp-dev
  zlib1g-dev liblzma-dev libzstd-dev libopenmpi-dev openmpi-bin libcpp-httplib-dev
)

# install_packages PACKAGE...: installs missing packages, as root or with sudo.
install_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "cannot install: ${missing[*]}: run this as root or install sudo" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build_preset PRESET [TARGET [OPTION...]]: configures with the options, then builds.
build_preset() {
  local preset=$1 target=${2:-}
  shift $(($# < 2 ? 1 : 2))
  cmake --preset "$preset" "$@" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; exit 1; }
  rm -f "build-$preset.log"
  cmake --build --preset "$preset" ${target:+--target "$target"}
}
