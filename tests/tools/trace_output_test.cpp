// What `hymn trace` writes for programs and for eyes: JSON, Perfetto's trace, the timeline.
#include <glib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>

#include "tests/tools/dump_maker.hpp"
#include "tools/trace/dump_fields.hpp"
#include "tools/trace/perfetto.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/time_scale.hpp"
#include "tools/trace/timeline.hpp"
#include "tools/trace/timeline_svg.hpp"
#include "tools/trace/verdict.hpp"

namespace hymn::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;
using trace::TimeScale;

/// The last rank has not come to the last of `calls` collectives.
std::vector<DumpMaker> one_missing(int ranks, int calls, double duration_ms = -1) {
  std::vector<DumpMaker> makers = make_dumps(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < calls; ++i)
      makers[rank].call("0", {.age = 31.0 - 0.001 * i, .duration_ms = duration_ms});
    if (rank + 1 < ranks) makers[rank].call("0", open_call("broadcast"));
  }
  return makers;
}

/// The elements of an SVG with their attributes; strict about what XML is.
struct Picture {
  struct Element {
    std::string name;
    std::map<std::string, std::string> attributes;
  };
  std::vector<Element> elements;
  std::string text;
  std::string problem;

  std::vector<Element> of_class(const std::string& name) const {
    std::vector<Element> some;
    for (const Element& element : elements)
      if (const auto found = element.attributes.find("class");
          found != element.attributes.end() && found->second == name)
        some.push_back(element);
    return some;
  }
  std::size_t count(const std::string& state) const {
    const std::vector<Element> ops = of_class("op");
    return static_cast<std::size_t>(std::count_if(ops.begin(), ops.end(), [&](const Element& op) {
      return op.attributes.at("data-state") == state;
    }));
  }
};

void on_element(GMarkupParseContext*, const gchar* name, const gchar** names, const gchar** values,
                gpointer picture, GError**) {
  Picture::Element element{name, {}};
  for (; *names != nullptr; ++names, ++values) element.attributes[*names] = *values;
  static_cast<Picture*>(picture)->elements.push_back(std::move(element));
}

void on_text(GMarkupParseContext*, const gchar* text, gsize length, gpointer picture, GError**) {
  static_cast<Picture*>(picture)->text.append(text, length);
}

Picture picture_of(const std::vector<DumpMaker>& makers, std::size_t count = 0) {
  const trace::Job job = job_of(makers);
  const std::string svg = trace::timeline_svg(job, trace::judge(job), count);
  Picture picture;
  const GMarkupParser parser{on_element, nullptr, on_text, nullptr, nullptr};
  GMarkupParseContext* context =
      g_markup_parse_context_new(&parser, GMarkupParseFlags{}, &picture, nullptr);
  GError* error = nullptr;
  if (!g_markup_parse_context_parse(context, svg.data(), static_cast<gssize>(svg.size()), &error) ||
      !g_markup_parse_context_end_parse(context, &error))
    picture.problem = error->message;
  g_clear_error(&error);
  g_markup_parse_context_free(context);
  EXPECT_EQ(picture.problem, "");
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  return picture;
}

double number(const Picture::Element& element, const char* name) {
  return std::stod(element.attributes.at(name));
}

TEST(TraceSvg, HasARowForEachRankAndABarForEachOperation) {
  for (const int ranks : {2, 64}) {
    const Picture picture = picture_of(one_missing(ranks, 5));
    EXPECT_EQ(picture.of_class("row").size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(picture.count("completed"), static_cast<std::size_t>(5 * ranks));
    EXPECT_EQ(picture.count("open"), static_cast<std::size_t>(ranks - 1));
    EXPECT_THAT(picture.text, HasSubstr("never entered broadcast #6"));
    EXPECT_THAT(picture.text, HasSubstr("✗ rank " + std::to_string(ranks - 1)));
    EXPECT_THAT(picture.text, HasSubstr("all_reduce"));
    EXPECT_THAT(picture.text, HasSubstr("in flight for 30.0 s"));
  }
}

TEST(TraceSvg, EverythingIsOnTheSheet) {
  for (const int ranks : {1, 2, 17, 64}) {
    const Picture picture = picture_of(one_missing(ranks, 40, 0.01));
    const double width = number(picture.elements.at(0), "width");
    const double height = number(picture.elements.at(0), "height");
    for (const Picture::Element& element : picture.elements) {
      if (element.name != "rect") continue;
      EXPECT_GE(number(element, "x"), 0);
      EXPECT_GE(number(element, "y"), 0);
      EXPECT_GT(number(element, "width"), 0);
      EXPECT_GT(number(element, "height"), 0);
      EXPECT_LE(number(element, "x") + number(element, "width"), width);
      EXPECT_LE(number(element, "y") + number(element, "height"), height);
    }
  }
}

TEST(TraceSvg, LeavesOutTheLongWait) {
  const Picture picture = picture_of(one_missing(2, 40));
  EXPECT_EQ(picture.of_class("cut").size(), 2u);  // before the last call, and while it waits
  EXPECT_THAT(picture.text, HasSubstr("… 30.0 s …"));
}

TEST(TraceSvg, TellsShortGapsInShortTimes) {
  std::vector<DumpMaker> makers = make_dumps(1);
  for (const double age : {0.0402, 0.0401, 0.0400, 0.0003, 0.0002, 0.0001})
    makers[0].call("0", {.age = age, .duration_ms = 0.05});
  const Picture picture = picture_of(makers);
  EXPECT_THAT(picture.text, HasSubstr("… 40 ms …"));
  EXPECT_THAT(picture.text, Not(HasSubstr("… 0.0 s …")));
}

TEST(TraceSvg, HasGroupAndNumberOnBarsAndAColourForEachGroup) {
  std::vector<DumpMaker> makers = make_dumps(2);
  for (DumpMaker& maker : makers) {
    maker.group("1", "dp", {0, 1}).group("2", "tp", {0, 1});
    maker.call("1", {.age = 30, .duration_ms = 8000});
    maker.call("2", {.op = "broadcast", .age = 20, .duration_ms = 8000});
    maker.call("1", {.op = "barrier", .age = 10, .duration_ms = 8000});
  }
  const trace::Job job = job_of(makers);
  const std::string svg = trace::timeline_svg(job, trace::judge(job), 64);
  for (const std::string label : {"all_reduce #1 dp#1", "broadcast #1 tp#2", "barrier #2 dp#1"})
    EXPECT_THAT(svg, HasSubstr(label));
  const trace::Timeline timeline = trace::make_timeline(job, {}, 64, 64);
  EXPECT_THAT(timeline.groups, ElementsAre("dp#1", "tp#2"));
}

TEST(TraceSvg, HasTheNumberUprightWhereThereIsNoRoomAlongABar) {
  std::vector<DumpMaker> makers = make_dumps(1);
  for (int i = 0; i < 40; ++i) makers[0].call("0", {.age = 60.0 - i});
  const trace::Job job = job_of(makers);
  const std::string svg = trace::timeline_svg(job, {}, 64);
  EXPECT_THAT(svg, HasSubstr("rotate(-90)"));
  for (const std::string number : {">#2<", ">#20<", ">#39<"}) EXPECT_THAT(svg, HasSubstr(number));
}

TEST(TraceSvg, DrawsOperationsAtTheSameTimeOneAboveTheOther) {
  std::vector<DumpMaker> makers = make_dumps(1);
  for (int i = 0; i < 3; ++i) makers[0].call("0", open_call());
  const Picture picture = picture_of(makers);
  std::set<double> tops;
  for (std::size_t i = 0; i < picture.elements.size(); ++i)
    if (picture.elements[i].attributes.contains("data-state"))
      for (std::size_t j = i + 1; j < picture.elements.size(); ++j)
        if (picture.elements[j].name == "rect") {
          tops.insert(number(picture.elements[j], "y"));
          break;
        }
  EXPECT_EQ(tops.size(), 3u);
}

TEST(TraceSvg, OneAfterTheOtherNeedsOneLane) {
  std::vector<DumpMaker> makers = make_dumps(1);
  for (const double age : {31.0, 30.5, 30.0}) makers[0].call("0", {.age = age, .duration_ms = 500});
  const trace::Job job = job_of(makers);
  const trace::Timeline timeline = trace::make_timeline(job, {}, 64, 64);
  ASSERT_EQ(timeline.rows.at(0).bars.size(), 3u);
  EXPECT_EQ(timeline.rows[0].lanes, 1);
}

TEST(TraceSvg, ShowsAsManyOperationsAsAskedFor) {
  EXPECT_EQ(picture_of(one_missing(2, 100), 3).of_class("op").size(), 6u);
  EXPECT_EQ(picture_of(one_missing(2, 100)).of_class("op").size(), 128u);
}

TEST(TraceSvg, OfTooManyRanksTheGuiltyAreShown) {
  std::vector<DumpMaker> makers = make_dumps(300);
  for (int rank = 0; rank < 299; ++rank) makers[rank].call("0", open_call());
  const Picture picture = picture_of(makers);
  EXPECT_EQ(picture.of_class("row").size(), trace::most_rows);
  EXPECT_THAT(picture.text, HasSubstr("✗ rank 299"));
  EXPECT_THAT(picture.text, HasSubstr("172 further ranks without a row here"));
}

TEST(TraceSvg, TellsOfRanksWithoutDumpsAndOperations) {
  std::vector<DumpMaker> makers = make_dumps(2);
  makers[0].without("entries");
  makers.pop_back();
  const Picture picture = picture_of(makers);
  EXPECT_EQ(picture.of_class("row").size(), 2u);
  EXPECT_THAT(picture.text, HasSubstr("no dump"));
}

TEST(TraceSvg, EscapesText) {
  std::vector<DumpMaker> makers = one_missing(2, 1);
  makers[0].with("host", "<a&b>").with("program", "\"p\"");
  EXPECT_THAT(picture_of(makers).text, HasSubstr("rank 0 <a&b>"));
}

TEST(TraceTimeScale, KeepsTheOrderAndTheEnds) {
  const TimeScale scale({0, 1, 2, 3, 4, 5, 1000, 1001}, 100, 900);
  EXPECT_DOUBLE_EQ(scale.at(-5), 100);
  EXPECT_DOUBLE_EQ(scale.at(0), 100);
  EXPECT_NEAR(scale.at(1001), 900, 1e-9);
  EXPECT_NEAR(scale.at(9999), 900, 1e-9);
  double before = 100;
  for (double time = 0.25; time < 1001; time += 0.25) {
    EXPECT_GT(scale.at(time), before);
    before = scale.at(time);
  }
  ASSERT_EQ(scale.breaks().size(), 1u);
  EXPECT_DOUBLE_EQ(scale.breaks()[0].seconds, 995);
  EXPECT_DOUBLE_EQ(scale.at(5), scale.breaks()[0].left);
  EXPECT_DOUBLE_EQ(scale.at(1000), scale.breaks()[0].right);
  EXPECT_GT(scale.at(1) - scale.at(0), 50);
}

TEST(TraceTimeScale, CutsWhatIsLongerThanHalfOfTheRest) {
  EXPECT_EQ(TimeScale({0, 1, 2, 3, 4, 7}, 0, 100).breaks().size(), 1u);
  EXPECT_EQ(TimeScale({0, 1, 2, 3, 4, 5.5}, 0, 100).breaks().size(), 0u);
}

TEST(TraceTimeScale, EvenTimesAreNotCut) {
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) times.push_back(i * 0.5);
  const TimeScale scale(times, 0, 1000);
  EXPECT_TRUE(scale.breaks().empty());
  EXPECT_NEAR(scale.at(12.25), 500, 1e-9);
}

TEST(TraceTimeScale, TicksAreRoundAndFew) {
  const auto labels = [](const std::vector<double>& times) {
    std::vector<std::string> all;
    for (const TimeScale::Tick& tick : TimeScale(times, 0, 1000).ticks(8))
      all.push_back(tick.label);
    return all;
  };
  EXPECT_THAT(labels({0, 4}),
              ElementsAre("0 ms", "500 ms", "1.0 s", "1.5 s", "2.0 s", "2.5 s", "3.0 s", "3.5 s"));
  EXPECT_THAT(labels({0, 0.039}),
              ElementsAre("0 ms", "5 ms", "10 ms", "15 ms", "20 ms", "25 ms", "30 ms", "35 ms"));
  EXPECT_THAT(labels({3}), ElementsAre("0 s"));
  EXPECT_LE(labels({0, 1e300, 2e300}).size(), 32u);
}

TEST(TracePerfetto, HasEveryOperation) {
  std::vector<DumpMaker> makers = one_missing(2, 3, 0.5);
  MadeCall failed = open_call("barrier");
  failed.state = "failed";
  makers[1].call("0", failed).call("0", send_to(0));
  const Json json = Json::parse(trace::perfetto_json(job_of(makers)));
  std::map<std::string, int> phases;
  for (const Json& event : json["traceEvents"]) {
    ++phases[event["ph"]];
    if (event["ph"] != "X" && event["ph"] != "B") continue;
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_EQ(event["tid"], 1);
    EXPECT_TRUE(event["args"].contains("sequence"));
  }
  EXPECT_EQ(phases["B"], 1);
  EXPECT_EQ(phases["X"], 8);
  EXPECT_EQ(phases["M"], 6);
}

TEST(TracePerfetto, NamesRanksGroupsAndValues) {
  std::vector<DumpMaker> makers = make_dumps(1);
  makers[0].group("3", "dp", {0}).call("0", {.duration_ms = 0.25}).call("3", open_call());
  const Json events = Json::parse(trace::perfetto_json(job_of(makers)))["traceEvents"];
  std::map<std::string, std::string> names;
  Json completed;
  Json open;
  for (const Json& event : events) {
    if (event["args"].contains("name")) names[event["name"]] += event["args"]["name"];
    if (event["ph"] == "X") completed = event;
    if (event["ph"] == "B") open = event;
  }
  EXPECT_EQ(names["process_name"], "rank 0 on nodeA");
  EXPECT_EQ(names["thread_name"], "default_pgdp#3");
  EXPECT_EQ(completed["name"], "all_reduce #1");
  EXPECT_EQ(completed["dur"], 250);
  EXPECT_EQ(completed["ts"], 0);
  EXPECT_EQ(completed["args"]["sequence"], 1);
  EXPECT_EQ(completed["args"]["input_sizes"], "[[1024]]");
  EXPECT_EQ(completed["args"]["input_dtype"], "float32");
  EXPECT_EQ(completed["args"]["signature"], makers[0].json()["entries"][0]["signature"]);
  EXPECT_EQ(completed["args"]["state"], "completed");
  EXPECT_EQ(open["tid"], 2);
  EXPECT_EQ(open["ts"], 1e6);
  EXPECT_FALSE(open.contains("dur"));
}

TEST(TraceJson, HasTheDocumentedKeys) {
  std::vector<DumpMaker> makers = one_missing(4, 2);
  makers.erase(makers.begin());
  const trace::Job job = job_of(makers);
  const Json json =
      Json::parse(trace::report_json(job, trace::judge(job), {{"dump9", "it is empty", true}}));
  EXPECT_EQ(json["hymn_trace"], 1);
  EXPECT_EQ(json["verdict"], "fault");
  EXPECT_EQ(json["job"], "9f3c");
  EXPECT_EQ(json["program"], "solver");
  EXPECT_EQ(json["world_size"], 4);
  EXPECT_EQ(json["without_dump"], Json::array({0}));
  const Json note{{"file", "dump9"}, {"text", "it is empty"}, {"used", false}};
  EXPECT_EQ(json["notes"], Json::array({note}));
  ASSERT_EQ(json["dumps"].size(), 3u);
  EXPECT_EQ(json["dumps"][2]["rank"], 3);
  EXPECT_EQ(json["dumps"][2]["file"], "dump3");
  EXPECT_EQ(json["dumps"][2]["operations"], 2);
  ASSERT_EQ(json["findings"].size(), 1u);
  const Json& finding = json["findings"][0];
  EXPECT_EQ(finding["kind"], "missing");
  EXPECT_EQ(finding["fault"], true);
  EXPECT_EQ(finding["ranks"], Json::array({3}));
  EXPECT_EQ(finding["waiting"], Json::array({1, 2}));
  EXPECT_EQ(finding["waited_s"], 30.0);
  EXPECT_EQ(finding["group"], "0");
  EXPECT_EQ(finding["group_label"], "default_pg");
  EXPECT_EQ(finding["op"], "broadcast");
  EXPECT_EQ(finding["sequence"], 3);
  EXPECT_EQ(finding["p2p"], false);
  for (const char* key : {"title", "details", "advice", "sides"})
    EXPECT_TRUE(finding.contains(key));
}

template <class T>
std::vector<std::string> keys_of(std::span<const trace::Field<T>> fields) {
  std::vector<std::string> keys;
  for (const trace::Field<T>& field : fields) keys.emplace_back(field.key);
  return keys;
}

TEST(TraceSchema, HasEveryKeyThatIsRead) {
  std::ifstream file(HYMN_SCHEMA);
  const Json schema = Json::parse(file, nullptr, false);
  ASSERT_TRUE(schema.is_object()) << HYMN_SCHEMA;
  const Json& definitions = schema["$defs"];
  const std::vector<std::pair<Json, std::vector<std::string>>> cases{
      {schema["properties"], keys_of(trace::dump_fields())},
      {definitions["group"]["properties"], keys_of(trace::group_fields())},
      {definitions["peer"]["properties"], keys_of(trace::peer_fields())},
      {schema["properties"]["in_call"]["properties"], keys_of(trace::call_fields())},
      {schema["properties"]["making"]["properties"], keys_of(trace::making_fields())},
      {definitions["entry"]["properties"], keys_of(trace::entry_fields())},
      {definitions["entry"]["properties"]["frames"]["items"]["properties"],
       keys_of(trace::site_fields())}};
  for (const auto& [properties, keys] : cases)
    for (const std::string& key : keys) EXPECT_TRUE(properties.contains(key)) << key;
}

TEST(TraceSchema, AsksForNoKeyThatDumpsMayLack) {
  std::ifstream file(HYMN_SCHEMA);
  const Json schema = Json::parse(file, nullptr, false);
  const Json dump = DumpMaker(0, 2).call("0", {}).call("0", send_to(1)).json();
  for (const auto& key : schema["required"]) EXPECT_TRUE(dump.contains(key)) << key;
  for (const auto& key : schema["$defs"]["entry"]["required"])
    for (const Json& entry : dump["entries"]) EXPECT_TRUE(entry.contains(key)) << key;
  for (const auto& key : schema["$defs"]["group"]["required"])
    EXPECT_TRUE(dump["pg_config"]["0"].contains(key)) << key;
}

TEST(TraceJson, OfAHealthyJob) {
  std::vector<DumpMaker> makers = make_dumps(2);
  for (DumpMaker& maker : makers) maker.call("0", {}).with("trigger", "call");
  const trace::Job job = job_of(makers);
  const Json json = Json::parse(trace::report_json(job, trace::judge(job), {}));
  EXPECT_EQ(json["verdict"], "no_fault");
  EXPECT_EQ(json["findings"], Json::array());
}

}  // namespace
}  // namespace hymn::test
