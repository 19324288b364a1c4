# shellcheck shell=bash
# Functions for the scripts that start ddp_train: choose the program, read its options, and interpret its exit code.
# Source this file. ARRAY is the name of an array with the options of ddp_train; a command may precede them.

# Prints the program to run: $DDP_TRAIN, else the build in ROOT (the CUDA build first if GPUS > 0), else ddp_train of
# the PATH. If there is none that can run, prints the error instead and returns 1.
choose_program() { # ROOT GPUS
  local candidate program=${DDP_TRAIN:-} builds=("$1"/build/{cpu,cuda}/ddp_train)
  (($2 == 0)) || builds=("$1"/build/{cuda,cpu}/ddp_train)
  for candidate in "${builds[@]}" "$(command -v ddp_train || true)"; do
    [[ -n $program || ! -x $candidate ]] || program=$candidate
  done
  if [[ -z $program ]]; then
    echo "no ddp_train in $1/build: build it with launch/build cpu (or cuda), or set DDP_TRAIN to its path"
    return 1
  elif [[ ! -x $(command -v "$program") ]]; then
    echo "DDP_TRAIN=$program cannot be run: the file is missing or not executable; unset DDP_TRAIN to use the program of launch/build"
    return 1
  fi
  echo "$program"
}

# True if a restart of the same job may succeed after this exit code.
worth_a_restart() { # CODE
  case $1 in 0 | 2 | 3 | 4 | 5 | 6 | 8 | 126 | 127) return 1 ;; esac
}

# Prints the last value of an option, which is given as "--name value" or "--name=value".
value_of() { # ARRAY NAME
  local -n _array=$1
  local i value=''
  for ((i = 0; i < ${#_array[@]}; ++i)); do
    case ${_array[i]} in
      "$2") value=${_array[i + 1]:-} ;;
      "$2"=*) value=${_array[i]#*=} ;;
    esac
  done
  echo "$value"
}

remove_option() { # ARRAY NAME
  local -n _array=$1
  local i kept=()
  for ((i = 0; i < ${#_array[@]}; ++i)); do
    case ${_array[i]} in
      "$2") ((++i)) ;;
      "$2"=*) ;;
      *) kept+=("${_array[i]}") ;;
    esac
  done
  _array=("${kept[@]}")
}

# Prints the value of an option in the file that --config names.
in_config() { # ARRAY NAME
  local config
  config=$(value_of "$1" --config)
  [[ -n $config ]] || return 0
  sed -nE "s/^[[:space:]]*${2#--}[[:space:]]*=[[:space:]]*[\"']([^\"']*)[\"'].*/\1/p" "$config" 2>/dev/null | tail -n 1
}

# Prints the step of the newest checkpoint in a run's folder; -1 if there is none.
newest_step() { # FOLDER
  local path newest=-1
  for path in "$1"/checkpoints/step-*; do
    [[ -d $path && $path =~ /step-([0-9]+)$ ]] || continue
    ((10#${BASH_REMATCH[1]} <= newest)) || newest=$((10#${BASH_REMATCH[1]}))
  done
  echo "$newest"
}

# When the reader of a pipe ends, as in `... | head -1`, mpirun would crash, and a script would die. outlive_readers
# puts a process between this script with its later commands and such a pipe; that process reads on. The end of the
# script waits until that process has written everything, at most ten seconds: a process that a command has left, such as
# the master of ssh's connections, may hold the pipe. `outlets`: the ids of such processes.
outlets=()
outlive_readers() {
  is_pipe() { [[ -p /dev/fd/$1 || -S /dev/fd/$1 ]]; }
  if is_pipe 2 && [[ ! /dev/fd/1 -ef /dev/fd/2 ]]; then
    exec 2> >(read_to_the_end >&2)
    outlets+=($!)
  fi
  if is_pipe 1; then
    if [[ /dev/fd/1 -ef /dev/fd/2 ]]; then exec > >(read_to_the_end) 2>&1; else exec > >(read_to_the_end); fi
    outlets+=($!)
  fi
  ((${#outlets[@]} == 0)) || trap wait_for_outlets EXIT
}
read_to_the_end() {
  trap '' HUP INT QUIT TERM PIPE
  cat 2>/dev/null || cat >/dev/null
}
wait_for_outlets() {
  local outlet end=$((SECONDS + 10))
  exec >/dev/null 2>&1
  for outlet in "${outlets[@]}"; do
    while ((SECONDS < end)) && kill -0 "$outlet"; do sleep 0.02; done
  done
}

# Prints a file of this script's memory control group: in cgroup v2 NAME, in v1 OLD_NAME. Prints nothing if there is
# none. DDP_SYSTEM_ROOT is the root of the file system, for tests.
memory_control() { # NAME OLD_NAME
  local controllers group file root=${DDP_SYSTEM_ROOT:-}
  while IFS=: read -r _ controllers group; do
    case ,$controllers, in
      ,,) file=$root/sys/fs/cgroup$group/$1 ;;
      *,memory,*) file=$root/sys/fs/cgroup/memory$group/$2 ;;
      *) continue ;;
    esac
    [[ ! -r $file ]] || cat "$file"
  done 2>/dev/null <"$root/proc/self/cgroup"
}

# Prints how many processes of this control group the kernel has killed because memory was short.
killed_for_memory() {
  memory_control memory.events memory.oom_control | awk '$1 == "oom_kill" { n += $2 } END { print n + 0 }'
}

# Explains the 137 of a job: prints a line if such kills have occurred since there were BEFORE; else fails.
explain_kills() { # BEFORE
  local kills limit
  kills=$(($(killed_for_memory) - $1))
  ((kills > 0)) || return 1
  limit=$(memory_control memory.max memory.limit_in_bytes | grep -m1 -E '^[0-9]{1,18}$') || true
  echo "the kernel killed $kills process(es) because memory was short (oom_kill in memory.events${limit:+; the limit is $((limit >> 20)) MiB}):" \
    "use a smaller --batch-size or fewer ranks on a host, or raise the limit"
}
