# shellcheck shell=bash
# launch/slurm/job.sh: what train.sbatch and train-mpirun.sbatch share; they source it with their arguments.
#
# It leaves `root`, the project's folder; `options`, those of ddp_train, with --output-dir runs/slurm-JOB unless the arguments or
# their --config name one, and --resume auto unless they say what to begin with, which then is for the first start; and
# DDP_TRAIN, the program, unless set: with CUDA where the job has GPUs and it was built. `run_job COMMAND...` then runs the job
# and ends the script with its exit code, after `scontrol requeue` where Slurm has stopped it:
#
#   preempted              Slurm has written PreemptTime on the job
#   near its time limit    within ten minutes, or $DDP_REQUEUE_WITHIN seconds, of the job's end
#
# A job that stops elsewhere (75) was asked to by somebody: it ends. So it does after 1000 restarts ($DDP_MAX_RESTARTS), after
# a whole time limit without a newer checkpoint, where requeueing is forbidden (sbatch --no-requeue), and on the exit codes
# that a restart would not mend. USR1 to this script is passed on to COMMAND.

root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")

say() { echo "launch/slurm: $*" >&2; }
refuse() { # CODE MESSAGE
  [[ ${SLURM_PROCID:-0} != 0 ]] || say "$2"
  exit "$1"
}
[[ -n ${SLURM_JOB_ID:-} ]] || refuse 2 "this is a job for Slurm: sbatch launch/slurm/train.sbatch [options of ddp_train]"
[[ -z ${SLURM_STEP_ID:-} ]] || refuse 8 "srun would start this script once a task, each a job of one rank: submit it with sbatch"

options=("$@")

# The last value of an option, given as "--name value" or "--name=value".
value_of() {
  local i value=''
  for ((i = 0; i < ${#options[@]}; ++i)); do
    case ${options[i]} in
      "$1") value=${options[i + 1]:-} ;;
      "$1"=*) value=${options[i]#*=} ;;
    esac
  done
  echo "$value"
}
remove_option() {
  local i kept=()
  for ((i = 0; i < ${#options[@]}; ++i)); do
    case ${options[i]} in
      "$1") ((++i)) ;;
      "$1"=*) ;;
      *) kept+=("${options[i]}") ;;
    esac
  done
  options=("${kept[@]}")
}
in_config() { # NAME: its value in the file of --config
  local config
  config=$(value_of --config)
  [[ -n $config ]] || return 0
  sed -nE "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*[\"']([^\"']*)[\"'].*/\1/p" "$config" 2>/dev/null | tail -n 1
}
# The step of the newest checkpoint; -1: none.
newest_step() {
  local path newest=-1
  for path in "$folder"/checkpoints/step-*; do
    [[ -d $path && $path =~ /step-([0-9]+)$ ]] || continue
    ((10#${BASH_REMATCH[1]} <= newest)) || newest=$((10#${BASH_REMATCH[1]}))
  done
  echo "$newest"
}

nodes=$SLURM_JOB_NUM_NODES gpus=${SLURM_GPUS_ON_NODE:-0} tasks=${SLURM_NTASKS:-0}
((tasks > 0)) || refuse 2 "the job has no number of tasks, which are the ranks: sbatch --ntasks-per-node=N"
if ((tasks < gpus * nodes)) && [[ $(value_of --device) != cpu ]]; then
  refuse 2 "$tasks ranks on $nodes x $gpus GPUs would leave GPUs idle: sbatch --ntasks-per-node=$gpus, or fewer --gpus-per-node"
fi

builds=(cpu cuda)
((gpus == 0)) || builds=(cuda cpu)
for build in "${builds[@]}"; do
  [[ -n ${DDP_TRAIN:-} || ! -x $root/build/$build/ddp_train ]] || DDP_TRAIN=$root/build/$build/ddp_train
done
[[ -n ${DDP_TRAIN:-} ]] || refuse 2 "no ddp_train in $root/build: launch/build cuda (or cpu) builds it, or DDP_TRAIN names it"
[[ -x $(command -v "$DDP_TRAIN") ]] || refuse 2 "DDP_TRAIN=$DDP_TRAIN cannot be run"
export DDP_TRAIN

restarts=${SLURM_RESTART_COUNT:-0}
folder=$(value_of --output-dir)
folder=${folder:-$(in_config output-dir)}
if [[ -z $folder ]]; then
  folder=runs/slurm-$SLURM_JOB_ID
  options+=(--output-dir "$folder")
fi
began_from=$(newest_step)
if ((restarts > 0)); then
  remove_option --inject # a rehearsed fault happens once
  ((began_from < 0)) || remove_option --resume
fi
weights=$(value_of --init-from)$(in_config init-from)
if [[ -n $weights ]] && ((began_from >= 0)); then # the checkpoint has them; an empty option stands before that of a file
  remove_option --init-from
  options+=(--init-from '')
  weights=''
fi
if [[ -z $(value_of --resume)$weights ]] && { ((restarts > 0)) || [[ -z $(in_config resume) ]]; }; then
  options+=(--resume auto)
fi

facts_of_job() { scontrol show job "$SLURM_JOB_ID" | tr ' ' '\n'; }

# Why Slurm has stopped the job; fails where it has not.
stopped_by_slurm() {
  local facts end
  facts=$(facts_of_job)
  grep -qx 'JobState=RUNNING' <<<"$facts" || return 1 # cancelled
  if grep -q '^PreemptTime=[0-9]' <<<"$facts"; then
    echo 'was preempted'
    return
  fi
  end=$(date -d "$(sed -n 's/^EndTime=//p' <<<"$facts")" +%s 2>/dev/null) || return 1 # it has no time limit
  ((end - EPOCHSECONDS <= ${DDP_REQUEUE_WITHIN:-600})) || return 1
  echo 'has come near its time limit'
}

end_job() { # CODE
  local why newest go_on
  newest=$(newest_step)
  go_on="the same sbatch with --output-dir $folder goes on from step $newest"
  ((newest >= 0)) || go_on="there is no checkpoint yet"
  case $1 in 0 | 2 | 3 | 4 | 5 | 6 | 8) exit "$1" ;; esac
  if ! why=$(stopped_by_slurm); then
    why="ended with $1"
    [[ $1 != 75 ]] || why='was asked to stop, neither preempted nor near its time limit'
    say "job $SLURM_JOB_ID $why: not requeued; $go_on"
  elif [[ $why == *limit ]] && ((newest <= began_from)); then
    say "job $SLURM_JOB_ID $why, and a whole one has brought no newer checkpoint: not requeued; sbatch with a longer --time, or" \
      "an earlier --signal"
  elif ((restarts >= ${DDP_MAX_RESTARTS:-1000})); then
    say "job $SLURM_JOB_ID $why, after $restarts restarts: not requeued; $go_on"
  else
    say "job $SLURM_JOB_ID $why: requeued; step $newest is saved"
    scontrol requeue "$SLURM_JOB_ID" || say "it cannot be requeued; $go_on"
  fi
  exit "$1"
}

run_job() {
  local code interrupted
  trap 'interrupted=1; kill -USR1 "$launcher" 2>/dev/null' USR1
  "$@" &
  launcher=$!
  while true; do
    interrupted=''
    wait "$launcher"
    code=$?
    [[ -n $interrupted ]] || break
  done
  end_job "$code"
}
