// Metrics as others read them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "recorder/call_metrics.hpp"

namespace hymn {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// As a label's value may be written.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') safe.push_back('\\');
    if (letter == '\n')
      safe += "\\n";
    else
      safe.push_back(letter);
  }
  return safe;
}

struct Family {
  std::string_view name;
  std::string_view help;
  std::string (*value)(const OperationMetrics&);
};

constexpr Family families[] = {
    {"hymn_operations_total", "Operations that have ended, successfully or not.",
     [](const OperationMetrics& m) { return fmt::format("{}", m.operations); }},
    {"hymn_failures_total", "Operations that have failed.",
     [](const OperationMetrics& m) { return fmt::format("{}", m.failures); }},
    {"hymn_bytes_total", "Bytes that this rank sent, or received where it sent nothing.",
     [](const OperationMetrics& m) { return fmt::format("{}", m.bytes); }},
    {"hymn_operation_seconds_total", "Time from call, or start, to end of operations.",
     [](const OperationMetrics& m) { return fmt::format("{}", seconds(m.total)); }},
    {"hymn_wait_seconds_total", "Time in which threads were blocked by operations.",
     [](const OperationMetrics& m) { return fmt::format("{}", seconds(m.waiting)); }},
};

}  // namespace

std::string metrics_json(const std::vector<OperationMetrics>& metrics, int rank,
                         std::uint64_t dropped) {
  nlohmann::ordered_json operations = nlohmann::ordered_json::array();
  for (const OperationMetrics& one : metrics)
    operations.push_back({{"path", one.path},
                          {"op", std::string(to_string(one.type))},
                          {"operations", one.operations},
                          {"failures", one.failures},
                          {"bytes", one.bytes},
                          {"operation_seconds", seconds(one.total)},
                          {"wait_seconds", seconds(one.waiting)}});
  const nlohmann::ordered_json all = {
      {"rank", rank}, {"dropped_messages", dropped}, {"operations", std::move(operations)}};
  return all.dump(1) + "\n";
}

std::string metrics_prometheus(const std::vector<OperationMetrics>& metrics, int rank,
                               std::uint64_t dropped) {
  std::string text = fmt::format(
      "# HELP hymn_dropped_messages_total Messages whose group had ended when they arrived.\n"
      "# TYPE hymn_dropped_messages_total counter\n"
      "hymn_dropped_messages_total{{rank=\"{}\"}} {}\n",
      rank, dropped);
  for (const Family& family : families) {
    text += fmt::format("# HELP {} {}\n# TYPE {} counter\n", family.name, family.help, family.name);
    for (const OperationMetrics& one : metrics)
      text += fmt::format("{}{{rank=\"{}\",path=\"{}\",op=\"{}\"}} {}\n", family.name, rank,
                          escaped(one.path), escaped(to_string(one.type)), family.value(one));
  }
  return text;
}

}  // namespace hymn
