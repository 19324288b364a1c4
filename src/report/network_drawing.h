// The drawing of a network as an SVG file: a box for each layer, from top to bottom, in the frames of its blocks.
#pragma once

#include <string>
#include <vector>

namespace ddp::report {

// A layer with what is fused into it. All texts may be any text.
struct LayerBox {
  enum class Colour { convolution, linear, norm, pool, attention, join, other };

  std::string name;          // with the names of its blocks before it, with dots between
  std::string what;          // such as "conv2d 64, 3 x 3"
  std::string output, size;  // its shape; its parameters, may be empty
  Colour colour = Colour::other;
  std::vector<int> inputs = {};  // boxes before this one, by index; -1: the input
};

struct NetworkDrawing {
  std::string title, subtitle, input_shape;
  std::vector<LayerBox> boxes;
  std::string input_name = "image";
};

// A drawing grows with the number of boxes that are open at once; more are no drawing that anyone reads.
inline constexpr size_t kMostBoxes = 10'000;

// One XML document with its own style, which needs no other file.
std::string draw_network(const NetworkDrawing& drawing);

}  // namespace ddp::report
