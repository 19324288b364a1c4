// A trained network as an ONNX model: operator set 13 and IR version 7, which ONNX 1.8 and later read; with a layer
// norm operator set 17 and IR version 8, which ONNX 1.12 and later read.
//
// The batch size is free. Initializers have the names of PyTorch's tensors, nodes those of its layers.
//
//   input   f32 (batch, channels, height, width): normalized pixels, x = pixel * scale + shift of each channel;
//           with `bytes`: u8 (batch, height, width, channels), the pixels themselves, which the graph normalizes
//   logits  f32 (batch, classes)
//
// Of a network that reads tokens, the length of the sequence is free too where no position reads later ones:
//
//   input   i64 (batch, sequence): tokens
//   logits  f32 (batch, sequence, size of the vocabulary): of the token that follows each one
//
// The messages are those of ONNX's own onnx.proto, compiled for protobuf's lite runtime, which the event files use too.
// libonnx would link protobuf's full runtime, and two runtimes in one process define the same symbols.
#pragma once

#include "app/commands/export/exported_network.h"
#include "checkpoint/safetensors.h"
#include "nn/parameters.h"
#include "ops/input_transform.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// Throws Error(Exit::usage) where `bytes` bytes are more than an ONNX file may have, which is 2 GiB less one byte.
void require_onnx_holds(int64_t bytes);

// Returns the bytes of the file. `bytes`: the normalization, for an input of bytes, not of tokens. `metadata` go to
// metadata_props. The tensors have values for all layers. Throws Error(Exit::usage) as above, and Error(Exit::model)
// for a layer that needs an image but reads features, and for an adaptive pooling whose windows have several sizes.
std::string onnx_model(const ExportedNetwork& exported, const std::optional<PixelScale>& bytes,
                       const Metadata& metadata);

}  // namespace ddp
