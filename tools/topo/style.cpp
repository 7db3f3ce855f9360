// Sizes of letters, heads and lines in the picture.
#include <algorithm>
#include <cmath>

#include "tools/topo/layout.hpp"

namespace hymn {

double wire_width(double bytes_per_second) {
  if (!(bytes_per_second > 0)) return 1.0;
  return std::clamp(0.5 + std::log2(bytes_per_second / 8e9), 1.0, 8.0);
}

BlockStyle style_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::host:
      return {15, 10.5, 46, 16};
    case BlockKind::package:
      return {11.5, 9, 34, 9};
    case BlockKind::numa:
      return {9.5, 8.5, 20, 7};
    case BlockKind::cache:
      return {8, 8, 14, 5};
    case BlockKind::cores:
      return {10, 8.5, 32, 0};
    case BlockKind::gpu:
      return {10.5, 8.5, 34, 6};
    case BlockKind::nics:
      return {8, 8, 14, 4};
    case BlockKind::nic:
      return {8.5, 8.5, 16, 0};
    case BlockKind::nv_switch:
      return {9.5, 9.5, 18, 0};
    case BlockKind::pcie_switch:
      return {8, 8, 13, 0};
    case BlockKind::core:
      return {7.5, 7.5, 0, 0};
    case BlockKind::rank:
      return {8.5, 8.5, 15, 0};
    case BlockKind::more:
      return {9, 9, 18, 0};
  }
  return {};
}

double head_of(const Block& block) {
  const BlockStyle style = style_of(block.kind);
  // Host, package and GPU have a second line, where there is something to say.
  const bool two_lines = block.kind == BlockKind::host || block.kind == BlockKind::package ||
                         block.kind == BlockKind::gpu || block.kind == BlockKind::cores;
  if (block.kind == BlockKind::host && block.label.empty()) return style.padding;
  return two_lines && block.detail.empty() ? style.head - style.detail_size - 4 : style.head;
}

}  // namespace hymn
