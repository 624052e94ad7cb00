# Compiles the plug-ins for all architectures of both vendors and runs the tests with the label `gpu`. Sourced by
# ./test, which prints the summary. Tests of unavailable compilers are skipped and counted as skipped.
. scripts/gpu_tools.sh
install_packages python3 binutils

options=()
if find_nvcc; then
  options+=(-DTRIREME_CUDA=ON "-DTRIREME_NVCC=$nvcc")
  if find_nvdisasm; then
    options+=("-DTRIREME_NVDISASM=$nvdisasm")
  else
    echo "skipped: cycles of attention on NVIDIA's GPUs: no nvdisasm on the PATH or in /usr/local/cuda, and it could not be fetched"
  fi
else
  options+=(-DTRIREME_CUDA=OFF)
  echo "skipped: the plug-in for NVIDIA's GPUs: no nvcc on the PATH or in /usr/local/cuda, and it could not be fetched"
fi
if find_rocm; then
  options+=(-DTRIREME_HIP=ON "-DTRIREME_ROCM=$rocm")
else
  options+=(-DTRIREME_HIP=OFF)
  echo "skipped: the plug-in for AMD's GPUs: no ROCm in ${TRIREME_ROCM:-/opt/rocm}, and clang 19 with the headers of HIP could not be fetched"
fi

build_preset gpu gpu_tests "${options[@]}" || exit 1
run_tests gpu -L gpu --output-junit "$results/gpu/ctest"

# Results of tests without GoogleTest in its XML format, and the reasons for skipped tests.
sed -nE 's|.*<testcase name="(gpu_[^"]*)".* status="(.*)".*|\1 \2|p' "$results/gpu/ctest" |
  while read -r name status; do
    case $status in
      run) echo "<testcase name=\"$name\" classname=\"compiled\"/>" ;;
      notrun) echo "<testcase name=\"$name\" classname=\"compiled\" result=\"skipped\"/>" ;;
      *) printf '<testcase name="%s" classname="compiled"/>\n<failure />\n' "$name" ;;
    esac
  done >"$results/gpu/compiled.xml"
grep -hE '^ *(<system-out>)?skipped: ' "$results/gpu/ctest" | sed 's/.*skipped: /skipped: /' | sort -u
