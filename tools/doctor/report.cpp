#include "tools/doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace hymn {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t columns = 96;

std::string list_hosts(const std::vector<std::string>& hosts) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < hosts.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + hosts[i];
  if (hosts.size() > most) text += fmt::format(" and {} more", hosts.size() - most);
  return text;
}

std::string concerned_text(const Finding& finding) {
  if (!finding.ranks.empty())
    return fmt::format("rank{} {}", finding.ranks.size() == 1 ? "" : "s",
                       list_ranks(finding.ranks));
  if (!finding.hosts.empty())
    return fmt::format("host{} {}", finding.hosts.size() == 1 ? "" : "s",
                       list_hosts(finding.hosts));
  return "the job";
}

// Lines that begin with `label`, and go on below its end.
std::string paragraph(const std::string& label, std::string_view text) {
  std::string result;
  std::string line = label;
  bool has_words = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (has_words && line.size() + 1 + word.size() > columns) {
      result += line + "\n";
      line = std::string(label.size(), ' ');
      has_words = false;
    }
    line += (has_words ? " " : "") + std::string(word);
    has_words = true;
  }
  return result + line + "\n";
}

std::string counted(int count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string summary(const std::vector<Finding>& findings) {
  std::array<int, 4> counts{};
  for (const Finding& finding : findings) ++counts[static_cast<std::size_t>(finding.kind.severity)];
  return fmt::format("{}, {}, {}\n", counted(counts[3], "error"), counted(counts[2], "warning"),
                     counted(counts[1], "note"));
}

}  // namespace

std::string report_text(const DoctorScope& scope, const FindingList& findings, bool verbose) {
  const auto sorted = findings.sorted();
  std::string text = paragraph("hymn doctor: ",
                               fmt::format("{} on {} ({}); {}; {}", counted(scope.ranks, "rank"),
                                           counted(static_cast<int>(scope.hosts.size()), "host"),
                                           list_hosts(scope.hosts), scope.launcher, scope.library));
  for (const Finding& finding : sorted) {
    if (finding.kind.severity == Severity::ok) continue;
    text += fmt::format("\n{}  {}  ({})\n", to_string(finding.kind.severity), finding.kind.id,
                        concerned_text(finding));
    text += paragraph("  seen:        ", finding.seen);
    text += paragraph("  consequence: ", finding.kind.consequence);
    text += paragraph("  remedy:      ", finding.kind.remedy);
  }
  if (verbose) text += "\nin order\n";
  for (const Finding& finding : sorted) {
    if (!verbose || finding.kind.severity != Severity::ok) continue;
    text += paragraph(fmt::format("  {:<12} ", finding.kind.id),
                      fmt::format("{} ({})", finding.seen, concerned_text(finding)));
  }
  return text + "\n" + summary(sorted);
}

std::string report_json(const DoctorScope& scope, const FindingList& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings.sorted())
    list.push_back({{"id", finding.kind.id},
                    {"severity", to_string(finding.kind.severity)},
                    {"seen", finding.seen},
                    {"consequence", finding.kind.consequence},
                    {"remedy", finding.kind.remedy},
                    {"ranks", finding.ranks},
                    {"hosts", finding.hosts}});
  const Json report{{"severity", to_string(findings.worst())},
                    {"ranks", scope.ranks},
                    {"hosts", scope.hosts},
                    {"launcher", scope.launcher},
                    {"mpi", scope.library},
                    {"findings", list}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int exit_code(Severity worst) noexcept {
  if (worst == Severity::error) return 4;
  return worst == Severity::warning ? 3 : 0;
}

}  // namespace hymn
