// The shims as bash text, so that importing a script requires no compiler.
#include "importers/script/shims.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "importers/script/shim_text.h"

namespace trireme::script {
namespace {

// Read by every bash through BASH_ENV. The trap keeps the shims in front of PATH entries that
// scripts prepend, and tells the shims which line called them. Commands may need files that exist
// only on the job's nodes: failures are recorded, and `set -e` does not end the script there.
// Missing folders are created in the sandbox.
constexpr const char* kStartup = R"sh(
module() { :; }
ml() { :; }
cd() {
  builtin cd "$@" 2> /dev/null && return
  local folder=${!#}
  [ ! -d "$folder" ] && [ -n "$folder" ] || { builtin cd "$@"; return; }
  trireme-note absent "${BASH_LINENO[0]}" cd "$folder"
  mkdir -p -- "$folder" 2> /dev/null && builtin cd -- "$folder" || return 0
}
trireme_failed() {
  case $TRIREME_ENDS:$2 in
    yes:* | *:'source '* | *:'. '*) trireme-note failed "$1" "$2" ;;
  esac
}
export -f module ml cd trireme_failed
export TRIREME_LINE=0 TRIREME_ENDS=
trap 'TRIREME_LINE=$LINENO; case $PATH in "$TRIREME_BIN":*) ;; *) PATH=$TRIREME_BIN:$PATH ;; esac
case $- in *e*) set +e; TRIREME_ENDS=yes ;; esac' DEBUG
trap 'trireme_failed "$LINENO" "$BASH_COMMAND"' ERR
set -T -E
)sh";

// One program with many names, distinguished by $0. Runs as "bash -p", which ignores BASH_ENV.
constexpr const char* kShim = R"sh(
name=${0##*/}
# <Specify path> is a blank that the author of a script left. It is no shell: a word takes its place.
shopt -s extglob
blank='(^|[^<])<([A-Za-z][^<>]* [^<>]*[^<> ])>|=<([A-Za-z][^<> ]*)>'

# Writes one call: folder, calling record, line, kind, arguments, files they name, SLURM's variables and
# the devices that a program sees.
# All fields end with a NUL. Sets TRIREME_CALL to the number of the record, for commands run from here.
record() {
  local kind=$1 n=0 i word before= saved=()
  shift
  until (set -C; : > "$TRIREME_CALLS/$n") 2> /dev/null; do
    n=$((n + 1))
    [ $n -lt 1000 ] || exit 1
  done
  for ((i = 1; i <= $#; i++)); do
    before=$word word=${!i}
    case $word in
      --*=*) before=${word%%=*} word=${word#*=} ;;
    esac
    case $before:$word in
      *.json | *.yaml | *.yml | *.toml | *.txt | *.list | *hostfile*) ;;
      --*data-args-path:* | --*config_file:* | --*config:* | -H:*) ;;
      *) continue ;;
    esac
    [ -f "$word" ] || continue
    IFS= read -r -d '' -N 1048577 text < "$word"
    saved+=("$word" "$text")
  done
  {
    printf '%s\0' "$PWD" "${TRIREME_CALL:-}" "${TRIREME_LINE:-0}" "$kind" "$#" "$@"
    printf '%s\0' "${#saved[@]}" "${saved[@]}"
    for word in ${!SLURM_*} ${!CUDA_VISIBLE_DEVICES*}; do
      printf '%s\0' "$word=${!word}"
    done
  } > "$TRIREME_CALLS/$n"
  export TRIREME_CALL=$n
}

# Output that goes into a pipe is read by the script: an empty answer may change what it does.
asked() {
  [ -p /dev/stdout ] || return 0
  record asked "$name" "$@"
}

# The value of an option among the remaining arguments: the last of "--long V", "--long=V", "-sV". Its value is a number;
# that of text_option is a text, whatever it begins with.
option() { option_of '[0-9]*' "$@"; }
text_option() { option_of '?*' "$@"; }
option_of() {
  local joined=$1 long=$2 short=$3 value=
  shift 3
  while [ $# -gt 0 ]; do
    case $1 in
      "$long="*) value=${1#*=} ;;
      "$long" | "$short") value=${2-} ;;
      "$short"$joined) value=${1#"$short"} ;;
    esac
    shift
  done
  printf '%s' "$value"
}

)sh";

// Behavior under each name.
constexpr const char* kCommands = R"sh(
# Small programs given to Python on the command line are run if there is a Python: nothing of them
# is training, and the script may need what they print.
python() {
  local word real
  for word in "$@"; do
    case $word in
      -c | - | -V | --version) break ;;
      -?*) continue ;;
      *) return 0 ;;
    esac
  done
  # The nodes that train have devices, whatever this machine has.
  case ${*//[ ;]/} in
    "-c importtorchprint(torch.cuda.is_available())") printf 'True\n' && exit 0 ;;
    "-c importtorchprint(torch.cuda.device_count())") devices "$@" && exit 0 ;;
  esac
  case $#:$word in
    0:* | *:-c | *:- | *:-V | *:--version) ;;
    *) return 0 ;;
  esac
  PATH=${PATH//"$TRIREME_BIN:"/}
  real=$(type -P "$name" || type -P python3)
  [ -z "$real" ] || "$real" "$@" && exit 0
  asked "$@"
  exit 0
}

# A command on another node is run here: the nodes of a cluster have the same files.
remote() {
  while [ $# -gt 0 ]; do
    case $1 in
      -[BbcDEeFIiJLlmOopQRSWw]) shift 2 || return ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  [ $# -gt 1 ] || return 0
  shift
  record call "$name" "$@"
  exec "$TRIREME_BASH" -c "$*"
}

devices() { # as many lines as a node has devices
  local i count=${SLURM_GPUS_ON_NODE:-${TRIREME_GPUS:-}}
  if [ -z "$count" ]; then
    count=8
    record devices "$name" "$@"
  fi
  case $* in
    *count*) printf '%s\n' "$count" && return ;;
  esac
  for ((i = 0; i < count; i++)); do
    case $name:$* in
      nvidia*:*index*) printf '%d\n' $i ;;
      nvidia*:*memory*) printf '81920\n' ;;
      nvidia*) printf 'GPU %d: NVIDIA H100\n' $i ;;
      *) printf 'GPU[%d]\t\t: card\n' $i ;;
    esac
  done
}

depth=$((${TRIREME_DEPTH:-0} + 1))
[ $depth -le 20 ] || exit 1
export TRIREME_DEPTH=$depth

case $name in
  trireme-script) options=() && run_job "$@" ;;
  trireme-note)
    TRIREME_LINE=$2
    record "$1" "${@:3}"
    ;;
  nvidia-smi | rocm-smi | amd-smi | xpu-smi) devices "$@" ;;
  scontrol)
    case "$1 $2" in
      'show hostname'*) hosts ;;
      *) asked "$@" ;;
    esac
    ;;
  sbatch | qsub | bsub)
    record call "$name" "$@"
    case $* in
      *--parsable*) printf '1\n' ;;
      *) printf 'Submitted batch job 1\n' ;;
    esac
    submit "$@" > "$TRIREME_CALLS/../jobs.log" 2>&1 ||
      { status=$?; cat "$TRIREME_CALLS/../jobs.log" >&2; exit $status; }
    ;;
  python*)
    python "$@"
    record call "$name" "$@"
    case " $* " in
      *pretrain_*.py*) ;;
      *) asked "$@" ;;
    esac
    ;;
  srun)
    record call "$name" "$@"
    find_command "$@"
    slurm_variables "${options[@]}"
    for word in "$(text_option --output -o "${options[@]}")" "$(text_option --error -e "${options[@]}")"; do
      [ -z "$word" ] || slurm_file "$word"
    done
    run_on "$@"
    ;;
  mpi* | aprun | jsrun | prun | prterun | orterun)
    record call "$name" "$@"
    for word in OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_NODE_RANK PMI_RANK PMI_LOCAL_RANK; do
      put $word 0
    done
    find_command "$@"
    count=$(number "$(option -np -n "${options[@]}")")
    [ -n "$count" ] || count=$(number "$(option --np - "${options[@]}")")
    if [ -n "$count" ]; then
      put OMPI_COMM_WORLD_SIZE "$count"
      put PMI_SIZE "$count"
    fi
    run_on "$@"
    ;;
  torchrun | deepspeed | accelerate | singularity | apptainer | docker | podman | shifter | enroot | numactl | nsys | ncu | rocprof* | uv | poetry)
    record call "$name" "$@"
    find_command "$@"
    run_on "$@"
    ;;
  ssh) remote "$@" ;;
  ds_ssh)
    # DeepSpeed's own prints two lines more than the command.
    printf '\n\n'
    "$TRIREME_BASH" -c "$*"
    ;;
  conda | mamba | micromamba | pixi | pipenv | flux | ibrun) # those that run a command, such as `conda run -n NAME COMMAND`
    record call "$name" "$@"
    find_command "$@"
    run_on "$@"
    ;;
  pip | pip3 | pkill | killall | sleep) ;;
  *)
    record call "$name" "$@"
    asked "$@"
    ;;
esac
exit 0
)sh";

constexpr const char* kNames[] = {
    "python",       "python3",     "python2",     "torchrun", "deepspeed",
    "accelerate",   "srun",        "sbatch",      "scontrol", "squeue",
    "sinfo",        "sacct",       "scancel",     "salloc",   "qsub",
    "qstat",        "bsub",        "mpirun",      "mpiexec",  "mpiexec.hydra",
    "mpirun.hydra", "orterun",     "prun",        "prterun",  "aprun",
    "jsrun",        "nvidia-smi",  "rocm-smi",    "amd-smi",  "xpu-smi",
    "rocminfo",     "singularity", "apptainer",   "shifter",  "docker",
    "podman",       "enroot",      "numactl",     "nsys",     "ncu",
    "rocprof",      "rocprofv2",   "rocprofv3",   "pip",      "pip3",
    "conda",        "mamba",       "micromamba",  "pixi",     "pipenv",
    "flux",         "ibrun",       "wget",        "curl",     "ssh",
    "scp",          "pdsh",        "pkill",       "killall",  "sleep",
    "ray",          "wandb",       "tensorboard", "sudo",     "ds_report",
    "ds_ssh",       "modulecmd",   "uv",          "poetry",   "trireme-script",
    "trireme-note"};

std::string first_line() {
  return "#!" + bash_path() + " -p\n";
}

}  // namespace

std::string bash_path() {
  for (const char* path : {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"}) {
    if (fs::exists(path)) return path;
  }
  fail_input("cannot run the script: /bin/bash does not exist: install bash");
}

void write_shims(const fs::path& folder) {
  const fs::path bin = folder / "bin";
  make_folders(bin);
  write_file_durably(folder / "startup", kStartup);
  const fs::path shim = folder / "shim";
  write_file_durably(shim, first_line() + kShim + shim_queues + shim_launchers + kCommands);
  fs::permissions(shim, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  for (const char* name : kNames) fs::create_symlink(shim, bin / name);
}

}  // namespace trireme::script
