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
