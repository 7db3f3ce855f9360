// The layout of `hymn topo`'s picture: nothing overlaps, everything is inside what holds it, every
// rank and every GPU is there once, on machines of all sorts.
#include "base/sanitizers.hpp"
#include "tools/topo/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/support/machine_maker.hpp"
#include "tools/machine_source.hpp"
#include "tools/topo/blocks.hpp"
#include "tools/topo/job.hpp"
#include "tools/topo/links.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

const std::string boxes = HYMN_BOXES;
constexpr double tolerance = 0.01;

std::string text_of(const Box& box) {
  return std::to_string(box.x) + "," + std::to_string(box.y) + " " + std::to_string(box.width) +
         "x" + std::to_string(box.height);
}

bool inside(const Box& inner, const Box& outer) {
  return inner.x >= outer.x - tolerance && inner.y >= outer.y - tolerance &&
         inner.right() <= outer.right() + tolerance && inner.bottom() <= outer.bottom() + tolerance;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() - tolerance && b.x < a.right() - tolerance &&
         a.y < b.bottom() - tolerance && b.y < a.bottom() - tolerance;
}

void expect_sound(const Block& block) {
  EXPECT_GT(block.box.width, 0);
  EXPECT_GT(block.box.height, 0);
  for (std::size_t i = 0; i < block.children.size(); ++i) {
    const Block& child = block.children[i];
    EXPECT_TRUE(inside(child.box, block.box))
        << child.label << " " << text_of(child.box) << " sticks out of " << block.label << " "
        << text_of(block.box);
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(overlap(child.box, block.children[j].box))
          << child.label << " " << text_of(child.box) << " overlaps " << block.children[j].label
          << " " << text_of(block.children[j].box);
    expect_sound(child);
  }
  for (const Wire& wire : block.wires)
    for (const Point& point : wire.points)
      EXPECT_TRUE(inside({point.x, point.y, 0, 0}, block.box)) << point.x << "," << point.y;
}

void expect_sound(const TopoLayout& page) {
  const Box sheet{0, 0, page.width, page.height};
  for (std::size_t i = 0; i < page.hosts.size(); ++i) {
    EXPECT_TRUE(inside(page.hosts[i].box, sheet));
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(page.hosts[i].box, page.hosts[j].box));
    expect_sound(page.hosts[i]);
  }
  for (const LegendEntry& entry : page.legend)
    EXPECT_TRUE(inside({entry.at.x, entry.at.y - 8, 26 + text_width(entry.text, 10), 16}, sheet))
        << entry.text;
  EXPECT_LE(page.notes_y + 14 * static_cast<double>(page.notes.size()), page.height);
}

/// How often each rank has its place on the cores, and each GPU its box.
struct Census {
  std::map<int, int> ranks;
  std::map<int, int> gpus;
  std::map<int, int> gpu_badges;
  int left_out = 0;

  void count(const Block& block, bool on_gpu = false) {
    if (block.kind == BlockKind::gpu) ++gpus[block.number];
    if (block.kind == BlockKind::more) ++left_out;
    if (block.number >= 0 && (block.kind == BlockKind::rank || block.kind == BlockKind::core))
      ++(on_gpu ? gpu_badges : ranks)[block.number];
    for (const Block& child : block.children) count(child, block.kind == BlockKind::gpu);
  }
};

Census census_of(const TopoLayout& page) {
  Census census;
  for (const Block& host : page.hosts) census.count(host);
  return census;
}

TopoView view_of(Machine machine, int hosts, int ranks) {
  return imagine_job({std::make_shared<const Machine>(std::move(machine)), hosts}, ranks).view;
}

TEST(TopoLayout, FixturesAreSoundWithAnyNumberOfRanks) {
  for (const char* box : {"nvswitch8.xml", "hybrid_cube8.xml", "pcie4.xml", "one_gpu.xml",
                          "cpu_2x2.xml", "no_p2p4.json"})
    for (const int ranks : {0, 1, 2, 3, 8, 17, 64}) {
      SCOPED_TRACE(std::string(box) + " with " + std::to_string(ranks) + " ranks");
      const Machine machine = read_machine_file(boxes + "/" + box);
      const TopoLayout page = lay_out(view_of(machine, 1, ranks));
      expect_sound(page);
      const Census census = census_of(page);
      EXPECT_EQ(census.ranks.size(), static_cast<std::size_t>(ranks));
      for (const auto& [rank, times] : census.ranks) EXPECT_EQ(times, 1) << "rank " << rank;
      EXPECT_EQ(census.gpus.size(), machine.gpus.size());
      for (const auto& [gpu, times] : census.gpus) EXPECT_EQ(times, 1) << "GPU " << gpu;
    }
}

TEST(TopoLayout, SyntheticMachinesAreSound) {
  for (const char* description :
       {"pu:1", "core:1 pu:8", "pack:2 numa:4 l3:3 core:8 pu:2", "pack:8 numa:2 l3:2 core:16 pu:1",
        "pack:3 core:7 pu:1", "numa:2 pack:2 core:3 pu:1", "pack:40 core:2 pu:1",
        "numa:40 core:2 pu:1", "l3:60 core:2 pu:1", "pack:1 l2:8 core:2 pu:2"})
    for (const int ranks : {0, 1, 5, 33}) {
      SCOPED_TRACE(std::string(description) + " with " + std::to_string(ranks) + " ranks");
      expect_sound(lay_out(view_of(read_synthetic(description), 1, ranks)));
    }
}

TEST(TopoLayout, RandomMachinesAreSound) {
  for (unsigned seed = 0; seed < (sanitized ? 40 : 200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int ranks = static_cast<int>(seed % 11);
    expect_sound(
        lay_out(view_of(MachineMaker(seed).make(), 1 + static_cast<int>(seed % 3), ranks)));
  }
}

TEST(TopoLayout, SomethingIsLeftOutOnlyWhereItIsSaidSo) {
  const TopoLayout page = lay_out(view_of(read_synthetic("pack:1 numa:1 core:8 pu:1"), 1, 200));
  expect_sound(page);
  const Census census = census_of(page);
  EXPECT_EQ(census.left_out, 1);
  EXPECT_EQ(census.ranks.size(), 63u);  // and "+137"
}

TEST(TopoLayout, UpToFourHostsAreDrawnOneByOne) {
  const Machine box = read_machine_file(boxes + "/nvswitch8.xml");
  const TopoLayout four = lay_out(view_of(box, 4, 8));
  expect_sound(four);
  ASSERT_EQ(four.hosts.size(), 4u);
  EXPECT_EQ(four.hosts[3].label, "node3 · ranks 24-31");
  EXPECT_EQ(census_of(four).ranks.size(), 32u);
  const TopoLayout many = lay_out(view_of(box, 100, 8));
  expect_sound(many);
  ASSERT_EQ(many.hosts.size(), 1u);
  EXPECT_EQ(many.hosts[0].label, "node0 · ranks 0-7 · and 99 hosts like it");
  EXPECT_EQ(many.title, "100 hosts, 800 ranks");
}

TEST(TopoLayout, HostsThatDifferAreNotDrawnAsOne) {
  TopoView view = view_of(read_synthetic("pack:1 core:4 pu:1"), 6, 2);
  view.hosts[5].places.pop_back();
  const TopoLayout page = lay_out(view);
  ASSERT_EQ(page.hosts.size(), 2u);
  EXPECT_EQ(page.hosts[1].label, "node5 · ranks 10");
}

TEST(TopoLayout, CoresSayWhoUsesThem) {
  Machine machine = read_synthetic("pack:1 numa:1 core:4 pu:1");
  machine.allowed_cpus = CpuSet::range(0, 2);
  TopoView view = view_of(machine, 1, 0);
  view.hosts[0].places = place_on_host(
      machine, std::vector<RankRecord>{{7, CpuSet::range(0, 1)}, {9, CpuSet::range(1, 1)}});
  const TopoLayout page = lay_out(view);
  const Block& node = page.hosts[0].children[0].children[0];
  ASSERT_EQ(node.kind, BlockKind::numa);
  ASSERT_EQ(node.children.size(), 5u);
  const Block& badge = node.children[0];
  EXPECT_EQ(badge.kind, BlockKind::rank);
  EXPECT_EQ(badge.number, 9);
  const Block* cores = &node.children[1];
  EXPECT_EQ(cores[0].label, "7");
  EXPECT_EQ(cores[0].tone, 0);
  EXPECT_EQ(cores[1].label, "×2");
  EXPECT_EQ(cores[1].tone, -1);
  EXPECT_EQ(cores[2].label, "");
  EXPECT_TRUE(cores[2].granted);
  EXPECT_FALSE(cores[3].granted);
}

// Every link of the hybrid cube can be followed: no two run along each other.
TEST(TopoLayout, LinksRunOnTracksOfTheirOwn) {
  const Machine cube = read_machine_file(boxes + "/hybrid_cube8.xml");
  const TopoLayout page = lay_out(view_of(cube, 1, 8));
  std::vector<const Wire*> links;
  for (const Wire& wire : page.hosts[0].wires)
    if (wire.kind == WireKind::nvlink) links.push_back(&wire);
  ASSERT_EQ(links.size(), 16u);
  std::set<double> ports;
  for (const Wire* a : links) {
    ASSERT_EQ(a->points.size(), 4u);
    EXPECT_TRUE(ports.insert(a->points.front().x).second);
    EXPECT_TRUE(ports.insert(a->points.back().x).second);
    for (const Wire* b : links) {
      if (a == b || std::abs(a->points[1].y - b->points[1].y) > 1) continue;
      EXPECT_TRUE(a->points[2].x < b->points[1].x || b->points[2].x < a->points[1].x);
    }
  }
}

TEST(TopoLayout, FiguresOfLinksStandOnNoOtherLink) {
  const Machine cube = read_machine_file(boxes + "/hybrid_cube8.xml");
  const TopoLayout page = lay_out(view_of(cube, 1, 8));
  for (const Wire& one : page.hosts[0].wires) {
    if (one.kind != WireKind::nvlink) continue;
    EXPECT_FALSE(one.label.empty());
    for (const Wire& other : page.hosts[0].wires) {
      if (other.kind != WireKind::nvlink || other.points[1].y <= one.label_at.y) continue;
      for (const double x : {other.points.front().x, other.points.back().x})
        EXPECT_GT(std::abs(x - one.label_at.x), text_width(one.label, 8) / 2 + 2);
    }
  }
}

TEST(TopoLayout, SwitchesReachAllTheirGpus) {
  const Machine box = read_machine_file(boxes + "/nvswitch8.xml");
  const TopoLayout page = lay_out(view_of(box, 1, 0));
  const auto& children = page.hosts[0].children;
  const auto bar = std::find_if(children.begin(), children.end(), [](const Block& block) {
    return block.kind == BlockKind::nv_switch;
  });
  ASSERT_NE(bar, children.end());
  EXPECT_EQ(bar->label, "NVSwitch · 450 GB/s per GPU");
  int reached = 0;
  for (const Wire& wire : page.hosts[0].wires)
    if (wire.kind == WireKind::nvlink && std::abs(wire.points.back().y - bar->box.y) < tolerance)
      ++reached;
  EXPECT_EQ(reached, 8);
}

TEST(TopoLayout, TooManyLinksAreToldInsteadOfDrawn) {
  Machine machine = read_synthetic("pack:1 core:16 pu:1");
  machine.gpus.resize(16);
  machine.gpu_links.assign(256, {GpuLinkKind::nvlink, 25e9, true});
  for (std::size_t i = 0; i < 16; ++i) {
    machine.gpus[i].index = static_cast<int>(i);
    machine.link(i, i) = {GpuLinkKind::self, 0, true};
  }
  const TopoLayout page = lay_out(view_of(machine, 1, 0));
  expect_sound(page);
  ASSERT_EQ(page.notes.size(), 1u);
  EXPECT_EQ(page.notes[0],
            "120 NVLinks between GPUs are not drawn; the text of hymn topo has them.");
}

TEST(TopoLayout, PairsWithoutPeerAccessAreTold) {
  const Machine box = read_machine_file(boxes + "/no_p2p4.json");
  const TopoLayout page = lay_out(view_of(box, 1, 0));
  ASSERT_FALSE(page.notes.empty());
  EXPECT_EQ(page.notes[0], "No peer access between GPUs 0–2, 0–3, 1–2, 1–3.");
}

TEST(TopoLayout, WiderLinksAreFaster) {
  EXPECT_LT(wire_width(0), wire_width(25e9));
  EXPECT_LT(wire_width(25e9), wire_width(50e9));
  EXPECT_LT(wire_width(50e9), wire_width(450e9));
  EXPECT_LE(wire_width(1e15), 8);
}

TEST(TopoLayout, GridsHaveNoRaggedRowsWherePossible) {
  EXPECT_EQ(columns_for(8, 3.8), 4u);
  EXPECT_EQ(columns_for(14, 5.0), 7u);
  EXPECT_EQ(columns_for(7, 2.6), 3u);
  EXPECT_EQ(columns_for(1, 1.0), 1u);
  EXPECT_EQ(columns_for(2, 1.4), 2u);
}

TEST(TopoLayout, TextIsCutToItsRoom) {
  EXPECT_EQ(fitted("short", 10, 100), "short");
  const std::string cut = fitted("ärgerlich langer Name eines Rechners", 10, 80);
  EXPECT_LE(text_width(cut, 10), 80);
  EXPECT_TRUE(cut.ends_with("…"));
  EXPECT_TRUE(cut.starts_with("ärger"));
  EXPECT_EQ(fitted("long", 10, 3), "");
}

}  // namespace
}  // namespace hymn::test
