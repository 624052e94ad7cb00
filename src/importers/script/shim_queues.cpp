// Shims of batch systems: do what SLURM and PBS do before a job begins.
#include "importers/script/shim_text.h"

namespace trireme::script {

const char* const shim_queues = R"sh(
# A file that SLURM has made under this name when the job begins: %j and its like are filled in.
slurm_file() {
  local pattern=$1 name= letter value
  while [[ $pattern =~ ^([^%]*)%([0-9]*)(.)(.*)$ ]]; do
    name+=${BASH_REMATCH[1]} letter=${BASH_REMATCH[3]} pattern=${BASH_REMATCH[4]}
    case $letter in
      j | J | A) value=${SLURM_JOB_ID:-1} ;;
      a) value=${SLURM_ARRAY_TASK_ID:-4294967294} ;;
      x) value=${SLURM_JOB_NAME:-} ;;
      u) value=${USER:-$(id -un 2> /dev/null)} ;;
      N) value=${SLURMD_NODENAME:-node0001} ;;
      n | t | s) value=0 ;;
      b) value=$((${SLURM_ARRAY_TASK_ID:-0} % 10)) ;;
      %) value=% ;;
      *) value=%$letter ;;
    esac
    [ -z "${BASH_REMATCH[2]}" ] || [[ $value == *[!0-9]* ]] ||
      value=$(printf "%0${BASH_REMATCH[2]}d" "$value")
    name+=$value
  done
  name+=$pattern
  case $name in
    /dev/* | none) return ;;
    */*) mkdir -p -- "${name%/*}" 2> /dev/null ;;
  esac
  { : >> "$name"; } 2> /dev/null
}

job_files() {
  local output error
  output=$(text_option --output -o "$@")
  error=$(text_option --error -e "$@")
  [ -n "$output" ] || output=slurm-%j.out
  [ "$output" != slurm-%j.out ] || [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || output=slurm-%A_%a.out
  slurm_file "$output"
  [ -z "$error" ] || slurm_file "$error"
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
  put SLURM_JOB_NAME "$(text_option --job-name -J "$@")"
  put SLURM_JOB_PARTITION "$(text_option --partition -p "$@")"
  put SLURM_JOB_ACCOUNT "$(text_option --account -A "$@")"
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
  local script=$1 words nodes folder
  shift
  directives '#SBATCH' "$script"
  if [ "$name" = sbatch ] || [ ${#words[@]} -gt 0 ]; then
    words+=("${options[@]}")
    [ -n "$(text_option --job-name -J "${words[@]}")" ] || words=(--job-name "${script##*/}" "${words[@]}")
    job_variables "${words[@]}"
    slurm_variables "${words[@]}"
    folder=$(text_option --chdir -D "${words[@]}")
    if [ -n "$folder" ]; then
      case $script in
        /*) ;;
        *) script=$PWD/$script ;;
      esac
      if ! cd -- "$folder" 2> /dev/null; then
        record absent cd "$folder"
        mkdir -p -- "$folder" 2> /dev/null && cd -- "$folder"
      fi
    fi
    job_files "${words[@]}"
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
  wrap=$(text_option --wrap --wrap "$@")
  if [ -n "$wrap" ]; then
    options=("$@")
    job_variables "$@"
    slurm_variables "$@"
    job_files "$@"
    "$TRIREME_BASH" -c "$wrap"
    return
  fi
  for ((i = 1; i <= $#; i++)); do
    word=${!i}
    case $word in
      -*) continue ;;
    esac
    [ -f "$word" ] || continue
    # A job that puts itself into the queue again continues later; here it is read once.
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
)sh";

}  // namespace trireme::script
