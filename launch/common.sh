# shellcheck shell=bash
# Sourced by the scripts that start ddp_train: which program that is, what its options say, and what its ends mean. ARRAY is
# the name of an array that holds its options, perhaps after a command.

# $DDP_TRAIN, else what launch/build has built in ROOT, with CUDA where there are GPUs and it was, else what the PATH has. Says
# what is wrong, and fails, where it cannot be run.
choose_program() { # ROOT GPUS
  local candidate program=${DDP_TRAIN:-} builds=("$1"/build/{cpu,cuda}/ddp_train)
  (($2 == 0)) || builds=("$1"/build/{cuda,cpu}/ddp_train)
  for candidate in "${builds[@]}" "$(command -v ddp_train || true)"; do
    [[ -n $program || ! -x $candidate ]] || program=$candidate
  done
  if [[ -z $program ]]; then
    echo "no ddp_train in $1/build: launch/build cpu (or cuda) builds it, or DDP_TRAIN names it"
    return 1
  elif [[ ! -x $(command -v "$program") ]]; then
    echo "DDP_TRAIN=$program cannot be run: it is missing or no program; unset it to take what launch/build has built"
    return 1
  fi
  echo "$program"
}

# Whether another run of the same might end otherwise than this one did.
worth_a_restart() { # CODE
  case $1 in 0 | 2 | 3 | 4 | 5 | 6 | 8 | 126 | 127) return 1 ;; esac
}

# The last value of an option, given as "--name value" or "--name=value".
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

# The value of an option in the file that --config names.
in_config() { # ARRAY NAME
  local config
  config=$(value_of "$1" --config)
  [[ -n $config ]] || return 0
  sed -nE "s/^[[:space:]]*${2#--}[[:space:]]*=[[:space:]]*[\"']([^\"']*)[\"'].*/\1/p" "$config" 2>/dev/null | tail -n 1
}

# The step of the newest checkpoint of a run's folder; -1: none.
newest_step() { # FOLDER
  local path newest=-1
  for path in "$1"/checkpoints/step-*; do
    [[ -d $path && $path =~ /step-([0-9]+)$ ]] || continue
    ((10#${BASH_REMATCH[1]} <= newest)) || newest=$((10#${BASH_REMATCH[1]}))
  done
  echo "$newest"
}
