// Dumps as they may be found: whole, cut, damaged, older, newer, absurd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>

#include "base/sanitizers.hpp"
#include "tests/tools/dump_maker.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/trace/dump_reader.hpp"
#include "tools/trace/files.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using trace::Dump;
using trace::Entry;
using trace::read_dump;
using trace::ReadDump;
namespace fs = std::filesystem;

/// Where a text that nothing has thrown is told in the place of the exception.
template <class Action>
std::string problem_of(Action action) {
  try {
    action();
  } catch (const BadArguments& bad) {
    return bad.what();
  }
  return "nothing was thrown";
}

TEST(TraceReader, TakesEveryValue) {
  MadeCall call = open_call("reduce", 91);
  call.root = 1;
  call.elements = 12;
  DumpMaker maker(3, 4);
  maker.group("1", "dp", {0, 3}).call("1", call).call("0", send_to(2));
  maker.peer(2, "dead", "killed by signal 9");
  maker.in_call("MPI_Comm_create_group", 30).aborted("1", "timed out");
  const Dump dump = maker.with("written_by", 0).dump();
  EXPECT_EQ(dump.version, "1.0");
  EXPECT_EQ(dump.hymn_version, "0.1.0");
  EXPECT_EQ(dump.job, "9f3c");
  EXPECT_EQ(dump.rank, 3);
  EXPECT_EQ(dump.world_size, 4);
  EXPECT_EQ(dump.host, "nodeB");
  EXPECT_EQ(dump.pid, 4714);
  EXPECT_EQ(dump.program, "solver");
  EXPECT_EQ(dump.written_by, 0);
  EXPECT_EQ(dump.trigger, "timeout");
  EXPECT_THAT(dump.reason, HasSubstr("has not completed"));
  EXPECT_EQ(dump.time_ns, DumpMaker::time_ns);
  EXPECT_EQ(dump.recorded, 2);
  EXPECT_FALSE(dump.timing);
  EXPECT_TRUE(dump.has_entries);
  ASSERT_EQ(dump.groups.size(), 2u);
  const trace::GroupConfig& group = dump.groups[1];
  EXPECT_EQ(group.uid, "1");
  EXPECT_EQ(group.label, "dp#1");
  EXPECT_EQ(group.ranks, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(group.collective_seq, 1);
  EXPECT_EQ(group.completed_seq, 0);
  EXPECT_EQ(group.aborted, "timed out");
  ASSERT_EQ(dump.peers.size(), 1u);
  EXPECT_EQ(dump.peers[0].rank, 2);
  EXPECT_EQ(dump.peers[0].state, "dead");
  EXPECT_EQ(dump.peers[0].detail, "killed by signal 9");
  EXPECT_EQ(dump.in_call.value_or(trace::CallReport()).name, "MPI_Comm_create_group");
}

TEST(TraceReader, TakesEveryValueOfAnOperation) {
  MadeCall call = open_call("reduce", 91);
  call.root = 1;
  call.elements = 12;
  call.duration_ms = 0.5;
  const Dump dump = DumpMaker(3, 4).call("0", call).call("0", recv_from(-1)).dump();
  ASSERT_EQ(dump.entries.size(), 2u);
  const Entry& entry = dump.entries[0];
  EXPECT_EQ(entry.record_id, 0);
  EXPECT_EQ(entry.group, "0");
  EXPECT_EQ(entry.op, "reduce");
  EXPECT_EQ(entry.reduce_op, "sum");
  EXPECT_EQ(entry.root, 1);
  EXPECT_FALSE(entry.peer);
  EXPECT_FALSE(entry.is_p2p);
  EXPECT_FALSE(entry.retired);
  EXPECT_EQ(entry.state, trace::EntryState::scheduled);
  EXPECT_EQ(entry.collective_seq, 1);
  EXPECT_EQ(entry.op_id, 1);
  EXPECT_EQ(entry.input.sizes, "[[12]]");
  EXPECT_EQ(entry.input.elements, 12u);
  EXPECT_EQ(entry.input.dtype, "float32");
  EXPECT_EQ(entry.created_ns, DumpMaker::time_ns - 30000000000);
  EXPECT_FALSE(entry.completed_ns);
  EXPECT_EQ(entry.duration_ms, 0.5);
  EXPECT_EQ(entry.path, "shm");
  EXPECT_EQ(entry.site.file, "solver.cpp");
  EXPECT_EQ(entry.site.line, 91);
  EXPECT_EQ(entry.site.function, "step(Solver&)");
  EXPECT_EQ(dump.entries[1].peer, -1);
  EXPECT_EQ(dump.entries[1].p2p_seq, 1);
  EXPECT_EQ(dump.entries[1].input.sizes, "[]");
  EXPECT_EQ(dump.entries[1].output.elements, 1024u);
  EXPECT_TRUE(dump.entries[1].completed_ns);
}

TEST(TraceReader, BuffersAndFramesOfAnyNumber) {
  DumpMaker maker(0, 1);
  nlohmann::json json = maker.call("0", {}).json();
  json["entries"][0]["input_sizes"] = {{2, 3}, {4}, nlohmann::json::array()};
  json["entries"][0]["output_sizes"] = {{std::int64_t{1} << 62, 8}, {1}};
  json["entries"][0]["input_dtypes"] = {"int8", "int8", "uint8"};
  json["entries"][0]["frames"] = {{{"address", "0x1"}},
                                  {{"address", "0x2"}, {"name", "main"}},
                                  {{"address", "0x3"}, {"filename", "/a/b.cpp"}, {"line", 7}},
                                  {{"address", "0x4"}, {"filename", "/a/c.cpp"}, {"line", 8}}};
  const Dump dump = read_dump(json.dump(), "").dump.value_or(Dump());
  ASSERT_EQ(dump.entries.size(), 1u);
  const Entry& entry = dump.entries[0];
  EXPECT_EQ(entry.input.sizes, "[[2, 3], [4], []]");
  EXPECT_EQ(entry.input.elements, 11u);
  EXPECT_EQ(entry.output.elements, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(entry.input.dtype, "int8, uint8");
  EXPECT_EQ(trace::site_text(entry.site), "b.cpp:7");
}

TEST(TraceReader, ACutAmongTheOperationsLosesOnlyTheLast) {
  DumpMaker maker(0, 2);
  const std::string text = maker.calls(5, "0", {}).text();
  // nlohmann's writer sorts keys, so other keys than the recorder's may follow the operations.
  nlohmann::ordered_json ordered = nlohmann::ordered_json::parse(text);
  const nlohmann::ordered_json entries = ordered["entries"];
  ordered.erase("entries");
  ordered["entries"] = entries;
  const std::string whole = ordered.dump();
  const std::size_t begin = whole.find("\"entries\":[") + 11;
  std::size_t most = 0;
  const std::size_t step = sanitized ? 7 : 1;
  for (std::size_t size = (whole.size() - 1) % step; size < whole.size(); size += step) {
    const ReadDump read = read_dump(whole.substr(0, size), "");
    EXPECT_EQ(read.dump.has_value(), size >= begin) << size;
    EXPECT_NE(read.problem, "") << size;
    if (!read.dump) continue;
    EXPECT_TRUE(read.dump->truncated);
    EXPECT_GE(read.dump->entries.size(), most);
    most = read.dump->entries.size();
  }
  EXPECT_EQ(most, 5u);
  EXPECT_EQ(read_dump(whole, "").problem, "");
  EXPECT_THAT(read_dump(whole.substr(0, whole.size() - 2), "").problem,
              HasSubstr("5 of its operations could be read"));
}

TEST(TraceReader, RefusesWhatItCannotUnderstand) {
  const auto problem = [](const std::string& key, const nlohmann::json& value) {
    const ReadDump read = read_dump(DumpMaker(0, 2).with(key, value).text(), "");
    EXPECT_FALSE(read.dump) << key << value;
    return read.problem;
  };
  EXPECT_THAT(problem("version", "2.0"), HasSubstr("version 2.0, and this hymn reads 1.x"));
  EXPECT_THAT(problem("version", "2.0"), HasSubstr("(0.1.0)"));
  EXPECT_THAT(problem("version", "10.0"), HasSubstr("version 10.0"));
  EXPECT_THAT(problem("version", nullptr), HasSubstr("no version"));
  for (const nlohmann::json& value : std::vector<nlohmann::json>{2, -1, 1e300, "0", nullptr})
    EXPECT_THAT(problem("rank", value), HasSubstr("its rank is not one of a world of 2")) << value;
  for (const nlohmann::json& value : std::vector<nlohmann::json>{0, -4, 1e18, "2", 2000000})
    EXPECT_THAT(problem("world_size", value), HasSubstr("world_size")) << value;
  EXPECT_EQ(read_dump("", "").problem, "it is empty");
  for (const char* text : {"{", "[]", "no JSON", "{}", "null", "{\"version\":1}"})
    EXPECT_NE(read_dump(text, "").problem, "") << text;
}

TEST(TraceReader, TakesNewerMinorVersionsAndPassesOverWhatItDoesNotKnow) {
  DumpMaker maker(0, 2);
  maker.call("0", {}).with("version", "1.7").with("entries_of_old", {{{"op", "x"}}});
  maker.with("news", {{"deep", {1, {{"rank", 9}}}}}).with("reason", {{"op", "list"}});
  const Dump dump = maker.dump();
  EXPECT_EQ(dump.rank, 0);
  EXPECT_EQ(dump.entries.size(), 1u);
  EXPECT_EQ(dump.reason, "");
}

TEST(TraceReader, KeysMayBeMissing) {
  const ReadDump read = read_dump(R"({"version":"1.0","rank":1,"world_size":2})", "");
  ASSERT_TRUE(read.dump) << read.problem;
  std::vector<Dump> dumps{read.dump.value_or(Dump())};
  EXPECT_FALSE(dumps[0].has_entries);
  const trace::Job job(std::move(dumps));
  EXPECT_THAT(trace::judge(job), testing::IsEmpty());
  EXPECT_THAT(trace::report_text(job, {}, {}), HasSubstr("dumps of 1 of 2 ranks"));
  // An operation of which hardly anything is told.
  const ReadDump bare =
      read_dump(R"({"version":"1.0","rank":0,"world_size":1,"entries":[{"op":"barrier"},{}]})", "");
  EXPECT_EQ(bare.dump.value_or(Dump()).entries.size(), 2u) << bare.problem;
}

TEST(TraceReader, AbsurdNumbersBecomeSomething) {
  const std::string big = "123456789012345678901234567890";
  const std::string text =
      R"({"version":"1.0","rank":0,"world_size":2,"time_ns":)" + big + R"(,"pid":-)" + big +
      R"(,"pg_config":{"0":{"ranks":[0,1,-7,)" + big + R"(],"collective_seq":-5,"completed_seq":)" +
      big +
      R"(}},"in_call":{"since_ns":-9223372036854775808},"entries":[{"op":"send","is_p2p":)"
      R"(true,"peer":)" +
      big + R"(,"time_created_ns":-)" + big +
      R"(,"duration_ms":1e308,"input_sizes":[[9223372036854775807,4,-1],[18446744073709551615]]},)"
      R"({"op":"all_reduce","collective_seq_id":9223372036854775807,"time_created_ns":)"
      R"(-9223372036854775808,"state":"started","op_id":-3,"record_id":-9}]})";
  const ReadDump read = read_dump(text, "");
  ASSERT_TRUE(read.dump) << read.problem;
  std::vector<Dump> dumps{read.dump.value_or(Dump())};
  EXPECT_EQ(dumps[0].time_ns, std::numeric_limits<std::int64_t>::max());
  ASSERT_EQ(dumps[0].entries.size(), 2u);
  EXPECT_EQ(dumps[0].entries[0].input.elements,
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  const trace::Job job(std::move(dumps));
  const std::vector<trace::Finding> findings = trace::judge(job);
  EXPECT_NE(trace::report_text(job, findings, {}), "");
  EXPECT_NE(trace::report_json(job, findings, {}), "");
}

TEST(TraceReader, TextCannotStirTheTerminal) {
  DumpMaker maker(0, 1);
  maker.with("host", "\x1b[31mred").with("program", "/opt/\u202ebad\n");
  const Dump dump = maker.dump();
  EXPECT_EQ(dump.host, "\xef\xbf\xbd[31mred");
  EXPECT_THAT(dump.program, Not(HasSubstr("\n")));
  EXPECT_THAT(dump.program, Not(HasSubstr("\u202e")));
}

TEST(TraceWords, RanksAreShort) {
  EXPECT_EQ(trace::rank_list({}), "");
  EXPECT_EQ(trace::rank_list({5, 0, 2, 1, 5}), "0-2, 5");
  EXPECT_EQ(trace::rank_list({0, 2, 4}), "0, 2, 4");
  EXPECT_EQ(trace::ranks_text({3}), "rank 3");
  EXPECT_EQ(trace::ranks_text({3, 4}), "ranks 3-4");
  EXPECT_EQ(trace::seconds_text(0.04), "0.0 s");
  EXPECT_EQ(trace::seconds_text(-3), "0.0 s");
  EXPECT_EQ(trace::clock_text(-1), "?");
}

TEST(TraceFiles, TheNewestOfARankWins) {
  std::vector<Dump> dumps;
  for (const std::int64_t time : {20, 30, 10}) {
    dumps.push_back(DumpMaker(1, 2).with("time_ns", time).dump());
    dumps.back().file = "at" + std::to_string(time);
  }
  const trace::LoadedDumps loaded = trace::choose_dumps(std::move(dumps), "");
  ASSERT_EQ(loaded.dumps.size(), 1u);
  EXPECT_EQ(loaded.dumps[0].file, "at30");
  ASSERT_EQ(loaded.notes.size(), 2u);
  EXPECT_EQ(loaded.notes[0].file, "at20");
  EXPECT_EQ(loaded.notes[0].text, "it is of rank 1, of which at30 is newer");
  EXPECT_EQ(loaded.notes[1].file, "at10");
}

std::vector<Dump> dumps_of_two_jobs() {
  std::vector<Dump> dumps;
  for (const auto& [job, size, rank] : std::vector<std::tuple<std::string, int, int>>{
           {"9f3c", 2, 0}, {"77aa", 2, 0}, {"9f3c", 2, 1}, {"9f3c", 4, 3}}) {
    dumps.push_back(DumpMaker(rank, size).with("job", job).dump());
    dumps.back().file = job + "." + std::to_string(size) + "." + std::to_string(rank);
  }
  return dumps;
}

TEST(TraceFiles, JobsAreNotMixed) {
  const std::string problem = problem_of([] { trace::choose_dumps(dumps_of_two_jobs(), ""); });
  EXPECT_THAT(problem, HasSubstr("different jobs; choose one with --job"));
  EXPECT_THAT(problem, HasSubstr("job 77aa of 2 ranks (--job 77aa:2): 77aa.2.0"));
  EXPECT_THAT(problem, HasSubstr("job 9f3c of 2 ranks (--job 9f3c:2): 9f3c.2.0, 9f3c.2.1"));
  EXPECT_THAT(problem, HasSubstr("job 9f3c of 4 ranks (--job 9f3c:4): 9f3c.4.3"));
  EXPECT_EQ(trace::choose_dumps(dumps_of_two_jobs(), "77").dumps.size(), 1u);
  EXPECT_EQ(trace::choose_dumps(dumps_of_two_jobs(), "9f3c:2").dumps.size(), 2u);
  EXPECT_THAT(problem_of([] { trace::choose_dumps(dumps_of_two_jobs(), "9f3c"); }),
              HasSubstr("different jobs"));
  EXPECT_THAT(problem_of([] { trace::choose_dumps(dumps_of_two_jobs(), "beef"); }),
              HasSubstr("no dump is of job beef:"));
}

TEST(TraceFiles, WithoutAnIdADumpIsOfTheOnlyJobOfItsSize) {
  std::vector<Dump> dumps{DumpMaker(0, 2).dump(), DumpMaker(1, 2).with("job", "").dump()};
  EXPECT_EQ(trace::choose_dumps(std::move(dumps), "").dumps.size(), 2u);
  std::vector<Dump> other{DumpMaker(0, 2).dump(), DumpMaker(1, 3).with("job", "").dump()};
  EXPECT_THAT(problem_of([&] { trace::choose_dumps(std::move(other), ""); }),
              HasSubstr("job (without id) of 3 ranks"));
}

TEST(TraceFiles, WithoutAnIdADumpIsOfNoneOfTwoJobs) {
  std::vector<Dump> dumps = dumps_of_two_jobs();
  dumps.push_back(DumpMaker(1, 2).with("job", "").dump());
  EXPECT_THAT(problem_of([&] { trace::choose_dumps(std::move(dumps), ""); }),
              HasSubstr("job (without id) of 2 ranks"));
}

/// A folder that is gone at the end.
class TraceFolder : public testing::Test {
 protected:
  TraceFolder()
      : folder_(testing::TempDir() + "trace_files_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TraceFolder() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string folder_;
};

TEST_F(TraceFolder, FilesAreFoundByFolderAndByBeginning) {
  for (const char* name : {"dump10", "dump9", "dump0", "dump_old3", "dump1.tmp", ".dump2", "log"})
    write(name, "{}");
  fs::create_directories(folder_ + "/dump7");
  const auto at = [&](const std::string& name) { return folder_ + "/" + name; };
  EXPECT_THAT(trace::files_named({at("dump")}),
              ElementsAre(at("dump0"), at("dump9"), at("dump10")));
  EXPECT_THAT(trace::files_named({folder_}),
              ElementsAre(at("dump0"), at("dump9"), at("dump10"), at("dump_old3")));
  EXPECT_THAT(trace::files_named({at("log"), at("dump0"), at("dump")}),
              ElementsAre(at("log"), at("dump0"), at("dump9"), at("dump10")));
  EXPECT_THAT(problem_of([&] { trace::files_named({at("dumb")}); }), HasSubstr("no such file"));
  EXPECT_THAT(problem_of([&] { trace::files_named({at("dump7")}); }), HasSubstr("no dumps in"));
}

TEST_F(TraceFolder, DamagedFilesAreToldAndLeftOut) {
  const std::string good = write("d0", DumpMaker(0, 3).call("0", {}).text());
  const std::string newer = write("d1", DumpMaker(1, 3).with("version", "3.1").text());
  const std::string empty = write("d2", "");
  const trace::LoadedDumps loaded =
      trace::load_dumps({good, newer, empty, folder_ + "/absent"}, "");
  EXPECT_EQ(loaded.dumps.size(), 1u);
  ASSERT_EQ(loaded.notes.size(), 3u);
  EXPECT_THAT(loaded.notes[0].text, HasSubstr("version 3.1"));
  EXPECT_EQ(loaded.notes[1].text, "it is empty");
  EXPECT_EQ(loaded.notes[2].text, "it cannot be opened");
  EXPECT_TRUE(loaded.notes[0].is_lost);
  const std::string problem = problem_of([&] { trace::load_dumps({newer, empty}, ""); });
  EXPECT_THAT(problem, HasSubstr("none of the files is a dump that can be read"));
  EXPECT_THAT(problem, HasSubstr(empty + ": it is empty"));
}

TEST_F(TraceFolder, ManyFilesComeInTheOrderOfTheirRanks) {
  std::vector<std::string> files;
  for (int rank = 39; rank >= 0; --rank)
    files.push_back(write("d" + std::to_string(rank), DumpMaker(rank, 40).text()));
  const trace::LoadedDumps loaded = trace::load_dumps(files, "");
  ASSERT_EQ(loaded.dumps.size(), 40u);
  for (int rank = 0; rank < 40; ++rank) EXPECT_EQ(loaded.dumps[rank].rank, rank);
}

}  // namespace
}  // namespace hymn::test
