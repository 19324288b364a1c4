#include "report/network_drawing.h"

#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace ddp::report {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr double kBoxLeft = 24, kBoxRight = 664, kBoxHeight = 24, kBoxGap = 12;
constexpr double kFrameIndent = 10, kFrameHead = 20, kFrameFoot = 10;
constexpr double kLaneGap = 12, kFirstBox = 84;
constexpr size_t kMostLabel = 62, kDeepest = 12;  // deeper frames have no indent

// The colours of page.css, as values: not every reader of SVG knows variables.
constexpr const char* kDrawingStyle =
    "svg{background:#fbfbfa}"
    "text{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif;fill:#1d2126}"
    ".head{font-size:18px;font-weight:650}.soft{fill:#5c646e}.end{text-anchor:end}.name{font-weight:600}"
    ".box{fill:#fff;stroke:#c9cdd2}.frame{fill:#1d2126;fill-opacity:.025;stroke:#c9cdd2}"
    ".flow{fill:none;stroke:#5c646e;stroke-width:1.2}.branch{fill:none;stroke:#0072b2;stroke-width:1.4}"
    ".tip{fill:#5c646e}.tip.b{fill:#0072b2}"
    ".k0{fill:#0072b2}.k1{fill:#d55e00}.k2{fill:#009e73}.k3{fill:#aa4499}.k4{fill:#b07d00}.k5{fill:#3a9bd9}"
    ".k6{fill:#9aa1a9}"
    "@media(prefers-color-scheme:dark){svg{background:#14171a}text{fill:#e4e7ea}.soft{fill:#9aa4ae}"
    ".box{fill:#1b1f23;stroke:#30363c}.frame{fill:#e4e7ea;stroke:#30363c}.flow{stroke:#9aa4ae}.tip{fill:#9aa4ae}"
    ".branch{stroke:#56b4e9}.tip.b{fill:#56b4e9}}";

// Consecutive boxes of a block, and where it is drawn.
struct Frame {
  std::string prefix;  // of the names, without its last dot
  size_t depth = 0;
  double top = 0, bottom = 0;
};

struct Place {
  double y = 0, left = 0, right = 0;
  size_t label = 0;  // where the name begins that its frames do not have
};

struct Layout {
  std::vector<Place> places;
  std::vector<Frame> frames;
  double bottom = 0;
};

double indent_of(size_t depth) { return kFrameIndent * static_cast<double>(std::min(depth, kDeepest)); }

// The ends of the prefixes of a name: 6 and 8 of "layer1.0.conv1".
std::vector<size_t> prefixes_of(const std::string& name) {
  std::vector<size_t> ends;
  for (size_t at = name.find('.'); at != name.npos; at = name.find('.', at + 1)) ends.push_back(at);
  return ends;
}

// A block of one box has no frame of its own.
bool begins_frame(const std::vector<LayerBox>& boxes, size_t box, std::string_view prefix) {
  return box + 1 < boxes.size() && boxes[box + 1].name.size() > prefix.size() &&
         boxes[box + 1].name.starts_with(prefix) && boxes[box + 1].name[prefix.size()] == '.';
}

class Layouter {
 public:
  explicit Layouter(const std::vector<LayerBox>& boxes) : boxes_(boxes) {}

  Layout layout() {
    for (size_t box = 0; box < boxes_.size(); ++box) add(box);
    close_until([](const Frame&) { return false; });
    layout_.bottom = y_;
    return std::move(layout_);
  }

 private:
  void add(size_t box) {
    const std::string& name = boxes_[box].name;
    close_until([&](const Frame& frame) {
      return name.size() > frame.prefix.size() && name.starts_with(frame.prefix) && name[frame.prefix.size()] == '.';
    });
    for (const size_t end : prefixes_of(name)) {
      const size_t open = open_.empty() ? 0 : layout_.frames[open_.back()].prefix.size();
      if (end <= open && !open_.empty()) continue;
      const std::string prefix = name.substr(0, end);
      if (!begins_frame(boxes_, box, prefix)) continue;
      open_.push_back(layout_.frames.size());
      layout_.frames.push_back({.prefix = prefix, .depth = open_.size(), .top = y_});
      y_ += kFrameHead;
    }
    const double indent = indent_of(open_.size());
    layout_.places.push_back({.y = y_,
                              .left = kBoxLeft + indent,
                              .right = kBoxRight - indent,
                              .label = open_.empty() ? 0 : layout_.frames[open_.back()].prefix.size() + 1});
    y_ += kBoxHeight + kBoxGap;
  }

  // Closes the innermost frames up to the first one that `keeps` holds for.
  template <class Keeps>
  void close_until(Keeps keeps) {
    while (!open_.empty() && !keeps(layout_.frames[open_.back()])) {
      Frame& frame = layout_.frames[open_.back()];
      frame.bottom = y_ - kBoxGap + kFrameFoot;
      y_ = frame.bottom + kBoxGap;
      open_.pop_back();
    }
  }

  const std::vector<LayerBox>& boxes_;
  Layout layout_;
  std::vector<size_t> open_;  // frames, the outermost first
  double y_ = kFirstBox + kBoxHeight + kBoxGap;
};

// The readers of a value that do not stand right below it, and the lane beside the boxes that leads to them.
struct Branch {
  int from = 0;
  std::vector<int> to = {};
  size_t lane = 0;
};

std::vector<Branch> branches_of(const std::vector<LayerBox>& boxes) {
  std::vector<Branch> all(boxes.size() + 1);  // by source; the image first
  for (size_t box = 0; box < boxes.size(); ++box)
    for (const int input : boxes[box].inputs)
      if (input + 1 != static_cast<int>(box)) all[static_cast<size_t>(input + 1)].to.push_back(static_cast<int>(box));
  for (size_t k = 0; k < all.size(); ++k) all[k].from = static_cast<int>(k) - 1;
  std::erase_if(all, [](const Branch& branch) { return branch.to.empty(); });
  return all;
}

// From the last branch to the first, each takes the first lane that is free as far as it goes: a branch within another
// one is nearer to the boxes. Returns the number of lanes.
size_t choose_lanes(std::vector<Branch>& branches) {
  std::vector<int> starts;  // by lane: where its topmost branch starts
  for (auto branch = branches.rbegin(); branch != branches.rend(); ++branch) {
    const auto lane = std::ranges::find_if(starts, [&](int start) { return start >= branch->to.back(); });
    branch->lane = static_cast<size_t>(lane - starts.begin());
    if (lane == starts.end()) starts.push_back(0);
    starts[branch->lane] = branch->from;
  }
  return starts.size();
}

// A branch begins below the one that ends at the same box: they may have one lane.
double end_at(const Place& place) { return place.y + kBoxHeight / 3; }
double begin_at(const Place& place) { return place.y + 2 * kBoxHeight / 3; }

void draw_tip(Out out, double x, double y, bool down, bool branch) {
  const auto point = [](double a, double b) { return coordinate(a) + "," + coordinate(b); };
  fmt::format_to(out, "<polygon class=\"tip{}\" points=\"{} {} {}\"/>\n", branch ? " b" : "", point(x, y),
                 down ? point(x - 3.5, y - 6) : point(x + 6, y - 3.5),
                 down ? point(x + 3.5, y - 6) : point(x + 6, y + 3.5));
}

void draw_frame(Out out, const Frame& frame) {
  const double indent = indent_of(frame.depth - 1), left = kBoxLeft + indent, right = kBoxRight - indent;
  fmt::format_to(
      out,
      "<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/><text class=\"soft name\" "
      "x=\"{}\" y=\"{}\">{}</text>\n",
      coordinate(left), coordinate(frame.top), coordinate(right - left), coordinate(frame.bottom - frame.top),
      coordinate(left + 8), coordinate(frame.top + 14), label_html(frame.prefix, kMostLabel));
}

void draw_box(Out out, const LayerBox& box, const Place& place) {
  const std::string name = box.name.substr(place.label);
  const std::string sizes = box.size.empty() ? box.output : box.output + " · " + box.size;
  fmt::format_to(out,
                 "<g><title>{}: {}</title><rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\"/>"
                 "<rect class=\"k{}\" x=\"{}\" y=\"{}\" width=\"4\" height=\"{}\" rx=\"2\"/>",
                 html(box.name), html(box.what), coordinate(place.left), coordinate(place.y),
                 coordinate(place.right - place.left), coordinate(kBoxHeight), static_cast<int>(box.colour),
                 coordinate(place.left), coordinate(place.y), coordinate(kBoxHeight));
  const size_t left = name.empty() ? kMostLabel : kMostLabel - std::min<size_t>(name.size(), 24);
  fmt::format_to(out,
                 "<text x=\"{}\" y=\"{}\"><tspan class=\"name\">{}</tspan>{}{}</text><text class=\"soft end\" "
                 "x=\"{}\" y=\"{}\">{}</text></g>\n",
                 coordinate(place.left + 12), coordinate(place.y + 16), label_html(name, 24), name.empty() ? "" : "  ",
                 label_html(box.what, left), coordinate(place.right - 8), coordinate(place.y + 16), html(sizes));
}

void draw_legend(Out out) {
  constexpr std::pair<int, const char*> kKinds[] = {{0, "convolution"}, {1, "linear"}, {2, "norm"}, {3, "pool"},
                                                    {4, "attention"},   {5, "join"},   {6, "other"}};
  double x = kBoxLeft;
  for (const auto& [colour, name] : kKinds) {
    fmt::format_to(out,
                   "<rect class=\"k{}\" x=\"{}\" y=\"62\" width=\"10\" height=\"10\"/><text class=\"soft\" x=\"{}\" "
                   "y=\"71\">{}</text>",
                   colour, coordinate(x), coordinate(x + 15), name);
    x += 36 + 6.5 * static_cast<double>(std::string_view(name).size());
  }
}

}  // namespace

std::string draw_network(const NetworkDrawing& drawing) {
  const std::vector<LayerBox>& boxes = drawing.boxes;
  const Layout layout = Layouter(boxes).layout();
  std::vector<Branch> branches = branches_of(boxes);
  const double width = kBoxRight + 24 + kLaneGap * static_cast<double>(choose_lanes(branches)), height = layout.bottom;
  const Place image{.y = kFirstBox, .left = kBoxLeft, .right = kBoxRight};
  const auto place_of = [&](int box) -> const Place& {
    return box < 0 ? image : layout.places[static_cast<size_t>(box)];
  };

  std::string text;
  const Out out(text);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                 "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n",
                 coordinate(width), coordinate(height), html(drawing.title), kDrawingStyle);
  fmt::format_to(out,
                 "<text class=\"head\" x=\"{0}\" y=\"28\">{1}</text><text class=\"soft\" x=\"{0}\" y=\"47\">{2}</text>",
                 coordinate(kBoxLeft), label_html(drawing.title, kMostLabel), html(drawing.subtitle));
  draw_legend(out);
  for (const Frame& frame : layout.frames) draw_frame(out, frame);
  draw_box(out, {.name = drawing.input_name, .what = "", .output = drawing.input_shape, .size = ""}, image);
  for (size_t box = 0; box < boxes.size(); ++box) {
    const Place& place = layout.places[box];
    draw_box(out, boxes[box], place);
    const int above = static_cast<int>(box) - 1;
    if (std::ranges::find(boxes[box].inputs, above) == boxes[box].inputs.end()) continue;
    const double x = (kBoxLeft + kBoxRight) / 2;
    fmt::format_to(out, "<path class=\"flow\" d=\"M{} {}V{}\"/>", coordinate(x),
                   coordinate(place_of(above).y + kBoxHeight), coordinate(place.y));
    draw_tip(out, x, place.y, true, false);
  }
  for (const Branch& branch : branches) {
    const Place& from = place_of(branch.from);
    const double x = kBoxRight + 14 + kLaneGap * static_cast<double>(branch.lane);
    fmt::format_to(out, "<path class=\"branch\" d=\"M{} {}H{}V{}\"/>", coordinate(from.right),
                   coordinate(begin_at(from)), coordinate(x), coordinate(end_at(place_of(branch.to.back()))));
    for (const int reader : branch.to) {
      const Place& to = place_of(reader);
      fmt::format_to(out, "<path class=\"branch\" d=\"M{} {}H{}\"/>", coordinate(x), coordinate(end_at(to)),
                     coordinate(to.right));
      draw_tip(out, to.right, end_at(to), false, true);
    }
  }
  return text + "</svg>\n";
}

}  // namespace ddp::report
