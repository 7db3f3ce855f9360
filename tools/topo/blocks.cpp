// Puts blocks of the picture together in rows and columns.
#include "tools/topo/blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hymn {

namespace {

constexpr double badge_width = 26;
constexpr double widest_label = 330;  // a longer one is cut, not given its room
constexpr int tones = 4;

double width_for_text(const Block& block) {
  const BlockStyle style = style_of(block.kind);
  const bool one_line = block.kind == BlockKind::numa;
  const double label = text_width(block.label, style.label_size, true);
  const double detail = text_width(block.detail, style.detail_size);
  const double text = one_line ? label + detail + 8 : std::max(label, detail);
  return std::min(text, widest_label) + 2 * std::max(style.padding, 5.0);
}

}  // namespace

void move_by(Block& block, double dx, double dy) {
  const auto move = [&](Point& point) {
    point.x += dx;
    point.y += dy;
  };
  block.box.x += dx;
  block.box.y += dy;
  for (Wire& wire : block.wires) {
    std::for_each(wire.points.begin(), wire.points.end(), move);
    move(wire.label_at);
  }
  for (Block& child : block.children) move_by(child, dx, dy);
}

std::size_t columns_for(std::size_t count, double ideal) {
  if (count < 2) return 1;
  const auto least = static_cast<std::size_t>(std::ceil(ideal));
  for (std::size_t columns = least; static_cast<double>(columns) <= 2 * ideal; ++columns)
    if (count % columns == 0) return columns;
  return std::clamp<std::size_t>(least, 1, count);
}

Box put_in_grid(std::vector<Block>& blocks, std::size_t columns, double gap, Point corner) {
  columns = std::max<std::size_t>(columns, 1);
  double width = 0;
  for (const Block& block : blocks) width = std::max(width, block.box.width);
  double y = corner.y;
  double right = corner.x;
  for (std::size_t begin = 0; begin < blocks.size(); begin += columns) {
    const std::size_t end = std::min(begin + columns, blocks.size());
    double height = 0;
    for (std::size_t i = begin; i < end; ++i) height = std::max(height, blocks[i].box.height);
    for (std::size_t i = begin; i < end; ++i) {
      Block& block = blocks[i];
      const double x = corner.x + static_cast<double>(i - begin) * (width + gap);
      move_by(block, x - block.box.x, y - block.box.y);
      block.box.width = width;
      block.box.height = height;
      right = std::max(right, block.box.right());
    }
    y += height + (end < blocks.size() ? gap : 0);
  }
  return {corner.x, corner.y, right - corner.x, y - corner.y};
}

double room_in(BlockKind parent, double width, std::size_t columns, double gap) {
  const auto count = static_cast<double>(std::max<std::size_t>(columns, 1));
  return std::max(0.0, (width - 2 * style_of(parent).padding - (count - 1) * gap) / count);
}

void stack_sections(Block& block, std::vector<Section> sections, double least_width) {
  const BlockStyle style = style_of(block.kind);
  std::erase_if(sections, [](const Section& section) { return section.blocks.empty(); });
  double widest = std::max(width_for_text(block), least_width) - 2 * style.padding;
  for (Section& section : sections)
    if (section.columns > 0)
      widest =
          std::max(widest, put_in_grid(section.blocks, section.columns, section.gap, {}).width);
  double y = head_of(block);
  for (Section& section : sections) {
    const BlockKind kind = section.blocks.front().kind;
    const double step = section.blocks.front().box.width + section.gap;
    const auto fitting = static_cast<std::size_t>((widest + section.gap) / step);
    if (section.columns == 0)
      section.columns = std::max(fitting, std::min<std::size_t>(4, section.blocks.size()));
    const std::size_t columns = std::min(section.columns, section.blocks.size());
    if (kind != BlockKind::core && kind != BlockKind::rank)
      section.blocks.front().box.width =
          room_in(block.kind, widest + 2 * style.padding, columns, section.gap);
    const Box grid = put_in_grid(section.blocks, columns, section.gap, {style.padding, y});
    widest = std::max(widest, grid.width);
    y = grid.bottom() + style.padding;
  }
  if (sections.empty()) y += style.padding;
  for (Section& section : sections)
    for (Block& child : section.blocks) block.children.push_back(std::move(child));
  block.box = {0, 0, widest + 2 * style.padding, y};
}

Section rank_badges(const std::vector<RankPlace>& places, const std::vector<std::size_t>& which,
                    std::size_t most) {
  std::vector<Block> badges;
  for (const std::size_t i : which) {
    Block badge;
    badge.kind = BlockKind::rank;
    badge.box = {0, 0, badge_width, style_of(BlockKind::rank).head};
    badge.label = std::to_string(places[i].rank);
    badge.number = places[i].rank;
    badge.tone = tone_of(places[i]);
    badge.tip = tip_of(places[i]);
    badges.push_back(std::move(badge));
  }
  limit_to(badges, most, "");
  return {std::move(badges), 0, 3};
}

void limit_to(std::vector<Block>& blocks, std::size_t most, std::string_view noun) {
  if (blocks.size() <= most) return;
  const std::size_t left_out = blocks.size() - most + 1;
  Block more;
  more.kind = BlockKind::more;
  more.box = blocks.front().box;
  more.label = noun.empty() ? fmt::format("+{}", left_out)
                            : fmt::format("and {} more", counted(left_out, noun));
  more.box.width = std::max(more.box.width, noun.empty() ? 0 : width_for_text(more));
  blocks.resize(most - 1);
  blocks.push_back(std::move(more));
}

int tone_of(const RankPlace& place) { return std::max(place.local_rank, 0) % tones; }

std::string tip_of(const RankPlace& place) {
  std::string tip = fmt::format("rank {}: CPUs {}", place.rank, place.cpus.to_string());
  if (place.gpu >= 0) tip += fmt::format(", GPU {}", place.gpu);
  if (place.core_sharers > 1) tip += fmt::format(", shares cores with {}", place.core_sharers - 1);
  return tip;
}

}  // namespace hymn
