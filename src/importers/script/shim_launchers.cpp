// Shims of launchers: find the command that a launcher starts, and continue into it.
#include "importers/script/shim_text.h"

namespace trireme::script {

const char* const shim_launchers = R"sh(
# How many values of its own follow an option of srun's or mpirun's: $1, with the next word $2.
values_of() {
  case $name:$1 in
    *:*=*) printf 0 ;;
    srun:--*)
      case ${1#--} in
        nodes | ntasks* | cpus-per-* | gpus* | gres* | mem* | partition | account | time* | job-name | output | error | \
          input | nodelist | exclude | chdir | export | mpi | cpu-bind | gpu-bind | distribution | constraint | qos | \
          jobid | het-group | label-* | reservation | container-image | container-mounts | container-name | \
          container-workdir | container-env | hint | threads* | dependency | wait | signal | network | tres* | core-spec | \
          cores-per-* | sockets-per-* | extra-node-info | cluster* | licenses | open-mode | profile | power | \
          priority | relative | task-* | prolog | epilog | tmp | comment | begin | deadline | bb | bbf | accel-bind)
          printf 1 ;;
        exclusive | overlap | label | unbuffered | quiet | verbose | kill-on-bad-exit | no-kill | overcommit | pty | \
          exact | whole | multi-prog | test-only | preserve-env | disable-status | contiguous | spread-job | \
          use-min-nodes | interactive | help | version | usage | oversubscribe | share | resv-ports | propagate | \
          nice | immediate | compress | send-libs | no-allocate | bcast | x11 | reboot | hold | container-* | no-*)
          printf 0 ;;
        *) # not known: its value, unless that is a command
          { [ -f "$2" ] || type -P "$2" > /dev/null; } && printf 0 || printf 1 ;;
      esac
      ;;
    srun:-[AaBCcDdeGiJLMmNnopqrSTtwWx]) printf 1 ;;
    srun:*) printf 0 ;;
    mpi*:-genv | mpi*:-env | *:-mca | *:--mca | *:-gmca | *:--gmca | *:--prtemca | *:--pmixmca) printf 2 ;;
    aprun:-[nNdSjLlmrpeaPR] | aprun:-cc | aprun:-ss) printf 1 ;;
    aprun:* | jsrun:--*) printf 0 ;;
    jsrun:*) printf 1 ;;
    *:-n | *:-np | *:--np | *:-c | *:-N | *:-H | *:-host | *:--host | *:-hosts | *:-x | *:-f | *:-ppn | *:--ppn | \
      *:-hostfile | *:--hostfile | *:-machinefile | *:--machinefile | *:-map-by | *:--map-by | *:-bind-to | \
      *:--bind-to | *:-rank-by | *:--rank-by | *:-npernode | *:--npernode | *:-npersocket | *:--npersocket | \
      *:-prefix | *:--prefix | *:-wd | *:-wdir | *:--wdir | *:-output-filename | *:--output-filename | \
      *:-genvlist | *:-envlist | *:-perhost | *:-iface | *:-bootstrap | *:-rmk | *:-launcher | *:-path | \
      *:--timeout | *:-timeout | *:-tune | *:--tune | *:--cpu-bind | *:--depth | *:--mem-bind | *:-d | \
      *:-am | *:--app | *:-rankfile | *:--rankfile | *:-rf | *:--personality | *:-slot-list | *:--slot-list)
      printf 1 ;;
    *) printf 0 ;;
  esac
}

# A program between a container or a profiler and the file of Python at i: `at` where there is one.
wrapped_program() {
  local before=$((i - 1))
  [ $before -gt 0 ] || return
  case $name:$* in
    torchrun:*--no-python* | torchrun:*--no_python* | deepspeed:*--no_python*) ;;
    torchrun:* | deepspeed:* | accelerate:*) return ;;
  esac
  case ${!before} in
    -* | *.sif | *.simg | *://*) ;;
    */*) at=$before ;;
    *) { [ -f "${!before}" ] || type -P "${!before}" > /dev/null; } && at=$before ;;
  esac
}

# Where the command begins among the arguments of a launcher: `at`, 0 where there is none to run.
# The launcher's own arguments go to `options`.
find_command() {
  local i word next
  at=0
  options=("$@")
  case $name in
    srun | mpi* | aprun | jsrun | prun | prterun | orterun)
      for ((i = 1; i <= $#; i++)); do
        word=${!i}
        case $word in
          --) i=$((i + 1)) ;;
          -*)
            next=$((i + 1))
            i=$((i + $(values_of "$word" "${!next-}")))
            continue
            ;;
        esac
        [ $i -le $# ] || return
        word=${!i}
        options=("${@:1:i-1}")
        case $word in
          *.py) ;;
          *) at=$i ;;
        esac
        return
      done
      return
      ;;
    conda | mamba | micromamba | pixi)
      for ((i = 1; i <= $#; i++)); do
        [ "${!i}" != run ] || break
      done
      for ((i++; i <= $#; i++)); do
        case ${!i} in
          -n | --name | -p | --prefix | --cwd | -e | --environment | -r | --root-prefix | --manifest-path) i=$((i + 1)) ;;
          -*) ;;
          *)
            at=$i options=("${@:1:i-1}")
            return
            ;;
        esac
      done
      return
      ;;
  esac
  for ((i = 1; i <= $#; i++)); do
    word=${!i}
    case ${word##*/} in
      *.py)
        wrapped_program "$@"
        options=("${@:1:i-1}")
        return
        ;;
      bash | sh | dash | zsh | ksh | python | python[23] | python3.* | torchrun | deepspeed | accelerate) ;;
      singularity | apptainer | shifter | env | numactl | nsys) ;;
      *.sh | *.bash | *.slurm | *.sbatch)
        case $word in
          -*) continue ;;
        esac
        ;;
      *) continue ;;
    esac
    at=$i options=("${@:1:i-1}")
    return
  done
}

# Runs on into the command of a launcher, for the first of its ranks. Launchers find files of the
# current folder, which a shell does not.
run_on() {
  [ $at -gt 0 ] || return
  local word=${!at} begin=
  case $word in
    */*) ;;
    *) type -P "$word" > /dev/null || { [ -f "$word" ] && word=./$word; } ;;
  esac
  if ! type -P "$word" > /dev/null && [ ! -f "$word" ]; then
    record absent "$word"
    exit 127
  fi
  record wrapper "$word"
  if [ -f "$word" ]; then
    IFS= read -r -N 2 begin < "$word" 2> /dev/null
    case $(type -P "$word"):$begin in
      ?*:'#!' | ?*:$'\x7fE') ;;
      *) exec "$TRIREME_BASH" "$word" "${@:at+1}" ;;
    esac
  fi
  exec "$word" "${@:at+1}"
}
)sh";

}  // namespace trireme::script
