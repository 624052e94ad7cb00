// The text of the shims: bash, so that nothing has to be compiled where a script is imported.
#include "script/shims.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace trireme::script {
namespace {

// Read by every bash through BASH_ENV. The trap keeps the shims in front of what scripts and
// environments prepend to PATH, and tells the shims which line called them.
constexpr const char* kStartup = R"sh(
module() { :; }
ml() { :; }
export -f module ml
export TRIREME_LINE=0
trap 'TRIREME_LINE=$LINENO; case $PATH in "$TRIREME_BIN":*) ;; *) PATH=$TRIREME_BIN:$PATH ;; esac' DEBUG
set -T
)sh";

// One program under many names: $0 says which. It runs as "bash -p", which ignores BASH_ENV.
constexpr const char* kShim = R"sh(
name=${0##*/}
# <Specify path> is a blank that the author of a script left. It is no shell: a word takes its place.
shopt -s extglob
blank='(^|[^<])<([A-Za-z][^<>]* [^<>]*[^<> ])>|=<([A-Za-z][^<> ]*)>'

# Writes one call: folder, calling record, line, kind, arguments, files they name, SLURM's variables.
# All fields end with a NUL. Sets TRIREME_CALL to the number of the record, for commands run from here.
record() {
  local kind=$1 n=0 i word saved=()
  shift
  until (set -C; : > "$TRIREME_CALLS/$n") 2> /dev/null; do
    n=$((n + 1))
    [ $n -lt 1000 ] || exit 1
  done
  for ((i = 1; i <= $#; i++)); do
    word=${!i}
    case $word in
      --*=*) word=${word#*=} ;;
    esac
    case $word in
      *.json | *.yaml | *.yml | *.txt | *.list | *hostfile*) ;;
      *) continue ;;
    esac
    [ -f "$word" ] || continue
    IFS= read -r -d '' -N 1048577 text < "$word"
    saved+=("$word" "$text")
  done
  {
    printf '%s\0' "$PWD" "${TRIREME_CALL:-}" "${TRIREME_LINE:-0}" "$kind" "$#" "$@"
    printf '%s\0' "${#saved[@]}" "${saved[@]}"
    for word in ${!SLURM_*}; do
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

# The value of an option among the remaining arguments: the last of "--long V", "--long=V", "-sV".
option() {
  local long=$1 short=$2 value=
  shift 2
  while [ $# -gt 0 ]; do
    case $1 in
      "$long="*) value=${1#*=} ;;
      "$long" | "$short") value=${2-} ;;
      "$short"[0-9]*) value=${1#"$short"} ;;
    esac
    shift
  done
  printf '%s' "$value"
}

number() { # the last whole number in a text: 4 of "gpu:a100:4", 2 of "2-4"
  local text=${1%%[-%(,]*}
  text=${text##*[!0-9]}
  printf '%s' "${text:+$((10#$text))}"
}

put() { # an exported variable, unless the user has set it
  case " $TRIREME_SET " in
    *" $1 "*) ;;
    *) export "$1=$2" ;;
  esac
}

# SLURM's variables as they follow from options of sbatch or srun. What is not given stays.
slurm_variables() {
  local nodes tasks each gpus cpus array i list=
  nodes=$(number "$(option --nodes -N "$@")")
  tasks=$(number "$(option --ntasks -n "$@")")
  each=$(number "$(option --ntasks-per-node - "$@")")
  gpus=$(number "$(option --gpus-per-node - "$@")")
  [ -n "$gpus" ] || gpus=$(number "$(option --gres - "$@")")
  cpus=$(number "$(option --cpus-per-task -c "$@")")
  put SLURM_NNODES "${nodes:-${SLURM_NNODES:-1}}"
  nodes=$SLURM_NNODES
  put SLURM_JOB_NUM_NODES "$nodes"
  [ -z "$each" ] || put SLURM_NTASKS_PER_NODE "$each"
  each=${each:-${SLURM_NTASKS_PER_NODE:-}}
  put SLURM_NTASKS "${tasks:-$((nodes * ${each:-1}))}"
  put SLURM_NPROCS "$SLURM_NTASKS"
  put SLURM_TASKS_PER_NODE "$(((SLURM_NTASKS + nodes - 1) / nodes))(x$nodes)"
  [ -n "$gpus" ] || gpus=$(number "$(option --gpus -G "$@")")
  if [ -n "$gpus" ]; then
    put SLURM_GPUS_PER_NODE "$gpus"
    put SLURM_GPUS_ON_NODE "$gpus"
    for ((i = 0; i < gpus && i < 64; i++)); do list+=${list:+,}$i; done
    put CUDA_VISIBLE_DEVICES "$list"
  fi
  [ -z "$cpus" ] || put SLURM_CPUS_PER_TASK "$cpus"
  put SLURM_CPUS_ON_NODE "$((${cpus:-1} * ${each:-1}))"
  if [ "$nodes" -gt 1 ]; then
    put SLURM_JOB_NODELIST "node[0001-$(printf %04d "$nodes")]"
  else
    put SLURM_JOB_NODELIST node0001
  fi
  put SLURM_NODELIST "$SLURM_JOB_NODELIST"
  put SLURMD_NODENAME node0001
  for i in PROCID LOCALID NODEID; do put "SLURM_$i" 0; done
}

job_variables() {
  local array
  put SLURM_JOB_ID 1
  put SLURM_JOBID 1
  put SLURM_JOB_NAME "$(option --job-name -J "$@")"
  put SLURM_JOB_PARTITION "$(option --partition -p "$@")"
  put SLURM_JOB_ACCOUNT "$(option --account -A "$@")"
  put SLURM_SUBMIT_DIR "$PWD"
  put SLURM_SUBMIT_HOST node0001
  array=$(option --array -a "$@")
  if [ -n "$array" ]; then
    put SLURM_ARRAY_JOB_ID 1
    put SLURM_ARRAY_TASK_ID "$(number "$array")"
  fi
}

# The words of a script's directive lines, such as #SBATCH, up to its first command.
directives() {
  local mark=$1 line word
  words=()
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      "$mark"[[:space:]]*)
        set -f
        for word in ${line#"$mark"}; do
          case $word in
            \#*) break ;;
          esac
          words+=("$word")
        done
        set +f
        ;;
      \#* | '') ;;
      *[![:space:]]*) break ;;
    esac
  done < "$2"
}

hosts() {
  local i
  for ((i = 1; i <= ${SLURM_NNODES:-${nodes:-1}} && i <= 100000; i++)); do printf 'node%04d\n' $i; done
}

fill_blanks() {
  local line found
  while IFS= read -r line || [ -n "$line" ]; do
    while [[ $line != *([[:space:]])\#* && $line =~ $blank ]]; do
      found=${BASH_REMATCH[2]:-${BASH_REMATCH[3]}}
      line=${line/"<$found>"/FILL_IN:${found//[^A-Za-z0-9_.\/-]/_}}
    done
    printf '%s\n' "$line"
  done < "$1"
}

# Runs a batch script as the queueing system would: its directives become variables.
run_job() {
  local script=$1 words nodes
  shift
  directives '#SBATCH' "$script"
  if [ "$name" = sbatch ] || [ ${#words[@]} -gt 0 ]; then
    words+=("${options[@]}")
    job_variables "${words[@]}"
    slurm_variables "${words[@]}"
  fi
  directives '#PBS' "$script"
  if [ "$name" = qsub ] || [ ${#words[@]} -gt 0 ]; then
    words="${words[*]} ${options[*]}"
    nodes=1
    case $words in
      *select=*) nodes=${words#*select=} && nodes=${nodes%%[!0-9]*} ;;
    esac
    hosts > "$TRIREME_CALLS/../nodes"
    put PBS_JOBID 1.host
    put PBS_O_WORKDIR "$PWD"
    put PBS_JOBNAME job
    put PBS_NODEFILE "$TRIREME_CALLS/../nodes"
  fi
  export TRIREME_JOB=$script
  if [ "$name" = trireme-script ] && grep -v '^[[:space:]]*#' "$script" | grep -qE "$blank"; then
    exec "$TRIREME_BASH" -c "$(fill_blanks "$script")" "$script" "$@"
  fi
  exec "$TRIREME_BASH" "$script" "$@"
}

# Where the script is among the arguments of sbatch, whose options may have values of their own.
submit() {
  local i word wrap
  wrap=$(option --wrap - "$@")
  if [ -n "$wrap" ]; then
    options=("$@")
    job_variables "$@"
    slurm_variables "$@"
    "$TRIREME_BASH" -c "$wrap"
    return
  fi
  for ((i = 1; i <= $#; i++)); do
    word=${!i}
    case $word in
      -*) continue ;;
    esac
    [ -f "$word" ] || continue
    # A job that puts itself into the queue again goes on later; here it is read once.
    [ "$word" -ef "${TRIREME_JOB:-/}" ] && return
    options=("${@:1:i-1}")
    (run_job "$word" "${@:i+1}")
    return
  done
  [ -p /dev/stdin ] || [ -f /dev/stdin ] || return
  word=$(mktemp "$TRIREME_CALLS/../job.XXXXXX") && cat > "$word"
  options=("$@")
  (run_job "$word")
}

# Where the command begins among the arguments of a launcher: `at`, 0 where there is none to run.
# The launcher's own arguments go to `options`.
find_command() {
  local i word
  at=0
  options=("$@")
  for ((i = 1; i <= $#; i++)); do
    word=${!i}
    case ${word##*/} in
      *.py) options=("${@:1:i-1}") && return ;;
      bash | sh | dash | zsh | ksh | python | python[23] | python3.* | torchrun | deepspeed | accelerate) ;;
      singularity | apptainer | shifter | env | numactl | nsys) ;;
      *.sh | *.bash | *.slurm | *.sbatch) [ -f "$word" ] || continue ;;
      *) continue ;;
    esac
    at=$i options=("${@:1:i-1}")
    return
  done
  case $name in
    srun | mpi* | aprun | jsrun | prun | prterun | orterun) ;;
    *) return ;;
  esac
  for ((i = 1; i <= $#; i++)); do
    word=${!i}
    case $word in
      -* | node | core | cores | socket | slot | numa | none | all | ALL | test) continue ;;
    esac
    type -P "$word" > /dev/null || continue
    at=$i options=("${@:1:i-1}")
    return
  done
}

# Runs on into the command of a launcher, for the first of its ranks.
run_on() {
  [ $at -gt 0 ] || return
  local word=${!at}
  case $word in
    *.sh | *.bash | *.slurm | *.sbatch) [ -x "$word" ] || exec "$TRIREME_BASH" "${@:at}" ;;
  esac
  exec "${@:at}"
}

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
  pip | pip3 | conda | mamba | micromamba | pkill | killall | sleep) ;;
  *)
    record call "$name" "$@"
    asked "$@"
    ;;
esac
exit 0
)sh";

constexpr const char* kNames[] = {
    "python",    "python3",       "python2",      "torchrun", "deepspeed",   "accelerate",
    "srun",      "sbatch",        "scontrol",     "squeue",   "sinfo",       "sacct",
    "scancel",   "salloc",        "qsub",         "qstat",    "bsub",        "mpirun",
    "mpiexec",   "mpiexec.hydra", "mpirun.hydra", "orterun",  "prun",        "prterun",
    "aprun",     "jsrun",         "nvidia-smi",   "rocm-smi", "amd-smi",     "xpu-smi",
    "rocminfo",  "singularity",   "apptainer",    "shifter",  "docker",      "podman",
    "enroot",    "numactl",       "nsys",         "ncu",      "rocprof",     "rocprofv2",
    "rocprofv3", "pip",           "pip3",         "conda",    "mamba",       "micromamba",
    "wget",      "curl",          "ssh",          "scp",      "pdsh",        "pkill",
    "killall",   "sleep",         "ray",          "wandb",    "tensorboard", "sudo",
    "ds_report", "ds_ssh",        "modulecmd",    "uv",       "poetry",      "trireme-script"};

std::string first_line() {
  return "#!" + bash_path() + " -p\n";
}

}  // namespace

std::string bash_path() {
  for (const char* path : {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"}) {
    if (fs::exists(path)) return path;
  }
  fail_input("cannot run the script: there is no /bin/bash; install bash");
}

void write_shims(const fs::path& folder) {
  const fs::path bin = folder / "bin";
  make_folders(bin);
  write_file_durably(folder / "startup", kStartup);
  const fs::path shim = folder / "shim";
  write_file_durably(shim, first_line() + kShim);
  fs::permissions(shim, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  for (const char* name : kNames) fs::create_symlink(shim, bin / name);
}

}  // namespace trireme::script
