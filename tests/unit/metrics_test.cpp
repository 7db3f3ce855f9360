// Metrics as text and as files; hooks that are told what has ended.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "recorder/metrics_file.hpp"
#include "runtime/group/completions.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

TEST(CallMetrics, AddUpByPathAndKind) {
  CallMetrics metrics;
  metrics.add("mpi", OpType::all_reduce, 10, true, 2s, 1s);
  metrics.add("mpi", OpType::all_reduce, 5, false, 3s, 0s);
  metrics.add("shm", OpType::all_reduce, 1, true, 1s, 0s);
  metrics.add_waiting("mpi", OpType::all_reduce, 500ms);
  const auto all = metrics.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].path, "mpi");
  EXPECT_EQ(all[0].operations, 2u);
  EXPECT_EQ(all[0].failures, 1u);
  EXPECT_EQ(all[0].bytes, 15u);
  EXPECT_EQ(all[0].total, Duration(5s));
  EXPECT_EQ(all[0].waiting, Duration(1500ms));
  EXPECT_EQ(all[1].path, "shm");
}

TEST(CallMetrics, ForPrometheus) {
  const std::vector<OperationMetrics> metrics = {{.path = "a\"b\\c\nd",
                                                  .type = OpType::send,
                                                  .operations = 3,
                                                  .failures = 1,
                                                  .bytes = 12,
                                                  .total = 1500ms,
                                                  .waiting = 250ms}};
  const std::string labels = R"({rank="7",path="a\"b\\c\nd",op="send"} )";
  const std::string expected =
      "# HELP hymn_dropped_messages_total Messages whose group had ended when they arrived.\n"
      "# TYPE hymn_dropped_messages_total counter\n"
      "hymn_dropped_messages_total{rank=\"7\"} 4\n"
      "# HELP hymn_operations_total Operations that have ended, successfully or not.\n"
      "# TYPE hymn_operations_total counter\nhymn_operations_total" +
      labels +
      "3\n"
      "# HELP hymn_failures_total Operations that have failed.\n"
      "# TYPE hymn_failures_total counter\nhymn_failures_total" +
      labels +
      "1\n"
      "# HELP hymn_bytes_total Bytes that this rank sent, or received where it sent nothing.\n"
      "# TYPE hymn_bytes_total counter\nhymn_bytes_total" +
      labels +
      "12\n"
      "# HELP hymn_operation_seconds_total Time from call, or start, to end of operations.\n"
      "# TYPE hymn_operation_seconds_total counter\nhymn_operation_seconds_total" +
      labels +
      "1.5\n"
      "# HELP hymn_wait_seconds_total Time in which threads were blocked by operations.\n"
      "# TYPE hymn_wait_seconds_total counter\nhymn_wait_seconds_total" +
      labels + "0.25\n";
  EXPECT_EQ(metrics_prometheus(metrics, 7, 4), expected);
  const auto json = nlohmann::json::parse(metrics_json(metrics, 7, 4));
  EXPECT_EQ(json["dropped_messages"], 4);
  EXPECT_EQ(json["rank"], 7);
  EXPECT_EQ(json["operations"][0]["path"], "a\"b\\c\nd");
  EXPECT_EQ(json["operations"][0]["operation_seconds"], 1.5);
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("hymn-metrics-" + std::to_string(::getpid()))) {
    fs::create_directory(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string base() const { return (path_ / "job-").string(); }

 private:
  fs::path path_;
};

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::uint64_t none_dropped() { return 0; }

TEST(MetricsFile, IsWrittenWhenThePeriodHasPassed) {
  const Folder folder;
  CallMetrics metrics;
  MetricsFile file({.text = "given", .base = folder.base(), .period = 10s}, 3, metrics,
                   none_dropped, {});
  EXPECT_EQ(file.path(), folder.base() + "3.prom");
  const TimePoint begin{};
  file.tick(begin);
  file.tick(begin + 9s);
  EXPECT_FALSE(fs::exists(file.path()));
  file.tick(begin + 10s);
  EXPECT_EQ(content(file.path()), metrics_prometheus(metrics.all(), 3, 0));
  metrics.add("mpi", OpType::barrier, 0, true, 1s, 1s);
  file.tick(begin + 19s);
  EXPECT_EQ(content(file.path()).find("barrier"), std::string::npos);
  file.tick(begin + 20s);
  EXPECT_EQ(content(file.path()), metrics_prometheus(metrics.all(), 3, 0));
}

TEST(MetricsFile, WithoutAPeriodOnlyWhenAsked) {
  const Folder folder;
  const CallMetrics metrics;
  MetricsFile file({.text = "given", .base = folder.base(), .json = true}, 0, metrics, none_dropped,
                   {});
  EXPECT_EQ(file.path(), folder.base() + "0.json");
  file.tick({});
  file.tick(TimePoint{} + 24h);
  EXPECT_FALSE(fs::exists(file.path()));
  file.write();
  EXPECT_EQ(content(file.path()), metrics_json({}, 0, 0));
}

/// What is logged while it lives.
class Log {
 public:
  Log()
      : before_(set_log_sink(
            [this](LogLevel, int, std::string_view text) { lines_.emplace_back(text); })) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() { set_log_sink(before_); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
  LogSink before_;
};

TEST(MetricsFile, ComplainsOnce) {
  const Log log;
  const CallMetrics metrics;
  MetricsFile file({.text = "given", .base = "/nowhere/at/all/"}, 0, metrics, none_dropped,
                   Logger(LogLevel::warning, 0));
  file.write();
  file.write();
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("/nowhere/at/all/0.prom"), std::string::npos);
  EXPECT_NE(log.lines()[0].find("HYMN_METRICS"), std::string::npos);
}

CompletionInfo numbered(std::uint64_t sequence) {
  CompletionInfo info;
  info.sequence = sequence;
  return info;
}

TEST(Completions, AreToldInOrderAndOnce) {
  Completions completions;
  std::vector<std::uint64_t> told;
  completions.note(numbered(1));  // before there was a hook
  completions.add_hook([&](const CompletionInfo& info) { told.push_back(info.sequence); });
  completions.note(numbered(2));
  completions.note(numbered(3));
  EXPECT_TRUE(told.empty());
  completions.tell({});
  completions.tell({});
  EXPECT_EQ(told, (std::vector<std::uint64_t>{2, 3}));
}

TEST(Completions, WhatAHookEndsIsToldAfterwards) {
  Completions completions;
  std::vector<std::uint64_t> told;
  completions.add_hook([&](const CompletionInfo& info) {
    if (info.sequence == 1) {
      completions.note(numbered(2));
      completions.tell({});
      completions.settle({}, {});
      EXPECT_TRUE(told.empty());
    }
    told.push_back(info.sequence);
  });
  completions.note(numbered(1));
  completions.tell({});
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2}));
}

TEST(Completions, OneThreadTellsAndOthersCanWaitForIt) {
  Completions completions;
  std::promise<void> in_hook;
  std::promise<void> go_on;
  std::atomic<int> told{0};
  completions.add_hook([&](const CompletionInfo& info) {
    if (info.sequence == 1) {
      in_hook.set_value();
      go_on.get_future().wait();
    }
    ++told;
  });
  completions.note(numbered(1));
  auto teller = std::async(std::launch::async, [&] { completions.tell({}); });
  in_hook.get_future().wait();
  completions.note(numbered(2));
  completions.tell({});  // another one is at it
  EXPECT_EQ(told, 0);
  auto settler = std::async(std::launch::async, [&] {
    completions.settle({}, {});
    return told.load();
  });
  go_on.set_value();
  EXPECT_EQ(settler.get(), 2);
  teller.get();
}

TEST(Completions, LetGoOfHooksWhenClosed) {
  Completions completions;
  const auto held = std::make_shared<int>();
  int told = 0;
  completions.add_hook([held, &told](const CompletionInfo&) { ++told; });
  completions.note(numbered(1));
  completions.close({}, {});
  EXPECT_EQ(told, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Completions, ClosedWithinAHookTellTheRest) {
  Completions completions;
  const auto held = std::make_shared<int>();
  int told = 0;
  completions.add_hook([held, &told, &completions](const CompletionInfo&) {
    if (++told == 1) completions.close({}, {});
  });
  completions.note(numbered(1));
  completions.note(numbered(2));
  completions.tell({});
  EXPECT_EQ(told, 2);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Completions, AHookThatThrowsIsLogged) {
  const Log log;
  Completions completions;
  completions.add_hook([](const CompletionInfo&) { throw std::runtime_error("bad luck"); });
  completions.add_hook([](const CompletionInfo&) { throw 7; });
  completions.note(numbered(1));
  completions.tell(Logger(LogLevel::warning, 0));
  ASSERT_EQ(log.lines().size(), 2u);
  EXPECT_NE(log.lines()[0].find("bad luck"), std::string::npos);
}

}  // namespace
}  // namespace hymn::test
