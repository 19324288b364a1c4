// Command lines for tests of options.
#pragma once

#include "app/options/options.h"

#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {

inline std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

inline Options parse(const std::string& line, std::string* answered = nullptr) {
  std::vector<std::string> arguments = words("ddp_train " + line);
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::optional<std::string> answer;
  const Options options = parse_options(static_cast<int>(argv.size()), argv.data(), answer);
  if (answered) *answered = answer.value_or("");
  return options;
}

// Each configurable option with a value that is not its default, and with the options that it needs.
inline const std::vector<std::string> kLines{
    "--model resnet18",
    "--model nets/mine.toml",
    "--dataset mnist",
    "--data-path /some/where --labels labels.csv",
    "--val-split 0.25",
    "--dataset cifar100 --coarse-labels",
    "--train-transform resize-crop --train-crop-size 96 --val-resize-size 128 --val-crop-size 96",
    "--rrc-scale 0.2,1 --rrc-ratio 0.5,2",
    "--interpolation bicubic",
    "--crop-padding 4 --padding-mode reflect",
    "--hflip alternate",
    "--hflip 0.25",
    "--auto-augment ta_wide --interpolation nearest",
    "--auto-augment ra --ra-magnitude 12",
    "--random-erase 0.1",
    "--mean 0.5 --std 0.2,0.3,0.4",
    "--mean imagenet",
    "--channels 1",
    "--exif ignore",
    "--alpha white",
    "--workers 3",
    "--check-data full --on-error skip",
    "--train-samples 5",
    "--dataset tokens --sequence-length 64 --vocab-size 257 --vocabulary bytes --token-type uint32",
    "--init normal:0.5",
    "--init glorot",
    "--init-from weights.safetensors",
    "--init-from weights.safetensors --new-head",
    "--freeze 0,3.bias",
    "--batch-size 100 --accumulate 4",
    "--epochs 7",
    "--max-steps 9",
    "--seed 3",
    "--eval-every 0",
    "--early-stop 3",
    "--model-ema --model-ema-decay 0.9 --model-ema-steps 4",
    "--label-smoothing 0.1",
    "--mixup-alpha 0.2 --cutmix-alpha 1",
    "--label-weights balanced",
    "--clip-grad-norm 2.5",
    "--skip-bad-steps 3",
    "--sync-bn",
    "--bn-stats recompute",
    "--optimizer sgd --momentum 0.9 --nesterov --weight-decay 0.0001 --decay decoupled --no-decay-bias-norm",
    "--optimizer adam --adam-beta1 0.8 --adam-beta2 0.99 --adam-epsilon 1e-06",
    "--optimizer adamw --weight-decay 0.01",
    "--optimizer lars --momentum 0.9 --lars-trust 0.02 --no-decay-bias-norm",
    "--group fc.*:momentum=0.8:lr=1e-1:weight-decay=0/conv1.*:lr=1e-3 --head-lr 0.1",
    "--lr 0.05 --lr-scale sqrt --lr-base-batch 64",
    "--lr-scheduler step --lr-step-size 2.5 --lr-gamma 0.3",
    "--lr-scheduler multistep --lr-milestones 3,6.5",
    "--lr-scheduler multistep --lr-milestones 3",
    "--lr-scheduler cosineannealinglr --lr-min 0.001 --epochs 7",
    "--lr-scheduler linear --lr-warmup-epochs 2 --lr-warmup-method constant --lr-warmup-decay 0.5",
    "--lr-scheduler polynomial --lr-power 0.9",
    "--lr-scheduler onecycle --lr-pct-start 0.4 --lr-div-factor 10 --lr-final-div-factor 100 --lr-anneal linear",
    "--lr-scheduler plateau --lr-plateau-metric acc --lr-plateau-patience 2 --lr-plateau-threshold 0.01 "
    "--lr-plateau-cooldown 1",
    "--device cpu",
    "--threads 2",
    "--rank-weights 2,1",
    "--allreduce ring",
    "--precision bf16",
    "--conv direct",
    "--cpu-isa v3",
    "--transport mpi",
    "--nccl-algo ring",
    "--grad-dtype bf16",
    "--grad-dtype int8",
    "--zero 1",
    "--share-gpu",
    "--deterministic",
    "--no-graph",
    "--programmatic-launch",
    "--engine-seconds 2.5",
    "--engine-file engines.json",
    "--device-data-mb 12",
    "--step-timeout 1.5",
    "--bucket-cap-mb 2.5",
    "--first-bucket-mb .5",
    "--check-every 7",
    "--save-every 10min",
    "--keep-last 0",
    "--keep-best",
    "--resume runs/1",
    "--output-dir 007",
    "--print-freq 0",
    "--progress bar",
    "--trace trace.json --trace-steps 5:9",
    "--tensorboard",
    "--metrics-port 9400 --metrics-address 0.0.0.0"};

}  // namespace ddp
