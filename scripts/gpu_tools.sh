# Finds or downloads the compilers for GPUs. Sourced by scripts/gpu_tests.sh. Downloads go to build/gpu-tools and are not
# installed, except packages of this Debian release.

gpu_tools=$PWD/build/gpu-tools

# Finds the compiler for AMD's GPUs: an installed ROCm, else clang 19 of this Debian release, with the headers and device
# library of the next release, whose packages are unpacked. Sets rocm.
find_rocm() {
  rocm=${TRIREME_ROCM:-/opt/rocm}
  [ ! -e "$rocm/include/hip/hip_runtime.h" ] || return 0
  (install_packages clang-19 lld-19 llvm-19 clang-tools-19 libamdhip64-5) || return 1
  rocm=$gpu_tools/hip/usr
  [ -e "$gpu_tools/hip/complete" ] || unpack_hip || return 1
}

# Runs apt with a separate root that has the sources of the next Debian release; signatures are verified as usual.
unpack_hip() {
  local apt=$gpu_tools/apt mirror package
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' | head -n 1)
  rm -rf "$apt" "$gpu_tools/hip"
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,debs} "$gpu_tools/hip"
  touch "$apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:?no mirror of Debian is configured} trixie main" >"$apt/sources.list"
  local options=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State=$apt/state"
    -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update -qq && (cd "$apt/debs" &&
    apt-get "${options[@]}" download -qq libamdhip64-dev rocm-device-libs-17 librocblas-dev) || return 1
  for package in "$apt"/debs/*.deb; do
    dpkg-deb -x "$package" "$gpu_tools/hip" || return 1
  done
  rm -rf "$apt"
  touch "$gpu_tools/hip/complete"
}

# Installs pinned Python packages of NVIDIA in a virtual environment: package_of_nvidia <name>, with the requirements
# scripts/<name>_requirements.txt.
package_of_nvidia() {
  (install_packages python3 python3-venv) || return 1
  local venv=$gpu_tools/$1 requirements=scripts/$1_requirements.txt
  cmp -s "$requirements" "$venv/requirements.txt" && return
  rm -rf "$venv"
  python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" &&
    cp "$requirements" "$venv/requirements.txt"
} >&2

# Finds nvdisasm in PATH or its usual folder, else in its Python package. Sets nvdisasm.
find_nvdisasm() {
  nvdisasm=$(PATH=$PATH:/usr/local/cuda/bin command -v nvdisasm) && return
  package_of_nvidia nvdisasm || return 1
  nvdisasm=$(echo "$gpu_tools"/nvdisasm/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm)
  chmod +x "$nvdisasm" 2>/dev/null
  [ -e "$nvdisasm" ]
}

# Finds nvcc in PATH or its usual folder, else in NVIDIA's Python packages in a virtual environment. Sets nvcc.
find_nvcc() {
  nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) && return
  package_of_nvidia nvcc || return 1
  nvcc=$(echo "$gpu_tools"/nvcc/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
  chmod +x "${nvcc%/*}"/* 2>/dev/null
  [ -e "$nvcc" ]
}
