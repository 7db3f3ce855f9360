// The `hymn` command as a user meets it: run as a program, judged by its output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/shell.hpp"

namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::string command = HYMN_COMMAND;
const std::string mpirun = HYMN_MPIRUN;
// As quick as it gets: two blocks of one iteration, both verified.
const std::string quick = " --iters 2 --warmup 1";

using Outcome = hymn::test::ShellOutcome;
using hymn::test::run_shell;

Outcome run_bench(const std::string& arguments, const std::string& launcher = "") {
  return run_shell(launcher + " " + command + " bench " + arguments + " 2>&1");
}

std::string under_mpirun(int ranks) { return mpirun + " -n " + std::to_string(ranks); }

// The rows that `hymn bench … --json` prints on its standard output, which holds nothing else.
Json bench_rows(const std::string& arguments, const std::string& launcher = "") {
  SCOPED_TRACE(launcher + " hymn bench " + arguments);
  const Outcome outcome = run_shell(launcher + " " + command + " bench " + arguments + " --json");
  EXPECT_EQ(outcome.exit_code, 0);
  const Json rows = Json::parse(outcome.output, nullptr, false);
  EXPECT_TRUE(rows.is_array()) << outcome.output;
  return rows.is_array() ? rows : Json::array();
}

std::vector<std::string> keys_of(const Json& row) {
  std::vector<std::string> keys;
  for (const auto& item : row.items()) keys.push_back(item.key());
  return keys;
}

const std::vector<std::string> collectives{
    "all_reduce",     "broadcast", "reduce", "gather",     "scatter", "all_gather",
    "reduce_scatter", "scan",      "exscan", "all_to_all", "barrier", "send_recv"};
const std::vector<std::string> keys{"collective", "size_bytes", "count",   "dtype",  "op",
                                    "in_place",   "ranks",      "time_us", "min_us", "max_us",
                                    "algbw_gbps", "busbw_gbps", "wrong",   "path",   "algorithm"};

void expect_right(const Json& rows, const std::string& collective, int ranks) {
  EXPECT_FALSE(rows.empty());
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row["collective"], collective);
    EXPECT_EQ(row["ranks"], ranks);
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_GE(row["time_us"], row["min_us"]);
    EXPECT_LE(row["time_us"], row["max_us"]);
    EXPECT_NE(row["path"], "");
    EXPECT_NE(row["algorithm"], "");
  }
}

TEST(HymnInfo, ShowsVersionBuildAndSettings) {
  const Outcome version = run_shell(command + " --version");
  EXPECT_EQ(version.exit_code, 0);
  const Outcome info = run_shell("HYMN_TIMEOUT=17 " + command + " info");
  EXPECT_EQ(info.exit_code, 0);
  // "hymn 0.1.0" is the first line of both.
  EXPECT_EQ(info.output.substr(0, version.output.size()), version.output);
  EXPECT_THAT(info.output, HasSubstr("HYMN_TIMEOUT=17"));
  EXPECT_THAT(info.output, HasSubstr("environment (default: "));
  EXPECT_THAT(info.output, HasSubstr("HYMN_PATH="));
}

TEST(HymnInfo, TellsTheSameAsJson) {
  const Outcome info = run_shell("HYMN_TIMEOUT=17 " + command + " info --json");
  EXPECT_EQ(info.exit_code, 0);
  const Json json = Json::parse(info.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << info.output;
  EXPECT_EQ(keys_of(json),
            (std::vector<std::string>{"version", "build", "gpus", "settings", "tuning"}));
  EXPECT_FALSE(json["build"].empty());
  std::set<std::string> sources;
  for (const Json& setting : json["settings"]) {
    EXPECT_NE(setting["meaning"], "");
    sources.insert(setting["source"]);
    if (setting["name"] == "HYMN_TIMEOUT") {
      EXPECT_EQ(setting["value"], "17");
      EXPECT_EQ(setting["source"], "environment");
    }
  }
  EXPECT_EQ(sources, (std::set<std::string>{"default", "environment"}));
}

// A library in place of CUDA's pretends two GPUs.
TEST(HymnInfo, TellsOfGpus) {
  const auto gpus_of = [](const std::string& variables) {
    const Outcome info = run_shell("LD_LIBRARY_PATH=" HYMN_FAKE_CUDA ":$LD_LIBRARY_PATH " +
                                   variables + command + " info --json");
    const Json json = Json::parse(info.output, nullptr, false);
    return json.is_object() ? json["gpus"] : Json(info.output);
  };
  const Json both = gpus_of("");
  EXPECT_EQ(keys_of(both), (std::vector<std::string>{"GPUs", "CUDA driver", "NVML", "NCCL"}));
  EXPECT_EQ(both["GPUs"], "2");
  EXPECT_EQ(both["CUDA driver"], "CUDA 13.0");
  const Json none = gpus_of("CUDA_VISIBLE_DEVICES= ");
  EXPECT_EQ(none["GPUs"], "none (the CUDA driver lists none; CUDA_VISIBLE_DEVICES may hide them)");
  EXPECT_EQ(none["CUDA driver"], "CUDA 13.0");
}

TEST(HymnInfo, RefusesMalformedAndUnknownVariables) {
  const Outcome malformed = run_shell("HYMN_TIMEOUT=soon " + command + " info 2>&1");
  EXPECT_EQ(malformed.exit_code, 2);
  EXPECT_THAT(malformed.output, HasSubstr("HYMN_TIMEOUT"));
  EXPECT_THAT(malformed.output, HasSubstr("soon"));
  const Outcome unknown = run_shell("HYMN_TIMEOUTS=1 " + command + " info 2>&1");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("HYMN_TIMEOUTS"));
}

TEST(HymnInfo, ARankWithABadVariableOfItsOwnSaysSo) {
  for (const char* subcommand : {"info", "topo", "bench barrier"}) {
    const std::string hymn = command + " " + subcommand;
    const Outcome outcome =
        run_shell(mpirun + " -n 1 " + hymn + " : -n 1 env HYMN_TIMEOUT=soon " + hymn + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << subcommand;
    EXPECT_THAT(outcome.output, HasSubstr("HYMN_TIMEOUT='soon'")) << subcommand;
  }
}

TEST(HymnCommand, FailsWhereItsOutputIsLost) {
  for (const char* arguments :
       {"--version", "--help", "info", "info --json", "topo", "topo --svg -", "topo --png -",
        "explain all_reduce", "doctor", "bench barrier --threads 2 --iters 2"})
    for (const char* output : {" >/dev/full", " >&-"}) {
      const Outcome outcome = run_shell("(" + command + " " + arguments + output + ") 2>&1");
      EXPECT_EQ(outcome.exit_code, 1) << arguments << output;
      EXPECT_THAT(outcome.output, testing::ContainsRegex("hymn: .*(write|written)"))
          << arguments << output;
    }
}

TEST(HymnCommand, GoesOnWhereItsMessagesAreLost) {
  const std::string file = testing::TempDir() + "hymn-silent-" + std::to_string(::getpid());
  for (const char* messages : {" 2>/dev/full", " 2>&-"}) {
    EXPECT_EQ(run_shell(command + " explain nothing" + messages).exit_code, 2) << messages;
    EXPECT_EQ(run_shell(command + " topo --svg /nowhere/at/all" + messages).exit_code, 1)
        << messages;
    EXPECT_EQ(run_shell(command + " tune --threads 2 --quick --collectives barrier --output " +
                        file + messages)
                  .exit_code,
              0)
        << messages;
  }
  std::remove(file.c_str());
}

TEST(HymnCommand, AFileIsNotTakenForTheClosedOutput) {
  const std::string file = testing::TempDir() + "hymn-output-" + std::to_string(::getpid());
  const Outcome outcome = run_shell(command + " bench barrier --threads 2 --iters 2 --csv " + file +
                                    " >&- 2>/dev/null; cat " + file + "; rm " + file);
  EXPECT_THAT(outcome.output, testing::StartsWith("collective,"));
  EXPECT_EQ(outcome.output.find("hymn "), std::string::npos) << outcome.output;
}

TEST(HymnBench, RefusesBadArguments) {
  const std::vector<std::array<std::string, 2>> cases{
      {"all_reduces", "all_reduce, broadcast, reduce, gather"},
      {"", "collective"},
      {"all_reduce --dtype floating", "float16, bfloat16, float32"},
      {"all_reduce --op add", "sum, product, min, max"},
      {"all_reduce --min 4Q", "--min"},
      {"all_reduce --min 8 --max 4", "min <= max"},
      {"all_reduce --min 0", "min <= max"},
      {"all_reduce --min -4", "negative"},
      {"all_reduce --max 1E", "16T"},
      {"all_reduce --factor 1", "--factor"},
      {"all_reduce --iters -1", "negative"},
      {"all_reduce --timeout soon", "'soon'"},
      {"all_reduce --reproducible always", "'always'; there are: ranks, runs, placement, size"},
      {"all_reduce --threads 2 --reproducible size --op product", "order of its factors"},
      {"all_reduce --timeout 0", "'0'"},
      {"all_reduce --vs nvidia", "mpi, nccl"},
      {"all_reduce --vs nccl", "--memory device"},
      {"all_reduce --graph", "--memory device"},
      {"all_reduce --memory gpu", "host, device"},
      {"all_reduce --memory device --vs mpi", "--vs nccl"},
      {"all_reduce --threads 2 --vs mpi", "--threads"},
      {"all_reduce --json --csv -", "--csv"},
      {"all_reduce --csv /nowhere/at/all.csv", "/nowhere/at/all.csv"},
      {"all_reduce --nonsense", "--nonsense"},
      {"broadcast --out-of-place", "no out-of-place form"},
      {"barrier --in-place", "no in-place form"},
      {"broadcast --threads 2 --root 2", "--root 2"},
      {"barrier --threads 1000000", "1 to 4096"},
      {"send_recv", "2 ranks"},
      {"all_reduce --threads 2 --op band", "floating point"},
      {"all_reduce --threads 2 --dtype float8_e5m2", "float8"},
      {"all_reduce --threads 21 --op product", "--check 0"},
  };
  for (const auto& [arguments, expected] : cases) {
    SCOPED_TRACE("hymn bench " + arguments);
    const Outcome outcome = run_bench(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.output, HasSubstr(expected));
  }
}

TEST(HymnBench, WithoutGpusTheirMemoryIsRefused) {
  const Outcome outcome = run_bench("all_reduce --memory device --vs nccl", under_mpirun(2));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("rank(s) 0, 1 of 2 have none: there is no CUDA driver"));
  EXPECT_THAT(outcome.output, HasSubstr("remedy: start on machines with GPUs"));
  EXPECT_EQ(outcome.output.find("have none"), outcome.output.rfind("have none"));
}

TEST(HymnBench, OnlyOneRankComplains) {
  const Outcome outcome = run_bench("all_reduces", under_mpirun(2));
  EXPECT_EQ(outcome.exit_code, 2);
  const std::size_t first = outcome.output.find("unknown collective");
  ASSERT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("unknown collective", first + 1), std::string::npos);
}

TEST(HymnBench, EveryCollectiveIsRightAmongThreads) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const std::string& collective : collectives) {
      if (collective == "send_recv" && ranks == 1) continue;
      const Json rows = bench_rows(collective + quick + " --max 40K --factor 8 --threads " +
                                   std::to_string(ranks));
      expect_right(rows, collective, ranks);
    }
  }
}

TEST(HymnBench, EveryCollectiveIsRightUnderMpirun) {
  for (const std::string& collective : collectives)
    expect_right(bench_rows(collective + quick + " --max 40K --factor 8", under_mpirun(3)),
                 collective, 3);
}

TEST(HymnBench, EveryCollectiveIsRightAlone) {
  for (const std::string& collective : collectives)
    if (collective != "send_recv")
      expect_right(bench_rows(collective + quick + " --max 4K --factor 32"), collective, 1);
}

// The cells that docs/dtypes.md refuses.
bool is_refused(const std::string& dtype, const std::string& op) {
  const bool bitwise = op.ends_with("and") || op.ends_with("or");
  if (dtype == "boolean") return op == "avg" || op == "premul_sum";
  if (dtype.starts_with("complex")) return bitwise || op == "min" || op == "max";
  return bitwise && dtype.find("float") != std::string::npos;
}

// The command computes what it expects by its own arithmetic; here both meet in every cell.
TEST(HymnBench, EveryReductionOfEveryTypeIsRight) {
  for (const char* dtype :
       {"boolean", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
        "float32", "float64", "complex64", "complex128"}) {
    for (const char* op : {"sum", "product", "min", "max", "band", "bor", "bxor", "land", "lor",
                           "lxor", "avg", "premul_sum"}) {
      const std::string arguments = std::string("all_reduce --threads 3 --min 16K --max 16K") +
                                    quick + " --dtype " + dtype + " --op " + op;
      if (is_refused(dtype, op)) {
        EXPECT_EQ(run_bench(arguments).exit_code, 2) << arguments;
      } else {
        expect_right(bench_rows(arguments), "all_reduce", 3);
      }
    }
  }
}

TEST(HymnBench, SizesAndCountsAreThoseOfNcclTests) {
  const Json whole = bench_rows("all_reduce --threads 2 --min 4 --max 4K --factor 32" + quick);
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_EQ(keys_of(whole[0]), keys);
  EXPECT_EQ(whole[0]["size_bytes"], 4);
  EXPECT_EQ(whole[5]["size_bytes"], 4096);
  EXPECT_EQ(whole[5]["count"], 1024);
  EXPECT_EQ(whole[4]["in_place"], false);
  EXPECT_EQ(whole[5]["in_place"], true);

  // A block of every rank; sizes below one element each come to the same and are measured once.
  const Json blocks =
      bench_rows("all_gather --threads 3 --min 4 --max 48 --factor 2 --in-place" + quick);
  std::vector<std::size_t> sizes;
  for (const Json& row : blocks) {
    sizes.push_back(row["size_bytes"]);
    EXPECT_EQ(row["size_bytes"], row["count"].get<std::size_t>() * 3 * 4);
    const double time = row["time_us"];
    const double algorithm_bandwidth = row["algbw_gbps"];
    EXPECT_NEAR(algorithm_bandwidth * time * 1e3, row["size_bytes"].get<double>(), 1e-6);
    EXPECT_NEAR(row["busbw_gbps"], algorithm_bandwidth * 2 / 3, 1e-9);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{12, 24}));
}

TEST(HymnBench, ComparesWithPlainMpi) {
  auto versus_keys = keys;
  versus_keys.insert(versus_keys.end(), {"vs", "vs_time_us", "vs_wrong", "ratio"});
  const Json rows =
      bench_rows("all_reduce --min 4 --max 64K --factor 16 --vs mpi" + quick, under_mpirun(3));
  expect_right(rows, "all_reduce", 3);
  EXPECT_EQ(rows.size(), 8u);
  for (const Json& row : rows) {
    EXPECT_EQ(keys_of(row), versus_keys);
    EXPECT_EQ(row["vs"], "mpi");
    EXPECT_EQ(row["vs_wrong"], 0);
    EXPECT_NEAR(row["ratio"], row["time_us"].get<double>() / row["vs_time_us"].get<double>(), 1e-9);
  }
}

TEST(HymnBench, SaysHowPlainMpiIsStarted) {
  const std::string arguments = "barrier --vs mpi" + quick;
  EXPECT_THAT(run_bench(arguments, under_mpirun(2)).output,
              HasSubstr("in processes of its own and in turns with hymn's: "));
  EXPECT_THAT(run_bench(arguments, under_mpirun(2)).output, HasSubstr("(MPI_Init)"));
  EXPECT_THAT(run_bench(arguments + " --vs-level multiple", under_mpirun(2)).output,
              HasSubstr("MPI_THREAD_MULTIPLE (MPI_Init_thread)"));
}

TEST(HymnBench, SaysWhereMpiHasNoEquivalent) {
  const std::string arguments = "all_reduce --dtype float16 --max 4 --vs mpi --in-place" + quick;
  const Json rows = bench_rows(arguments);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0]["vs_time_us"].is_null());
  EXPECT_TRUE(rows[0]["ratio"].is_null());
  EXPECT_EQ(rows[0]["wrong"], 0);
  EXPECT_TRUE(rows[0]["vs_wrong"].is_null());
  EXPECT_THAT(run_bench(arguments).output, HasSubstr("no MPI equivalent"));
  // Moving it is another matter.
  const Json moved = bench_rows("broadcast --dtype float16 --max 4 --vs mpi" + quick);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_TRUE(moved[0]["vs_time_us"].is_number());
}

TEST(HymnBench, PrintsTableAndCsv) {
  const std::string file = testing::TempDir() + "hymn_command_test.csv";
  const Outcome outcome =
      run_bench("all_reduce --threads 2 --max 8" + quick + " --csv '" + file + "'");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* column : {"size", "count", "type", "redop", "out-of-place", "in-place", "time",
                             "algbw", "busbw", "#wrong", "path"})
    EXPECT_THAT(outcome.output, HasSubstr(column));
  EXPECT_THAT(outcome.output, HasSubstr("# wrong values: 0"));

  std::ifstream written(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(written, line);) lines.push_back(line);
  std::remove(file.c_str());
  ASSERT_EQ(lines.size(), 5u);  // two sizes in two places, and the names
  std::string names;
  for (const std::string& key : keys) names += (names.empty() ? "" : ",") + key;
  EXPECT_EQ(lines[0], names);
  EXPECT_THAT(lines[1], testing::StartsWith("all_reduce,4,1,float32,sum,false,2,"));
}

TEST(HymnBench, WithoutCheckNothingIsSaidToBeRight) {
  const Json rows = bench_rows("all_reduce --threads 2 --max 4 --check 0" + quick);
  ASSERT_FALSE(rows.empty());
  EXPECT_TRUE(rows[0]["wrong"].is_null());
}

// MPI made to give wrong results by a library loaded before it.
TEST(HymnBench, FindsWrongResults) {
#ifdef HYMN_WRONG_MPI
  const Outcome outcome = run_shell("LD_PRELOAD=" HYMN_WRONG_MPI " " + command +
                                    " bench broadcast --json --min 8K --max 8K" + quick);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  const Json rows = Json::parse(outcome.output, nullptr, false);
  ASSERT_EQ(rows.size(), 1u) << outcome.output;
  EXPECT_EQ(rows[0]["wrong"], 2);  // one in each of the two iterations
#else
  GTEST_SKIP() << "a sanitizer's runtime must be loaded before any other library";
#endif
}

// hymn's broadcast goes through shared memory: only the other side's is wrong.
TEST(HymnBench, FindsWrongResultsOfPlainMpi) {
#ifdef HYMN_WRONG_MPI
  const std::string run = "LD_PRELOAD=" HYMN_WRONG_MPI " " + under_mpirun(2) + " " + command +
                          " bench broadcast --vs mpi --min 8K --max 8K" + quick;
  const Outcome told = run_shell(run + " 2>&1");
  EXPECT_EQ(told.exit_code, 1) << told.output;
  EXPECT_THAT(told.output, HasSubstr("# wrong values: 0, of plain MPI: 4"));
  const Outcome outcome = run_shell(run + " --json 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 1);
  const Json rows = Json::parse(outcome.output, nullptr, false);
  ASSERT_EQ(rows.size(), 1u) << outcome.output;
  EXPECT_EQ(rows[0]["wrong"], 0);
  EXPECT_EQ(rows[0]["vs_wrong"], 4);  // one on each rank in each of the two iterations
#else
  GTEST_SKIP() << "a sanitizer's runtime must be loaded before any other library";
#endif
}

}  // namespace
