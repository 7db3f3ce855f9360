// Draws the layout. Colours differ in lightness as well as in hue, and every rank has its number,
// so that the picture can be read in grey and by the colour-blind.
#include "tools/topo/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace hymn {

namespace {

using Sign = LegendEntry::Sign;

constexpr std::string_view pcie_ink = "#9aa5b1";
constexpr std::string_view nvlink_ink = "#3f6b4f";

/// Fill and letters of a rank's colour; dark and light alternate.
struct Tone {
  std::string_view fill;
  std::string_view text;
};
constexpr std::array<Tone, 4> rank_tones{
    {{"#2f5f8f", "#ffffff"}, {"#e9b872", ink}, {"#6d4a7e", "#ffffff"}, {"#93c2b4", ink}}};
constexpr Tone shared_tone{"#c3cad3", ink};

Look look_of(const Block& block) {
  const auto tone = static_cast<std::size_t>(block.tone);
  switch (block.kind) {
    case BlockKind::host:
      return {"#ffffff", "#9aa5b1", 10};
    case BlockKind::package:
      return {"#eef1f5", "#cbd2d9", 7};
    case BlockKind::numa:
      return {"#f9fafb", "#d5dbe2", 5};
    case BlockKind::cache:
      return {"none", "#d5dbe2", 4};
    case BlockKind::core:
      if (block.tone >= 0) return {rank_tones[tone].fill, "none", 3};
      if (block.sharers > 1) return {shared_tone.fill, "none", 3};
      return {block.granted ? "#ffffff" : "none", block.granted ? "#9aa5b1" : "#cbd2d9", 3};
    case BlockKind::cores:
      return {"#ffffff", "#9aa5b1", 4};
    case BlockKind::gpu:
      return {"#dcebe0", "#6b9279", 6};
    case BlockKind::nics:
      return {"none", "none", 0};
    case BlockKind::nic:
      return {"#f3efe6", "#c9bfa5", 4};
    case BlockKind::nv_switch:
      return {nvlink_ink, "none", 5};
    case BlockKind::pcie_switch:
      return {"#e4e7eb", "#9aa5b1", 4};
    case BlockKind::rank:
      return {rank_tones[tone].fill, "none", 7};
    case BlockKind::more:
      return {"none", "#9aa5b1", 4};
  }
  return {};
}

std::string_view class_of(BlockKind kind) {
  constexpr std::array<std::string_view, 13> names{
      "host", "package", "numa",     "cache",       "core", "cores", "gpu",
      "nics", "nic",     "nvswitch", "pcie-switch", "rank", "more"};
  return names[static_cast<std::size_t>(kind)];
}

class SvgWriter : SvgSheet {
 public:
  std::string write(const TopoLayout& page);

 private:
  void wire(const Wire& wire);
  void wire_label(const Wire& wire);
  void block(const Block& block, BlockKind parent);
  void block_words(const Block& block);
  void lost_cross(const Box& box);
  void legend(const LegendEntry& entry);
};

// Corners are rounded as far as the shorter of the two lines at them allows.
void SvgWriter::wire(const Wire& wire) {
  if (wire.points.size() < 2) return;
  constexpr double radius = 6;
  put(R"(<path d="M{:.5g} {:.5g})", wire.points[0].x, wire.points[0].y);
  for (std::size_t i = 1; i < wire.points.size(); ++i) {
    const Point& here = wire.points[i];
    if (i + 1 == wire.points.size()) {
      put("L{:.5g} {:.5g}", here.x, here.y);
      break;
    }
    const auto near = [&](const Point& other) {
      const double dx = other.x - here.x;
      const double dy = other.y - here.y;
      const double length = std::max(std::abs(dx) + std::abs(dy), 1e-9);
      const double share = std::min(radius, length / 2) / length;
      return Point{here.x + dx * share, here.y + dy * share};
    };
    const Point before = near(wire.points[i - 1]);
    const Point after = near(wire.points[i + 1]);
    put("L{:.5g} {:.5g}Q{:.5g} {:.5g} {:.5g} {:.5g}", before.x, before.y, here.x, here.y, after.x,
        after.y);
  }
  put(R"(" fill="none" stroke="{}" stroke-width="{:.3g}"/>)",
      wire.kind == WireKind::nvlink ? nvlink_ink : pcie_ink, wire_width(wire.bandwidth));
  put("\n");
}

void SvgWriter::wire_label(const Wire& wire) {
  if (wire.label.empty()) return;
  const double width = text_width(wire.label, 8) + 4;
  rectangle({wire.label_at.x - width / 2, wire.label_at.y - 5, width, 10}, {"#ffffff", "none", 2});
  text({wire.label_at.x, wire.label_at.y + 3}, "middle", 8, nvlink_ink, false, wire.label);
}

void SvgWriter::lost_cross(const Box& box) {
  put(R"(<path d="M{:.5g} {:.5g}L{:.5g} {:.5g}" stroke="#9aa5b1"/>)", box.x + 4, box.bottom() - 4,
      box.right() - 4, box.y + 4);
  put("\n");
}

void SvgWriter::block_words(const Block& block) {
  const BlockStyle style = style_of(block.kind);
  const Box& box = block.box;
  const bool centred = block.kind == BlockKind::core || block.kind == BlockKind::rank ||
                       block.kind == BlockKind::nv_switch || block.kind == BlockKind::pcie_switch ||
                       block.kind == BlockKind::more || block.kind == BlockKind::nic;
  if (centred) {
    std::string_view colour = block.kind == BlockKind::nv_switch ? "#ffffff" : ink;
    if (block.tone >= 0) colour = rank_tones[static_cast<std::size_t>(block.tone)].text;
    double size = style.label_size;
    if (block.kind == BlockKind::core)
      size = std::min(size, size * (box.width - 1) / text_width(block.label, size, true));
    const bool bold = block.kind != BlockKind::nic && block.kind != BlockKind::pcie_switch;
    text({box.middle(), box.y + box.height / 2 + size * 0.36}, "middle", size, colour, bold,
         block.kind == BlockKind::core ? block.label : fitted(block.label, size, box.width, bold));
    return;
  }
  const double left = box.x + std::max(style.padding, 5.0);
  const double room = box.width - 2 * std::max(style.padding, 5.0);
  const bool bold = block.kind != BlockKind::cache && block.kind != BlockKind::nics;
  const double base = box.y + (block.kind == BlockKind::host ? 22 : style.label_size + 4);
  const std::string label = fitted(block.label, style.label_size, room, bold);
  text({left, base}, "start", style.label_size, bold ? ink : quiet_ink, bold, label);
  if (block.kind == BlockKind::numa) {
    const double used = text_width(label, style.label_size, true) + 6;
    text({left + used, base}, "start", style.detail_size, quiet_ink, false,
         fitted(block.detail, style.detail_size, room - used));
  } else {
    text({left, base + style.detail_size + 5}, "start", style.detail_size, quiet_ink, false,
         fitted(block.detail, style.detail_size, room));
  }
}

void SvgWriter::block(const Block& block, BlockKind parent) {
  // A rank's badge on a GPU is told from the rank's place on the cores.
  const bool on_gpu = block.kind == BlockKind::rank && parent == BlockKind::gpu;
  put(R"(<g class="{}")", on_gpu ? "gpu-rank" : class_of(block.kind));
  const bool shows_rank = block.kind == BlockKind::rank || block.kind == BlockKind::core;
  if (block.number >= 0)
    put(R"( data-{}="{}")", on_gpu ? "gpu-rank" : shows_rank ? "rank" : "gpu", block.number);
  put(">");
  if (!block.tip.empty()) put("<title>{}</title>", xml_escaped(block.tip));
  put("\n");
  const bool lost = block.kind == BlockKind::core && !block.granted;
  rectangle(block.box, look_of(block), block.kind == BlockKind::more || lost);
  if (lost) lost_cross(block.box);
  for (const Wire& each : block.wires) wire(each);
  for (const Wire& each : block.wires) wire_label(each);
  block_words(block);
  for (const Block& child : block.children) this->block(child, block.kind);
  put("</g>\n");
}

void SvgWriter::legend(const LegendEntry& entry) {
  Block sign;
  sign.kind = entry.sign == Sign::rank ? BlockKind::rank : BlockKind::core;
  sign.box = {entry.at.x, entry.at.y - 7, 16, 14};
  switch (entry.sign) {
    case Sign::wire: {
      Wire sample = entry.wire;
      sample.points = {entry.at, {entry.at.x + 20, entry.at.y}};
      wire(sample);
      break;
    }
    case Sign::rank:
    case Sign::rank_core:
      rectangle(sign.box, {rank_tones[0].fill, "none", entry.sign == Sign::rank ? 7.0 : 3.0});
      break;
    case Sign::shared_core:
      rectangle(sign.box, {shared_tone.fill, "none", 3});
      text({sign.box.middle(), entry.at.y + 2.7}, "middle", 7.5, ink, true, "×2");
      break;
    case Sign::free_core:
    case Sign::lost_core:
      sign.granted = entry.sign == Sign::free_core;
      rectangle(sign.box, look_of(sign), !sign.granted);
      if (!sign.granted) lost_cross(sign.box);
      break;
  }
  text({entry.at.x + 26, entry.at.y + 3.6}, "start", 10, quiet_ink, false, entry.text);
}

std::string SvgWriter::write(const TopoLayout& page) {
  begin(page.width, page.height, page.title);
  const double room = page.width - 56;
  text({28, 48}, "start", 20, ink, true, fitted(page.title, 20, room, true));
  text({28, 67}, "start", 11, quiet_ink, false, fitted(page.subtitle, 11, room));
  for (const Block& host : page.hosts) block(host, BlockKind::host);
  for (const LegendEntry& entry : page.legend) legend(entry);
  double y = page.notes_y;
  for (const std::string& note : page.notes)
    text({28, y += 14}, "start", 10, quiet_ink, false, fitted(note, 10, room));
  return end();
}

}  // namespace

std::string svg_of(const TopoLayout& layout) { return SvgWriter().write(layout); }

}  // namespace hymn
