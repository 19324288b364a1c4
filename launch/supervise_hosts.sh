# shellcheck shell=bash
# The hosts of a job; launch/supervise sources this file. Uses its `command`, `np_at`, say and refuse. Sets `hosts_at`,
# the index of the host list in `command`, empty if the command names no hosts.
#
# The command names the hosts with --hosts of launch/run or --host (-H) of mpirun. Before a restart the script probes
# all hosts in parallel through mpirun's remote shell. A restart leaves out hosts that do not answer, and uses them
# again when they answer.

hosts_at='' all_hosts=() share=1
probe_limit=10 # seconds

find_hosts() {
  local i entry
  for ((i = 0; i < ${#command[@]}; ++i)); do
    case ${command[i]} in
      --hosts=*) command=("${command[@]:0:i}" --hosts "${command[i]#*=}" "${command[@]:i+1}") ;;
      --hosts | --host | -host | -H) ;;
      *) continue ;;
    esac
    hosts_at=$((i + 1))
    break
  done
  [[ -n $hosts_at ]] || return 0
  IFS=, read -ra all_hosts <<<"${command[hosts_at]:-}"
  ((${#all_hosts[@]} > 0)) || refuse "${command[hosts_at - 1]} names no host"
  for entry in "${all_hosts[@]}"; do
    [[ $entry =~ ^[A-Za-z0-9_.-]+(:[1-9][0-9]{0,5})?$ ]] || refuse "${command[hosts_at - 1]} needs h1:4,h2:4, not \"${command[hosts_at]}\""
  done
}

# Without -np the number of ranks is the sum of the hosts' slots. An entry without a number has one slot; if no entry
# has a number, the hosts share -np equally.
divide_ranks() {
  [[ -n $hosts_at ]] || return 0
  if [[ -z $np_at ]]; then
    command=("${command[@]:0:hosts_at-1}" -np "$(slots_of "${all_hosts[@]}")" "${command[@]:hosts_at-1}")
    np_at=$hosts_at hosts_at=$((hosts_at + 2))
  fi
  [[ ${command[np_at]} =~ ^[1-9][0-9]{0,5}$ ]] || refuse "-np needs a number of ranks, not \"${command[np_at]}\""
  [[ ${command[hosts_at]} == *:* ]] || share=$(((command[np_at] + ${#all_hosts[@]} - 1) / ${#all_hosts[@]}))
}

# Prints the sum of the slots of these entries, such as h1:4.
slots_of() {
  local entry sum=0
  for entry; do
    case $entry in
      *:*) sum=$((sum + ${entry#*:})) ;;
      *) sum=$((sum + share)) ;;
    esac
  done
  echo "$sum"
}

# Prints the remote shell with its arguments that mpirun's settings select.
remote_shell() {
  local i agent=${OMPI_MCA_plm_rsh_agent:-} arguments=${OMPI_MCA_plm_rsh_args:-}
  for ((i = 0; i + 2 < ${#command[@]}; ++i)); do
    case "${command[i]} ${command[i + 1]}" in
      '--mca plm_rsh_agent' | '-mca plm_rsh_agent') agent=${command[i + 2]} ;;
      '--mca plm_rsh_args' | '-mca plm_rsh_args') arguments=${command[i + 2]} ;;
    esac
  done
  agent=${agent:-ssh -o BatchMode=yes}
  echo "${agent%%:*} $arguments"
}
is_here() {
  [[ $1 == localhost || $1 == 127.* || $1 == "$(uname -n)" || $1 == "$(uname -n | cut -d. -f1)" ]] ||
    [[ " $(hostname -I 2>/dev/null) " == *" $1 "* ]]
}

# Prints the entries of the hosts that answer.
hosts_that_answer() {
  local entry shell pids=() k=0
  read -ra shell <<<"$(remote_shell)"
  for entry in "${all_hosts[@]}"; do
    if is_here "${entry%%:*}"; then
      true &
    else
      timeout -k 1 "$probe_limit" "${shell[@]}" "${entry%%:*}" true </dev/null >/dev/null 2>&1 &
    fi
    pids+=($!)
  done
  for entry in "${all_hosts[@]}"; do
    ! wait "${pids[k++]}" || echo "$entry"
  done
}

in_list() { [[ ",$1," == *",$2,"* ]]; }

# Sets the answering hosts, and the number of ranks that fit on them, in the command. Fails if the hosts have too few
# slots.
choose_hosts() { # WANTED_NP LEAST_NP
  local entry before=${command[hosts_at]} now np
  local answering
  mapfile -t answering < <(hosts_that_answer)
  now=$(IFS=,; echo "${answering[*]}")
  for entry in "${all_hosts[@]}"; do
    in_list "$now" "$entry" || say "host ${entry%%:*} does not answer through \"$(remote_shell | xargs)\""
    in_list "$before" "$entry" || ! in_list "$now" "$entry" || say "host ${entry%%:*} answers again"
  done
  np=$(slots_of "${answering[@]}")
  ((np <= $1)) || np=$1
  command[hosts_at]=$now
  command[np_at]=$np
  if ((np < $2)); then
    say "the answering hosts have room for $np ranks, fewer than $2 (--min-np): waits for more hosts"
    return 1
  fi
  [[ $now == "$before" ]] || say "continues with $now: $np ranks"
}
