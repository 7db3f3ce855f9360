// The list of findings: put together, put in order.
#include "tools/doctor/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace hymn {
namespace {

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

template <class T>
void put_in_order(std::vector<T>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "?";
}

void FindingList::add(std::string_view id, const std::string& seen, const Concerned& concerned) {
  const auto kinds = finding_kinds();
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(), [id](const auto& k) { return k.id == id; });
  if (kind == kinds.end())
    throw std::logic_error(fmt::format("there is no kind of finding '{}'", id));
  put(*kind, seen, concerned);
}

void FindingList::fine(std::string_view subject, const std::string& seen,
                       const Concerned& concerned) {
  put({.id = subject, .severity = Severity::ok, .consequence = "", .remedy = ""}, seen, concerned);
}

void FindingList::put(const FindingKind& kind, const std::string& seen,
                      const Concerned& concerned) {
  const auto same = std::find_if(findings_.begin(), findings_.end(), [&](const Finding& finding) {
    return finding.kind.id == kind.id && finding.seen == seen;
  });
  if (same == findings_.end()) {
    findings_.push_back({kind, seen, concerned.ranks, concerned.hosts});
  } else {
    append(same->ranks, concerned.ranks);
    append(same->hosts, concerned.hosts);
  }
}

std::vector<Finding> FindingList::sorted() const {
  const auto kinds = finding_kinds();
  const auto place = [kinds](const Finding& finding) {
    return std::find_if(kinds.begin(), kinds.end(),
                        [&](const auto& kind) { return kind.id == finding.kind.id; }) -
           kinds.begin();
  };
  auto findings = findings_;
  std::stable_sort(findings.begin(), findings.end(), [&](const Finding& a, const Finding& b) {
    if (a.kind.severity != b.kind.severity) return a.kind.severity > b.kind.severity;
    return place(a) < place(b);
  });
  for (Finding& finding : findings) {
    put_in_order(finding.ranks);
    put_in_order(finding.hosts);
  }
  return findings;
}

Severity FindingList::worst() const {
  Severity worst = Severity::ok;
  for (const Finding& finding : findings_) worst = std::max(worst, finding.kind.severity);
  return worst;
}

std::string list_ranks(std::span<const int> ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::format("{}", ranks[first])
                          : fmt::format("{}-{}", ranks[first], ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace hymn
