// The HYMN_* variables: what they accept, what they refuse, and how they are described.
#include "base/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Config parse_one(const std::string& name, const std::string& value) {
  return Config::parse({name + "=" + value});
}

/// The variable must be refused by a ConfigError that quotes it and tells a remedy.
void expect_malformed(const std::string& name, const std::string& value) {
  const std::string quoted = name + "='" + value + "'";
  try {
    parse_one(name, value);
    ADD_FAILURE() << quoted << " is accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(quoted));
    EXPECT_FALSE(error.context().remedy.empty()) << quoted;
  }
}

std::string refusal_of(const std::vector<std::string>& environment) {
  try {
    Config::parse(environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Config, DefaultsOfAnEmptyEnvironment) {
  const Config config = Config::parse({});
  EXPECT_EQ(config.timeout, Timeout());
  EXPECT_EQ(config.log_level, LogLevel::warning);
  EXPECT_FALSE(config.progress_thread);
  EXPECT_EQ(config.mpi_thread_level, std::nullopt);
  EXPECT_EQ(config.path.text(), "");
  EXPECT_EQ(config.chunk_limit, std::size_t{1} << 30);
}

TEST(Config, Timeout) {
  EXPECT_EQ(parse_one("HYMN_TIMEOUT", "none").timeout, Timeout::none());
  EXPECT_EQ(parse_one("HYMN_TIMEOUT", "60").timeout, Timeout(60s));
  EXPECT_EQ(parse_one("HYMN_TIMEOUT", "0.25").timeout, Timeout(250ms));
  EXPECT_EQ(parse_one("HYMN_TIMEOUT", "2e-3").timeout, Timeout(2ms));
  EXPECT_EQ(parse_one("HYMN_TIMEOUT", "1e9").timeout, Timeout(1'000'000'000s));
  EXPECT_FALSE(parse_one("HYMN_TIMEOUT", "").timeout.is_set());
  for (const char* value : {"abc", "0", "-1", "-0.5", "1e10", "inf", "nan", "NONE", "60s", " 60",
                            "60 ", "0x10", "1,5", "1e999"})
    expect_malformed("HYMN_TIMEOUT", value);
}

TEST(Config, Recorder) {
  const Config usual = Config::parse({});
  EXPECT_EQ(usual.recorder_size, 512u);
  EXPECT_EQ(usual.recorder_frames, 0u);
  EXPECT_EQ(usual.recorder_counts, 128u);
  EXPECT_FALSE(usual.recorder_timing);
  EXPECT_EQ(usual.dump, "");
  EXPECT_EQ(parse_one("HYMN_RECORDER_SIZE", "0").recorder_size, 0u);
  EXPECT_EQ(parse_one("HYMN_RECORDER_SIZE", "1048576").recorder_size, 1048576u);
  EXPECT_EQ(parse_one("HYMN_RECORDER_FRAMES", "32").recorder_frames, 32u);
  EXPECT_EQ(parse_one("HYMN_RECORDER_COUNTS", "65535").recorder_counts, 65535u);
  EXPECT_TRUE(parse_one("HYMN_RECORDER_TIMING", "yes").recorder_timing);
  EXPECT_EQ(parse_one("HYMN_DUMP", "/tmp/trace_").dump, "/tmp/trace_");
  EXPECT_EQ(Config::parse({}).dump_format, DumpFormat::json);
  EXPECT_EQ(parse_one("HYMN_DUMP_FORMAT", "json").dump_format, DumpFormat::json);
  EXPECT_EQ(parse_one("HYMN_DUMP_FORMAT", "torch").dump_format, DumpFormat::torch);
  expect_malformed("HYMN_DUMP_FORMAT", "pickle");
  for (const char* value : {"", "abc", "-1", "1048577", "18446744073709551616", "10 ", "1e3"})
    expect_malformed("HYMN_RECORDER_SIZE", value);
  for (const char* value : {"", "-1", "33", "all"}) expect_malformed("HYMN_RECORDER_FRAMES", value);
  for (const char* value : {"", "-1", "65536"}) expect_malformed("HYMN_RECORDER_COUNTS", value);
  for (const char* value : {"", "2", "maybe"}) expect_malformed("HYMN_RECORDER_TIMING", value);
}

TEST(Config, Control) {
  const Config usual = Config::parse({});
  EXPECT_TRUE(usual.control);
  EXPECT_EQ(usual.interface, "");
  EXPECT_FALSE(parse_one("HYMN_CONTROL", "0").control);
  EXPECT_TRUE(parse_one("HYMN_CONTROL", "on").control);
  EXPECT_EQ(parse_one("HYMN_INTERFACE", "^docker0,10.0.0.0/8").interface, "^docker0,10.0.0.0/8");
  for (const char* value : {"", "abc", "-1", "2", "2147483647", "4294967295", "On"})
    expect_malformed("HYMN_CONTROL", value);
  for (const char* value : {",,", "^", "eth0,", "10.0.0.0/99", "999.1.1.1/8", "fd00::/129"})
    EXPECT_THROW(parse_one("HYMN_INTERFACE", value), ConfigError) << value;
}

TEST(Config, TcpStreams) {
  EXPECT_EQ(Config::parse({}).tcp_streams, 1);
  EXPECT_EQ(parse_one("HYMN_TCP_STREAMS", "16").tcp_streams, 16);
  for (const char* value : {"", "0", "17", "-1", "4 ", "many"})
    expect_malformed("HYMN_TCP_STREAMS", value);
}

TEST(Config, Preload) {
  EXPECT_EQ(parse_one("HYMN_PRELOAD", "off").preload, PreloadUse::off);
  EXPECT_EQ(parse_one("HYMN_PRELOAD", "watch").preload, PreloadUse::watch);
  EXPECT_EQ(parse_one("HYMN_PRELOAD", "always").preload, PreloadUse::always);
  EXPECT_EQ(parse_one("HYMN_PRELOAD_BITS", "mpi").preload_bits, PreloadBits::mpi);
  EXPECT_TRUE(parse_one("HYMN_PRELOAD_REPORT", "1").preload_report);
  for (const char* value : {"", "0", "no", "ON"}) expect_malformed("HYMN_PRELOAD", value);
  expect_malformed("HYMN_PRELOAD_BITS", "openmpi");
}

TEST(Config, P2pCompat) {
  EXPECT_EQ(Config::parse({}).p2p_compat, P2pCompat::none);
  EXPECT_EQ(parse_one("HYMN_P2P_COMPAT", "none").p2p_compat, P2pCompat::none);
  EXPECT_EQ(parse_one("HYMN_P2P_COMPAT", "c10d").p2p_compat, P2pCompat::c10d);
  for (const char* value : {"", "1", "C10D", "c10d ", "c10d,none", "nccl"})
    expect_malformed("HYMN_P2P_COMPAT", value);
}

TEST(Config, OnFailure) {
  EXPECT_EQ(Config::parse({}).on_failure, OnFailure::clean_up);
  for (const auto policy : {OnFailure::report, OnFailure::clean_up, OnFailure::tear_down})
    EXPECT_EQ(parse_one("HYMN_ON_FAILURE", std::string(to_string(policy))).on_failure, policy);
  for (const char* value :
       {"", "abc", "-1", "0", "1", "2147483647", "4294967295", "Report", "cleanup", "tear_down "})
    expect_malformed("HYMN_ON_FAILURE", value);
}

TEST(Config, BlockingWait) {
  EXPECT_FALSE(Config::parse({}).blocking_wait);
  for (const char* value : {"1", "true", "yes", "on"})
    EXPECT_TRUE(parse_one("HYMN_BLOCKING_WAIT", value).blocking_wait) << value;
  for (const char* value : {"0", "false", "no", "off"})
    EXPECT_FALSE(parse_one("HYMN_BLOCKING_WAIT", value).blocking_wait) << value;
  for (const char* value : {"", "2", "True", "y"}) expect_malformed("HYMN_BLOCKING_WAIT", value);
}

TEST(Config, test_invalid_nccl_blocking_wait_env) {
  for (const char* value : {"abc", "-1", "2147483647", "4294967295"})
    expect_malformed("HYMN_BLOCKING_WAIT", value);
}

TEST(Config, InitTimeout) {
  EXPECT_FALSE(Config::parse({}).init_timeout.is_set());
  EXPECT_FALSE(parse_one("HYMN_INIT_TIMEOUT", "").init_timeout.is_set());
  EXPECT_EQ(parse_one("HYMN_INIT_TIMEOUT", "none").init_timeout, Timeout::none());
  EXPECT_EQ(parse_one("HYMN_INIT_TIMEOUT", "2.5").init_timeout, Timeout(2500ms));
  // It leaves the limit of operations alone.
  EXPECT_EQ(parse_one("HYMN_INIT_TIMEOUT", "2.5").timeout, Timeout());
  for (const char* value :
       {"abc", "0", "-1", "2147483647", "4294967295", "inf", "nan", "NONE", "60s", " 60"})
    expect_malformed("HYMN_INIT_TIMEOUT", value);
}

TEST(Config, WatchdogTimeout) {
  EXPECT_EQ(Config::parse({}).watchdog_timeout, Timeout(5min));
  EXPECT_EQ(parse_one("HYMN_WATCHDOG_TIMEOUT", "none").watchdog_timeout, Timeout::none());
  EXPECT_EQ(parse_one("HYMN_WATCHDOG_TIMEOUT", "0.5").watchdog_timeout, Timeout(500ms));
  for (const char* value : {"", "abc", "0", "-1", "2147483647", "4294967295", "inf", "nan", "off",
                            "60s", "60 ", "0.49", "1e-9"})
    expect_malformed("HYMN_WATCHDOG_TIMEOUT", value);
}

TEST(Config, WaitReport) {
  EXPECT_EQ(Config::parse({}).wait_report, Timeout(30s));
  EXPECT_EQ(parse_one("HYMN_WAIT_REPORT", "none").wait_report, Timeout::none());
  EXPECT_EQ(parse_one("HYMN_WAIT_REPORT", "0").wait_report, Timeout::none());
  EXPECT_EQ(parse_one("HYMN_WAIT_REPORT", "0.5").wait_report, Timeout(500ms));
  for (const char* value : {"", "abc", "-1", "inf", "nan", "off", "30s"})
    expect_malformed("HYMN_WAIT_REPORT", value);
}

TEST(Config, LogLevel) {
  EXPECT_EQ(parse_one("HYMN_LOG_LEVEL", "off").log_level, LogLevel::off);
  EXPECT_EQ(parse_one("HYMN_LOG_LEVEL", "error").log_level, LogLevel::error);
  EXPECT_EQ(parse_one("HYMN_LOG_LEVEL", "warning").log_level, LogLevel::warning);
  EXPECT_EQ(parse_one("HYMN_LOG_LEVEL", "info").log_level, LogLevel::info);
  EXPECT_EQ(parse_one("HYMN_LOG_LEVEL", "debug").log_level, LogLevel::debug);
  for (const char* value : {"", "abc", "-1", "1", "4294967295", "WARNING", "warn", "debug "})
    expect_malformed("HYMN_LOG_LEVEL", value);
}

TEST(Config, ProgressThread) {
  for (const char* value : {"1", "true", "yes", "on"})
    EXPECT_TRUE(parse_one("HYMN_PROGRESS_THREAD", value).progress_thread) << value;
  for (const char* value : {"0", "false", "no", "off"})
    EXPECT_FALSE(parse_one("HYMN_PROGRESS_THREAD", value).progress_thread) << value;
  for (const char* value : {"", "abc", "-1", "2", "2147483647", "4294967295", "True", "y"})
    expect_malformed("HYMN_PROGRESS_THREAD", value);
}

TEST(Config, MpiThreadLevel) {
  EXPECT_EQ(parse_one("HYMN_MPI_THREAD_LEVEL", "single").mpi_thread_level, ThreadLevel::single);
  EXPECT_EQ(parse_one("HYMN_MPI_THREAD_LEVEL", "funneled").mpi_thread_level, ThreadLevel::funneled);
  EXPECT_EQ(parse_one("HYMN_MPI_THREAD_LEVEL", "serialized").mpi_thread_level,
            ThreadLevel::serialized);
  EXPECT_EQ(parse_one("HYMN_MPI_THREAD_LEVEL", "multiple").mpi_thread_level, ThreadLevel::multiple);
  for (const char* value : {"abc", "-1", "3", "2147483647", "MPI_THREAD_MULTIPLE", "Multiple"})
    expect_malformed("HYMN_MPI_THREAD_LEVEL", value);
}

TEST(Config, MpiIsAskedForTheLeastThreadLevelThatWillDo) {
  const Config unset = parse_one("HYMN_MPI_THREAD_LEVEL", "");
  EXPECT_EQ(unset.wanted_thread_level(false), ThreadLevel::single);
  EXPECT_EQ(unset.wanted_thread_level(true), ThreadLevel::multiple);
  const Config set = parse_one("HYMN_MPI_THREAD_LEVEL", "serialized");
  for (const bool own_thread : {false, true})
    EXPECT_EQ(set.wanted_thread_level(own_thread), ThreadLevel::serialized);
}

TEST(Config, ChunkLimit) {
  EXPECT_EQ(parse_one("HYMN_CHUNK_LIMIT", "1").chunk_limit, 1u);
  EXPECT_EQ(parse_one("HYMN_CHUNK_LIMIT", "7").chunk_limit, 7u);
  EXPECT_EQ(parse_one("HYMN_CHUNK_LIMIT", "2147483647").chunk_limit, 2147483647u);
  for (const char* value : {"", "abc", "0", "-1", "2147483648", "4294967295",
                            "18446744073709551616", "1e3", "7.0", "+7", "7k"})
    expect_malformed("HYMN_CHUNK_LIMIT", value);
}

TEST(Config, Path) {
  EXPECT_TRUE(parse_one("HYMN_PATH", "").path.allows(paths::mpi));
  const PathPolicy policy = parse_one("HYMN_PATH", "^mpi").path;
  EXPECT_EQ(policy.text(), "^mpi");
  EXPECT_FALSE(policy.allows(paths::mpi));
  EXPECT_TRUE(policy.allows(paths::mpi_p2p));
  for (const char* value : {"abc", "-1", "MPI", "mpi,", "^", "4294967295"})
    expect_malformed("HYMN_PATH", value);
}

TEST(Config, Gpu) {
  EXPECT_EQ(parse_one("HYMN_GPU", "").gpu, "");
  EXPECT_EQ(parse_one("HYMN_GPU", "none").gpu, "none");
  EXPECT_EQ(parse_one("HYMN_GPU", "255").gpu, "255");
  for (const char* value : {"abc", "-1", "256", "0x1", "1,2", "None", "4294967296"})
    expect_malformed("HYMN_GPU", value);
}

TEST(Config, Bind) {
  EXPECT_EQ(parse_one("HYMN_BIND", "none").bind, BindTo::none);
  EXPECT_EQ(parse_one("HYMN_BIND", "core").bind, BindTo::core);
  EXPECT_EQ(parse_one("HYMN_BIND", "numa").bind, BindTo::numa);
  EXPECT_EQ(parse_one("HYMN_BIND", "package").bind, BindTo::package);
  for (const char* value : {"", "abc", "-1", "1", "socket", "Core"})
    expect_malformed("HYMN_BIND", value);
}

TEST(Config, Reproducible) {
  for (const auto level : {Reproducibility::ranks, Reproducibility::runs,
                           Reproducibility::placement, Reproducibility::size})
    EXPECT_EQ(parse_one("HYMN_REPRODUCIBLE", std::string(to_string(level))).reproducibility, level);
  for (const char* value : {"", "abc", "-1", "0", "3", "R2", "Size", "ranks,runs"})
    expect_malformed("HYMN_REPRODUCIBLE", value);
}

TEST(Config, TakesTextsForOthersToRead) {
  EXPECT_EQ(parse_one("HYMN_ALGO", "^all_reduce_mpi").algo, "^all_reduce_mpi");
  EXPECT_EQ(parse_one("HYMN_TUNING", "off").tuning, "off");
  EXPECT_EQ(parse_one("HYMN_TOPOLOGY_FILE", "box.xml").topology_file, "box.xml");
}

TEST(Config, SeveralVariablesAtOnce) {
  const Config config =
      Config::parse({"HYMN_TIMEOUT=5", "HYMN_LOG_LEVEL=info", "HYMN_PROGRESS_THREAD=yes",
                     "HYMN_MPI_THREAD_LEVEL=serialized", "HYMN_PATH=mpi", "HYMN_CHUNK_LIMIT=9"});
  EXPECT_EQ(config.timeout, Timeout(5s));
  EXPECT_EQ(config.log_level, LogLevel::info);
  EXPECT_TRUE(config.progress_thread);
  EXPECT_EQ(config.mpi_thread_level, ThreadLevel::serialized);
  EXPECT_EQ(config.path.text(), "mpi");
  EXPECT_EQ(config.chunk_limit, 9u);
}

TEST(Config, VariablesOfOthersArePassedOver) {
  const Config config = Config::parse({"PATH=/usr/bin", "HYMNAL=a book", "hymn_timeout=abc",
                                       "MY_HYMN_TIMEOUT=abc", "=", "", "TIMEOUT=abc"});
  EXPECT_EQ(config.timeout, Timeout());
}

TEST(Config, UnknownVariablesAreRefusedWithTheNearestOne) {
  EXPECT_THAT(refusal_of({"HYMN_TIMEOUTS=5"}),
              ::testing::AllOf(HasSubstr("no variable HYMN_TIMEOUTS"), HasSubstr("HYMN_TIMEOUT "),
                               HasSubstr("hymn info")));
  EXPECT_THAT(refusal_of({"HYMN_PATHS=mpi"}), HasSubstr("perhaps HYMN_PATH was"));
  EXPECT_THAT(refusal_of({"HYMN_LOGLEVEL=info"}), HasSubstr("perhaps HYMN_LOG_LEVEL was"));
  EXPECT_THAT(refusal_of({"HYMN_PROGRES_THREAD=1"}), HasSubstr("perhaps HYMN_PROGRESS_THREAD was"));
  EXPECT_THAT(refusal_of({"HYMN_CHUNKLIMIT=1"}), HasSubstr("perhaps HYMN_CHUNK_LIMIT was"));
  EXPECT_THAT(refusal_of({"HYMN_THREAD_LEVEL=multiple"}),
              HasSubstr("perhaps HYMN_MPI_THREAD_LEVEL was"));
  EXPECT_THAT(refusal_of({"HYMN_=1"}), HasSubstr("no variable HYMN_;"));
  // Without a value, too; and whatever stands before it.
  EXPECT_THAT(refusal_of({"HYMN_TIMEOUT=1", "HYMN_FASTER"}), HasSubstr("no variable HYMN_FASTER"));
}

/// A variable of this process, for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~ScopedVariable() { ::unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

TEST(Config, Bootstrap) {
  EXPECT_EQ(Config().bootstrap, Bootstrap::mpi);
  EXPECT_EQ(parse_one("HYMN_BOOTSTRAP", "environment").bootstrap, Bootstrap::environment);
  EXPECT_EQ(parse_one("HYMN_BOOTSTRAP", "mpi").bootstrap, Bootstrap::mpi);
  expect_malformed("HYMN_BOOTSTRAP", "torchrun");
  // A secret is not shown to everybody who asks for the settings.
  for (const Setting& setting : parse_one("HYMN_TOKEN", "0123456789abcdef").describe())
    EXPECT_EQ(setting.value.find("0123"), std::string::npos) << setting.name;
}

TEST(Config, Checks) {
  EXPECT_EQ(parse_one("HYMN_CHECKS", "off").checks, CheckLevel::off);
  EXPECT_EQ(parse_one("HYMN_CHECKS", "info").checks, CheckLevel::info);
  EXPECT_EQ(parse_one("HYMN_CHECKS", "detail").checks, CheckLevel::detail);
  for (const char* value : {"", "1", "on", "DETAIL"}) expect_malformed("HYMN_CHECKS", value);
  EXPECT_TRUE(parse_one("HYMN_NAN_CHECK", "1").nan_check);
  expect_malformed("HYMN_NAN_CHECK", "nan");
}

TEST(Config, Metrics) {
  const auto parsed = [](const std::string& value) {
    return parse_one("HYMN_METRICS", value).metrics;
  };
  EXPECT_EQ(parsed("").text, "");
  const MetricsPlace plain = parsed("/tmp/job-");
  EXPECT_EQ(plain.base, "/tmp/job-");
  EXPECT_FALSE(plain.json);
  EXPECT_FALSE(plain.period.has_value());
  const MetricsPlace periodic = parsed("/tmp/job.json:2.5");
  EXPECT_EQ(periodic.text, "/tmp/job.json:2.5");
  EXPECT_EQ(periodic.base, "/tmp/job");
  EXPECT_TRUE(periodic.json);
  EXPECT_EQ(periodic.period, Duration(2500ms));
  EXPECT_EQ(parsed("/tmp/a:b/job").base, "/tmp/a:b/job");
  for (const char* value : {"job:", "job:x", "job:0", "job:-1", "job:1s", "job:inf", "job:1e10"})
    expect_malformed("HYMN_METRICS", value);
}

TEST(Config, DescribesEveryVariable) {
  ::unsetenv("HYMN_TUNING");  // which all tests are started with
  const ScopedVariable timeout("HYMN_TIMEOUT", "1.5");
  const ScopedVariable path("HYMN_PATH", "mpi,exchange");
  const std::vector<Setting> settings = Config::from_environment().describe();
  const std::vector<std::array<std::string, 3>> expected = {
      {"HYMN_TIMEOUT", "1.5", ""},
      {"HYMN_INIT_TIMEOUT", "", ""},
      {"HYMN_ON_FAILURE", "clean_up", "clean_up"},
      {"HYMN_BLOCKING_WAIT", "0", "0"},
      {"HYMN_WATCHDOG_TIMEOUT", "300", "300"},
      {"HYMN_WAIT_REPORT", "30", "30"},
      {"HYMN_LOG_LEVEL", "warning", "warning"},
      {"HYMN_PROGRESS_THREAD", "0", "0"},
      {"HYMN_MPI_THREAD_LEVEL", "", ""},
      {"HYMN_BOOTSTRAP", "mpi", "mpi"},
      {"HYMN_STORE", "", ""},
      {"HYMN_TOKEN", "", ""},
      {"HYMN_PATH", "mpi,exchange", ""},
      {"HYMN_ALGO", "", ""},
      {"HYMN_REPRODUCIBLE", "ranks", "ranks"},
      {"HYMN_TUNING", "", ""},
      {"HYMN_TOPOLOGY_FILE", "", ""},
      {"HYMN_GPU", "", ""},
      {"HYMN_BIND", "none", "none"},
      {"HYMN_RECORDER_SIZE", "512", "512"},
      {"HYMN_RECORDER_FRAMES", "0", "0"},
      {"HYMN_RECORDER_COUNTS", "128", "128"},
      {"HYMN_RECORDER_TIMING", "0", "0"},
      {"HYMN_DUMP", "", ""},
      {"HYMN_DUMP_FORMAT", "json", "json"},
      {"HYMN_CONTROL", "1", "1"},
      {"HYMN_INTERFACE", "", ""},
      {"HYMN_TCP_STREAMS", "1", "1"},
      {"HYMN_CHECKS", "off", "off"},
      {"HYMN_NAN_CHECK", "0", "0"},
      {"HYMN_METRICS", "", ""},
      {"HYMN_NCCL_INIT", "lazy", "lazy"},
      {"HYMN_NCCL_MIN_CTAS", "", ""},
      {"HYMN_NCCL_MAX_CTAS", "", ""},
      {"HYMN_NCCL_CGA_SIZE", "", ""},
      {"HYMN_NCCL_NET", "", ""},
      {"HYMN_NCCL_BLOCKING", "0", "0"},
      {"HYMN_NCCL_REDUCE_IN_FLOAT32", "0", "0"},
      {"HYMN_STREAM_PRIORITY", "normal", "normal"},
      {"HYMN_P2P_COMPAT", "none", "none"},
      {"HYMN_CHUNK_LIMIT", "1073741824", "1073741824"},
      {"HYMN_PRELOAD", "on", "on"},
      {"HYMN_PRELOAD_REPORT", "0", "0"},
      {"HYMN_PRELOAD_BITS", "hymn", "hymn"},
  };
  ASSERT_EQ(settings.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(settings[i].name, expected[i][0]);
    EXPECT_EQ(settings[i].value, expected[i][1]) << settings[i].name;
    EXPECT_EQ(settings[i].default_value, expected[i][2]) << settings[i].name;
    EXPECT_FALSE(settings[i].meaning.empty()) << settings[i].name;
    EXPECT_EQ(settings[i].from_environment,
              settings[i].name == "HYMN_TIMEOUT" || settings[i].name == "HYMN_PATH")
        << settings[i].name;
  }
}

TEST(Config, WhatItDescribesCanBeReadBack) {
  const std::vector<std::string> given = {
      "HYMN_TIMEOUT=none",         "HYMN_LOG_LEVEL=off",
      "HYMN_PROGRESS_THREAD=on",   "HYMN_MPI_THREAD_LEVEL=single",
      "HYMN_PATH=^threads",        "HYMN_CHUNK_LIMIT=1",
      "HYMN_REPRODUCIBLE=size",    "HYMN_RECORDER_SIZE=7",
      "HYMN_P2P_COMPAT=c10d",      "HYMN_RECORDER_FRAMES=3",
      "HYMN_RECORDER_TIMING=on",   "HYMN_DUMP=trace",
      "HYMN_CONTROL=off",          "HYMN_INTERFACE=^eth1",
      "HYMN_ON_FAILURE=tear_down", "HYMN_BLOCKING_WAIT=on",
      "HYMN_INIT_TIMEOUT=90",      "HYMN_WATCHDOG_TIMEOUT=7",
      "HYMN_WAIT_REPORT=0"};
  const Config config = Config::parse(given);
  std::vector<std::string> described;
  for (const Setting& setting : config.describe())
    described.push_back(setting.name + "=" + setting.value);
  const Config again = Config::parse(described);
  EXPECT_EQ(again.timeout, Timeout::none());
  EXPECT_EQ(again.log_level, LogLevel::off);
  EXPECT_TRUE(again.progress_thread);
  EXPECT_EQ(again.mpi_thread_level, ThreadLevel::single);
  EXPECT_EQ(again.path.text(), "^threads");
  EXPECT_EQ(again.reproducibility, Reproducibility::size);
  EXPECT_EQ(again.chunk_limit, 1u);
  EXPECT_EQ(again.recorder_size, 7u);
  EXPECT_EQ(again.recorder_frames, 3u);
  EXPECT_TRUE(again.recorder_timing);
  EXPECT_EQ(again.dump, "trace");
  EXPECT_FALSE(again.control);
  EXPECT_EQ(again.interface, "^eth1");
  EXPECT_EQ(again.on_failure, OnFailure::tear_down);
  EXPECT_TRUE(again.blocking_wait);
  EXPECT_EQ(again.init_timeout, Timeout(90s));
  EXPECT_EQ(again.watchdog_timeout, Timeout(7s));
}

TEST(Config, IsReadFromTheProcess) {
  const ScopedVariable bad("HYMN_TIMEOUT", "soon");
  EXPECT_THROW(Config::from_environment(), ConfigError);
}

}  // namespace
}  // namespace hymn::test
