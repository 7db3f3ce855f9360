// What `hymn topo` writes: text, SVG, PNG, JSON and files.
#include <glib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/sanitizers.hpp"
#include "tests/support/errors.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/topo/job.hpp"
#include "tools/topo/png.hpp"
#include "tools/topo/svg.hpp"
#include "tools/topo/text.hpp"
#include "tools/write_file.hpp"
#include "topology/machine_json_job.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

const std::string golden = HYMN_GOLDEN;

MachineSource box(const std::string& name) { return machine_from_file(HYMN_BOXES "/" + name); }

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Elements of an SVG by their class, and their data-… numbers; strict about what XML is.
struct Parsed {
  std::map<std::string, std::vector<std::string>> numbers;
  std::string text;
  std::string problem;
};

void on_element(GMarkupParseContext*, const gchar*, const gchar** names, const gchar** values,
                gpointer user_data, GError**) {
  for (; *names != nullptr; ++names, ++values)
    if (std::string(*names).starts_with("data-"))
      static_cast<Parsed*>(user_data)->numbers[*names].emplace_back(*values);
}

void on_text(GMarkupParseContext*, const gchar* text, gsize length, gpointer user_data, GError**) {
  static_cast<Parsed*>(user_data)->text.append(text, length);
}

Parsed parse(const std::string& svg) {
  Parsed parsed;
  const GMarkupParser parser{on_element, nullptr, on_text, nullptr, nullptr};
  GMarkupParseContext* context =
      g_markup_parse_context_new(&parser, GMarkupParseFlags{}, &parsed, nullptr);
  GError* error = nullptr;
  const auto length = static_cast<gssize>(svg.size());
  if (!g_markup_parse_context_parse(context, svg.data(), length, &error) ||
      !g_markup_parse_context_end_parse(context, &error))
    parsed.problem = error->message;
  g_clear_error(&error);
  g_markup_parse_context_free(context);
  return parsed;
}

std::string svg_of_box(const std::string& name, int hosts, int ranks) {
  MachineSource source = box(name);
  source.hosts = hosts;
  return svg_of(lay_out(imagine_job(source, ranks).view));
}

std::vector<std::string> numbers_up_to(int count) {
  std::vector<std::string> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

TEST(TopoText, IsAsItWas) {
  for (const auto& [name, ranks] : std::map<std::string, int>{
           {"pcie4.xml", 4}, {"hybrid_cube8.xml", 8}, {"no_p2p4.json", 3}, {"cpu_2x2.xml", 20}}) {
    const std::string expected = golden + "/" + fs::path(name).stem().string() + ".txt";
    EXPECT_EQ(topo_text(imagine_job(box(name), ranks).view), content_of(expected)) << expected;
  }
}

TEST(TopoText, ListsAlikeHostsOnce) {
  MachineSource source = box("one_gpu.xml");
  source.hosts = 3;
  const std::string text = topo_text(imagine_job(source, 2).view);
  EXPECT_THAT(text, HasSubstr("3 hosts, 6 ranks"));
  EXPECT_THAT(text, HasSubstr("3 hosts: node0, node1, node2 ("));
  EXPECT_THAT(text, HasSubstr("  ranks on node0\n"));
  EXPECT_THAT(text, HasSubstr("    node2: ranks 4-5\n"));
  EXPECT_THAT(text, Not(HasSubstr("ranks on node1")));
  EXPECT_THAT(text, HasSubstr("0, with 1 other"));  // two ranks, one GPU
}

TEST(TopoText, NamesCannotStirTheTerminal) {
  Machine machine = read_synthetic("pack:1 core:1 pu:1");
  machine.packages[0].model = "\x1b[31mred\x07 \xff\xc3 \xe2\x80\xae \xc2\x9b";
  const std::string text =
      topo_text(imagine_job({std::make_shared<const Machine>(machine), 1}, 1).view);
  for (const char c : text)
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  EXPECT_TRUE(g_utf8_validate(text.data(), static_cast<gssize>(text.size()), nullptr));
  EXPECT_THAT(text, HasSubstr("\xef\xbf\xbd[31mred"));
  EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
}

TEST(TopoSvg, IsWellFormedAndHasEveryRankAndGpuOnce) {
  const std::vector<std::tuple<std::string, int, int>> cases{
      {"nvswitch8.xml", 1, 8}, {"hybrid_cube8.xml", 1, 8}, {"pcie4.xml", 1, 4},
      {"nvswitch8.xml", 4, 8}, {"cpu_2x2.xml", 2, 20},     {"one_gpu.xml", 1, 3}};
  for (const auto& [name, hosts, ranks] : cases) {
    SCOPED_TRACE(name);
    Parsed svg = parse(svg_of_box(name, hosts, ranks));
    EXPECT_EQ(svg.problem, "");
    EXPECT_THAT(svg.numbers["data-rank"],
                testing::UnorderedElementsAreArray(numbers_up_to(hosts * ranks)));
    const auto gpus = static_cast<int>(box(name).machine->gpus.size());
    EXPECT_EQ(svg.numbers["data-gpu"].size(), static_cast<std::size_t>(hosts * gpus));
  }
}

// docs/topology.md shows these, with the commands that make them.
TEST(TopoSvg, PicturesOfTheDocumentationAreWhatIsDrawn) {
  const std::vector<std::tuple<std::string, std::string, int, int>> pictures{
      {"nvswitch8", "nvswitch8.xml", 1, 8},  {"hybrid_cube8", "hybrid_cube8.xml", 1, 8},
      {"four_hosts", "nvswitch8.xml", 4, 8}, {"pcie4", "pcie4.xml", 1, 4},
      {"cpu_2x2", "cpu_2x2.xml", 1, 6},      {"one_gpu", "one_gpu.xml", 1, 12}};
  for (const auto& [picture, name, hosts, ranks] : pictures) {
    const std::string file = HYMN_PICTURES "/" + picture + ".svg";
    EXPECT_TRUE(svg_of_box(name, hosts, ranks) == content_of(file))
        << file << " is out of date: docs/topology.md has the command that makes it";
  }
}

TEST(TopoSvg, GpusShowTheirRanks) {
  Parsed svg = parse(svg_of_box("hybrid_cube8.xml", 1, 8));
  EXPECT_THAT(svg.numbers["data-gpu-rank"], testing::UnorderedElementsAreArray(numbers_up_to(8)));
}

TEST(TopoSvg, HostileNamesAreOnlyNames) {
  const std::string hostile = "</text><script>alert('&\"')</script>]]>\x01\xff\xed\xa0\x80\n";
  Machine machine = *box("one_gpu.xml").machine;
  machine.name = machine.source = machine.packages[0].model = machine.gpus[0].name = hostile;
  if (machine.nics.empty()) machine.nics.emplace_back();
  machine.nics[0].name = hostile;
  const std::string svg =
      svg_of(lay_out(imagine_job({std::make_shared<const Machine>(machine), 2}, 2).view));
  EXPECT_EQ(parse(svg).problem, "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(parse(svg).text, HasSubstr("<script>alert('&\""));
  EXPECT_FALSE(png_of(svg).empty());
}

TEST(TopoSvg, LongNamesAndAbsurdCountsStaySmall) {
  Machine machine =
      read_synthetic(sanitized ? "pack:16 core:8 pu:1" : "pack:16 numa:2 l3:8 core:8 pu:2");
  machine.name = std::string(100000, 'x');
  for (int i = 0; i < 500; ++i) machine.nics.push_back({std::string(1000, 'n'), {}, 0, 0, 1e9});
  const std::string svg =
      svg_of(lay_out(imagine_job({std::make_shared<const Machine>(machine), 1500}, 8).view));
  EXPECT_LT(svg.size(), 150000u);
  EXPECT_EQ(parse(svg).problem, "");
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = at; i < at + 4; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes.at(i));
  return number;
}

TEST(TopoPng, HasTheSizeOfThePage) {
  const TopoLayout page = lay_out(imagine_job(box("pcie4.xml"), 4).view);
  const std::string png = png_of(svg_of(page), 2);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_NEAR(big_endian(png, 16), 2 * page.width, 2);
  EXPECT_NEAR(big_endian(png, 20), 2 * page.height, 2);
  EXPECT_GT(png.size(), 10000u);  // it is not blank
}

TEST(TopoPng, StaysWithinItsLimits) {
  const std::string wide =
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100000 10" width="100000" height="10"/>)";
  EXPECT_LE(big_endian(png_of(wide), 16), 16000u);
}

TEST(TopoPng, WhatIsNoSvgIsAnError) {
  expect_error(ErrorKind::internal, [] { png_of("no picture"); }, {"cannot be drawn"});
}

TEST(TopoJson, CarriesThePlacesOfAllHosts) {
  MachineSource source = box("hybrid_cube8.xml");
  source.hosts = 3;
  const auto json = nlohmann::json::parse(imagine_job(source, 4).json);
  EXPECT_EQ(json["ranks"], 12);
  EXPECT_EQ(json["hosts"].size(), 3u);
  ASSERT_EQ(json["machines"].size(), 1u);
  EXPECT_EQ(machine_from_json(json["machines"][0].dump(), "it"), *source.machine);
  ASSERT_EQ(json["places"].size(), 12u);
  EXPECT_EQ(json["places"][11]["rank"], 11);
  EXPECT_EQ(json["places"][11]["host"], 2);
}

TEST(TopoJson, AMachineWithoutRanksIsItsOwnJson) {
  const MachineSource source = box("pcie4.xml");
  EXPECT_EQ(imagine_job(source, 0).json, to_json(*source.machine));
}

TEST(TopoJob, PlacesTravelAsText) {
  const auto places = imagine_job(box("nvswitch8.xml"), 5).view.hosts[0].places;
  EXPECT_EQ(places_from_json(places_to_json(places)), places);
  for (const char* bad : {"", "{", "[{}]", "[{\"rank\":\"x\"}]", "7"})
    expect_error(ErrorKind::internal, [&] { places_from_json(bad); }, {"placement"});
}

TEST(TopoJob, RefusesMoreRanksThanItCanShow) {
  MachineSource source = box("cpu_2x2.xml");
  source.hosts = most_hosts;
  EXPECT_THROW(imagine_job(source, 2), BadArguments);
}

TEST(TopoView, GroupsHostsThatLookAlike) {
  MachineSource source = box("pcie4.xml");
  source.hosts = 5;
  TopoView view = imagine_job(source, 4).view;
  EXPECT_EQ(alike_hosts(view), (std::vector<std::vector<std::size_t>>{{0, 1, 2, 3, 4}}));
  view.hosts[2].places.pop_back();
  view.hosts[3].places.front().gpu = -1;
  EXPECT_EQ(alike_hosts(view), (std::vector<std::vector<std::size_t>>{{0, 1, 4}, {2}, {3}}));
  EXPECT_EQ(names_of(view, {0, 1, 4}, 2), "node0, node1, … 1 more");
  EXPECT_EQ(ranks_on(view.hosts[1]), "4-7");
}

TEST(TopoView, FiguresAreShort) {
  EXPECT_EQ(human_bytes(0), "?");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(std::uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(human_bytes(std::uint64_t{2} << 40), "2 TiB");
  EXPECT_EQ(human_gbps(450e9), "450");
  EXPECT_EQ(human_gbps(15.75e9), "15.8");
  EXPECT_EQ(human_gbps(0.125e9), "0.125");
  EXPECT_EQ(human_gbps(0), "?");
}

TEST(MachineSource, TakesHostsAfterTheColon) {
  EXPECT_EQ(box("pcie4.xml").hosts, 1);
  EXPECT_EQ(box("pcie4.xml:12").hosts, 12);
  for (const char* bad : {"pcie4.xml:0", "pcie4.xml:-1", "pcie4.xml:", "pcie4.xml:4x",
                          "pcie4.xml:99999999999", "pcie4.xml:70000"})
    EXPECT_THROW(box(bad), BadArguments) << bad;
  EXPECT_THROW(box("no such box.xml"), ConfigError);
}

TEST(MachineSource, AFileWhoseNameHasAColonIsThatFile) {
  const fs::path copy = fs::path(testing::TempDir()) / "topo_output_test.xml:3";
  fs::copy_file(HYMN_BOXES "/pcie4.xml", copy, fs::copy_options::overwrite_existing);
  EXPECT_EQ(machine_from_file(copy).hosts, 1);
  EXPECT_EQ(machine_from_file(copy.string() + ":2").hosts, 2);
  fs::remove(copy);
}

TEST(MachineSource, SpreadsRanksOverTheCores) {
  Machine machine = read_synthetic("pack:2 core:4 pu:2");
  auto records = spread_ranks(machine, 4, 8);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[3].rank, 11);
  EXPECT_EQ(records[1].cpus.to_string(), "4-7");
  machine.allowed_cpus = CpuSet::range(0, 5);  // three cores
  records = spread_ranks(machine, 4);
  for (const RankRecord& record : records) EXPECT_EQ(record.cpus.to_string(), "0-5");
}

/// A folder of its own for each test.
class WriteFile : public testing::Test {
 protected:
  WriteFile() { fs::create_directories(folder_); }
  ~WriteFile() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      ("write_file_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(WriteFile, ReplacesTheWholeAndKeepsItsPermissions) {
  write_file(path("a"), "a long first text");
  EXPECT_EQ(content_of(path("a")), "a long first text");
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  write_file(path("a"), "second");
  EXPECT_EQ(content_of(path("a")), "second");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1u);  // nothing is left beside it
}

TEST_F(WriteFile, KeepsLinksAndDevices) {
  write_file(path("target"), "old");
  fs::create_symlink(path("target"), path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content_of(path("target")), "new");
  write_file("/dev/null", "nothing");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WriteFile, NamesWhatItCannotWrite) {
  const std::string nowhere = path("no/such/file");
  expect_error(ErrorKind::resource, [&] { write_file(nowhere, "x"); },
               {nowhere, "No such file", "folder that exists"});
  expect_error(ErrorKind::resource, [&] { write_file(folder_.string(), "x"); }, {"directory"});
  expect_error(ErrorKind::resource, [] { write_file("/dev/full", std::string(1 << 20, 'x')); },
               {"/dev/full", "No space"});
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace hymn::test
