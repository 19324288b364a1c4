# shellcheck shell=bash
# launch/slurm/job.sh: shared by train.sbatch and train-mpirun.sbatch, which source it with their arguments.
#
# It sets
#   root       the project's folder
#   options    the options of ddp_train: the arguments, and by default --output-dir runs/slurm-JOB and --resume auto;
#              a --resume in the arguments applies to the first start only
#   DDP_TRAIN  the program, unless it is set: the CUDA build first if the job has GPUs
#
# `run_job COMMAND...` runs the job and ends the script with the job's exit code. It calls `scontrol requeue` first if
# Slurm stopped the job because it was
#
#   preempted              the job has a PreemptTime
#   near its time limit    within ten minutes, or $DDP_REQUEUE_WITHIN seconds, of the job's EndTime
#
# It does not requeue a job that stopped (75) in another case, because then a user asked it to stop; after 1000 restarts
# ($DDP_MAX_RESTARTS); after a full time limit without a newer checkpoint; if requeueing is forbidden (sbatch
# --no-requeue); and after an exit code that a restart cannot fix. The script forwards USR1 to COMMAND.

root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")

say() { echo "launch/slurm: $*" >&2; }
launcher='' pending=''
trap 'pending=1' USR1 # until run_job can forward it
refuse() { # CODE MESSAGE
  [[ ${SLURM_PROCID:-0} != 0 ]] || say "$2"
  exit "$1"
}
[[ -n ${SLURM_JOB_ID:-} ]] || refuse 2 "this is a job for Slurm: sbatch launch/slurm/train.sbatch [options of ddp_train]"
[[ -z ${SLURM_STEP_ID:-} ]] || refuse 8 "srun would start this script once per task, each a job of one rank: submit it with sbatch"

options=("$@")

# shellcheck source=launch/common.sh
source "$root/launch/common.sh"

# ((...)) would run a command that a value holds, as in 'a[$(command)]'.
require_number() { # NAME VALUE
  [[ $2 =~ ^(0|[1-9][0-9]{0,8})$ ]] || refuse 2 "$1 needs a whole number, not \"$2\""
}

nodes=$SLURM_JOB_NUM_NODES gpus=${SLURM_GPUS_ON_NODE:-0} tasks=${SLURM_NTASKS:-0}
for number in SLURM_JOB_NUM_NODES="$nodes" SLURM_GPUS_ON_NODE="$gpus" SLURM_NTASKS="$tasks"; do
  require_number "${number%%=*}" "${number#*=}"
done
((tasks > 0)) || refuse 2 "the job does not set the number of tasks, which are the ranks: sbatch --ntasks-per-node=N"
if ((tasks < gpus * nodes)) && [[ $(value_of options --device) != cpu && $(in_config options --device) != cpu ]]; then
  refuse 2 "$tasks ranks on $nodes x $gpus GPUs would leave GPUs idle: sbatch --ntasks-per-node=$gpus, or fewer --gpus-per-node"
fi

DDP_TRAIN=$(choose_program "$root" "$gpus") || refuse 2 "$DDP_TRAIN"
export DDP_TRAIN

restarts=${SLURM_RESTART_COUNT:-0} max_restarts=${DDP_MAX_RESTARTS:-1000} requeue_within=${DDP_REQUEUE_WITHIN:-600}
for number in SLURM_RESTART_COUNT="$restarts" DDP_MAX_RESTARTS="$max_restarts" DDP_REQUEUE_WITHIN="$requeue_within"; do
  require_number "${number%%=*}" "${number#*=}"
done
folder=$(value_of options --output-dir)
folder=${folder:-$(in_config options --output-dir)}
if [[ -z $folder ]]; then
  folder=runs/slurm-$SLURM_JOB_ID
  options+=(--output-dir "$folder")
fi
began_from=$(newest_step "$folder")
if ((restarts > 0)); then
  remove_option options --inject # an injected fault occurs once
  ((began_from < 0)) || remove_option options --resume
fi
if [[ -z $(value_of options --resume) ]] && { ((restarts > 0)) || [[ -z $(in_config options --resume) ]]; }; then
  options+=(--resume auto)
fi

facts_of_job() { scontrol show job "$SLURM_JOB_ID" | tr ' ' '\n'; }

# Prints why Slurm stopped the job; fails if Slurm did not stop it.
stopped_by_slurm() {
  local facts end
  facts=$(facts_of_job)
  grep -qx 'JobState=RUNNING' <<<"$facts" || return 1 # cancelled
  if grep -q '^PreemptTime=[0-9]' <<<"$facts"; then
    echo 'was preempted'
    return
  fi
  end=$(sed -n 's/^EndTime=//p' <<<"$facts")
  { [[ -n $end ]] && end=$(date -d "$end" +%s 2>/dev/null); } || return 1 # no time limit
  ((end - EPOCHSECONDS <= requeue_within)) || return 1
  echo 'is near its time limit'
}

end_job() { # CODE
  local why newest resume_hint
  newest=$(newest_step "$folder")
  resume_hint="the same sbatch with --output-dir $folder resumes at step $newest"
  ((newest >= 0)) || resume_hint="there is no checkpoint yet"
  worth_a_restart "$1" || exit "$1"
  if ! why=$(stopped_by_slurm); then
    why="ended with $1"
    [[ $1 != 75 ]] || why='was asked to stop, neither preempted nor near its time limit'
    say "job $SLURM_JOB_ID $why: not requeued; $resume_hint"
  elif [[ $why == *limit ]] && ((newest <= began_from)); then
    say "job $SLURM_JOB_ID $why, and this start saved no newer checkpoint: not requeued; submit with a longer --time, or an earlier" \
      "--signal"
  elif ((restarts >= max_restarts)); then
    say "job $SLURM_JOB_ID $why, after $restarts restarts: not requeued; $resume_hint"
  else
    say "job $SLURM_JOB_ID $why: requeued; step $newest is saved"
    scontrol requeue "$SLURM_JOB_ID" || say "it cannot be requeued; $resume_hint"
  fi
  exit "$1"
}

run_job() {
  local code interrupted kills_before why
  kills_before=$(killed_for_memory)
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
  ((code == 0)) || ! why=$(explain_kills "$kills_before") || say "$why"
  end_job "$code"
}
