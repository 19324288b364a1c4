// The place of a training's batches.
#pragma once

#include "train/step/device_dataset.h"
#include "train/step/replica.h"

namespace ddp {

// `placement` for the batches of a training: they have the mix and the class weights of the replica, and their ids
// travel with its step's block. The replica outlives the result.
inline DataPlacement of_training(DataPlacement placement, const Replica& replica) {
  placement.ids = replica.block.ids().data();
  placement.mix = replica.batch_mix();
  placement.class_weights = replica.class_weights;
  return placement;
}

}  // namespace ddp
