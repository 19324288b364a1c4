# shellcheck shell=bash
# launch/slurm/job.sh: what train.sbatch and train-mpirun.sbatch share; they source it with their arguments.
#
# It leaves `root`, the project's folder; `options`, those of ddp_train, with --output-dir runs/slurm-JOB unless the arguments or
# their --config name one, and --resume auto unless they have --resume, which then is for the first start; and
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
launcher='' pending=''
trap 'pending=1' USR1 # until there is somebody to pass it on to
refuse() { # CODE MESSAGE
  [[ ${SLURM_PROCID:-0} != 0 ]] || say "$2"
  exit "$1"
}
[[ -n ${SLURM_JOB_ID:-} ]] || refuse 2 "this is a job for Slurm: sbatch launch/slurm/train.sbatch [options of ddp_train]"
[[ -z ${SLURM_STEP_ID:-} ]] || refuse 8 "srun would start this script once a task, each a job of one rank: submit it with sbatch"

options=("$@")

# shellcheck source=launch/common.sh
source "$root/launch/common.sh"

nodes=$SLURM_JOB_NUM_NODES gpus=${SLURM_GPUS_ON_NODE:-0} tasks=${SLURM_NTASKS:-0}
((tasks > 0)) || refuse 2 "the job has no number of tasks, which are the ranks: sbatch --ntasks-per-node=N"
if ((tasks < gpus * nodes)) && [[ $(value_of options --device) != cpu && $(in_config options --device) != cpu ]]; then
  refuse 2 "$tasks ranks on $nodes x $gpus GPUs would leave GPUs idle: sbatch --ntasks-per-node=$gpus, or fewer --gpus-per-node"
fi

DDP_TRAIN=$(choose_program "$root" "$gpus") || refuse 2 "$DDP_TRAIN"
export DDP_TRAIN

restarts=${SLURM_RESTART_COUNT:-0}
folder=$(value_of options --output-dir)
folder=${folder:-$(in_config options --output-dir)}
if [[ -z $folder ]]; then
  folder=runs/slurm-$SLURM_JOB_ID
  options+=(--output-dir "$folder")
fi
began_from=$(newest_step "$folder")
if ((restarts > 0)); then
  remove_option options --inject # a rehearsed fault happens once
  ((began_from < 0)) || remove_option options --resume
fi
if [[ -z $(value_of options --resume) ]] && { ((restarts > 0)) || [[ -z $(in_config options --resume) ]]; }; then
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
  end=$(sed -n 's/^EndTime=//p' <<<"$facts")
  { [[ -n $end ]] && end=$(date -d "$end" +%s 2>/dev/null); } || return 1 # it has no time limit
  ((end - EPOCHSECONDS <= ${DDP_REQUEUE_WITHIN:-600})) || return 1
  echo 'has come near its time limit'
}

end_job() { # CODE
  local why newest go_on
  newest=$(newest_step "$folder")
  go_on="the same sbatch with --output-dir $folder goes on from step $newest"
  ((newest >= 0)) || go_on="there is no checkpoint yet"
  worth_a_restart "$1" || exit "$1"
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
  trap 'interrupted=1 pending=1; [[ -z $launcher ]] || kill -USR1 "$launcher" 2>/dev/null' USR1
  "$@" &
  launcher=$!
  [[ -z $pending ]] || kill -USR1 "$launcher" 2>/dev/null
  while true; do
    interrupted=''
    wait "$launcher"
    code=$?
    [[ -n $interrupted ]] || break
  done
  end_job "$code"
}
