// Where everything in the picture of `hymn topo` stands: values between the model and the drawing.
#pragma once

#include <string>
#include <vector>

#include "tools/svg_sheet.hpp"
#include "tools/topo/view.hpp"

namespace hymn {

enum class BlockKind : unsigned char {
  host,
  package,
  numa,
  cache,
  core,
  cores,  ///< many cores, counted instead of drawn
  gpu,
  nics,
  nic,
  nv_switch,
  pcie_switch,
  rank,
  more,  ///< what there was no room for, counted
};

enum class WireKind : unsigned char { pcie, nvlink };

/// A line along `points`, at right angles.
struct Wire {
  WireKind kind = WireKind::pcie;
  std::vector<Point> points;
  double bandwidth = 0;  ///< bytes per second; 0: not known
  std::string label;
  Point label_at;  ///< its middle
};

/// A box with whatever lies in it. Children lie inside their parent and do not overlap.
struct Block {
  BlockKind kind = BlockKind::host;
  Box box;
  std::string label;
  std::string detail;
  std::string tip;  ///< what is told of it where the mouse points at it
  int number = -1;  ///< of a rank; of the rank that names a core; index of a GPU
  int tone = -1;    ///< of the rank whose it is; -1: nobody's
  int sharers = 0;  ///< ranks that may run on this core
  bool granted = true;
  std::vector<Block> children{};
  std::vector<Wire> wires{};
};

/// One line of the legend.
struct LegendEntry {
  enum class Sign : unsigned char { free_core, rank_core, shared_core, lost_core, rank, wire };
  Sign sign = Sign::free_core;
  Wire wire{};
  std::string text;
  Point at{};  ///< left middle of the sign
};

struct TopoLayout {
  double width = 0;
  double height = 0;
  std::string title;
  std::string subtitle;
  std::vector<std::string> notes;  ///< at the foot: limits, and what is not shown
  double notes_y = 0;
  std::vector<Block> hosts;
  std::vector<LegendEntry> legend;
};

TopoLayout lay_out(const TopoView& view);

/// How wide a link of that bandwidth is drawn; the same in all pictures.
double wire_width(double bytes_per_second);

/// How the text of a block is set, and the room that it takes away from its children.
struct BlockStyle {
  double label_size = 0;
  double detail_size = 0;
  double head = 0;     ///< height of the label and the detail
  double padding = 0;  ///< around the children
};
BlockStyle style_of(BlockKind kind);
/// The head's height of this block: less where there is no detail.
double head_of(const Block& block);

}  // namespace hymn
