// Collectives of one place in a group's order that its members have called differently.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

// What has to be the same on all members. The signature says it all; without one, what does not
// depend on the rank: the sizes of a gather differ between its root and the others.
std::string demand(const Entry& entry) {
  if (!entry.signature.empty()) return entry.op + " " + entry.signature;
  const bool same_size =
      entry.op == "all_reduce" || entry.op == "broadcast" || entry.op == "reduce";
  const BufferList& buffers = entry.input.sizes.size() > 2 ? entry.input : entry.output;
  return fmt::format("{} {} {} {} {}", entry.op, entry.reduce_op, buffers.dtype,
                     entry.root ? std::to_string(*entry.root) : "",
                     same_size ? std::to_string(buffers.elements) : "");
}

/// Members that demand the same of one place in the order.
struct Class {
  std::vector<int> ranks;
  const Entry* first = nullptr;
};
using Classes = std::map<std::string, Class>;

// Only entries that have a signature can be compared with each other, and only those that have not.
Classes classes_at(const Group& group, std::int64_t sequence) {
  Classes with_signature;
  Classes without;
  for (const Member& member : group.members)
    if (const Entry* entry = member.find(sequence)) {
      Class& members = (entry->signature.empty() ? without : with_signature)[demand(*entry)];
      members.ranks.push_back(member.rank);
      if (members.first == nullptr) members.first = entry;
    }
  return with_signature.size() >= without.size() ? with_signature : without;
}

bool differs(const Group& group, std::int64_t sequence) {
  return classes_at(group, sequence).size() > 1;
}

/// All places of a group's order that are in the ring of two members at least.
std::vector<std::int64_t> shared_places(const Group& group) {
  std::vector<std::int64_t> all;
  for (const Member& member : group.members)
    for (const Entry* entry : member.collectives) all.push_back(entry->collective_seq);
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> shared;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i] == all[i - 1] && (shared.empty() || shared.back() != all[i]))
      shared.push_back(all[i]);
  return shared;
}

// The same two operations, the other way round.
bool is_swapped(const Group& group, const Class& one, const Class& other, std::int64_t sequence) {
  const Entry* one_next = group.member(one.ranks[0])->find(sequence + 1);
  const Entry* other_next = group.member(other.ranks[0])->find(sequence + 1);
  return one_next != nullptr && other_next != nullptr &&
         demand(*one.first) == demand(*other_next) && demand(*other.first) == demand(*one_next);
}

std::vector<Class> by_size(const Classes& classes) {
  std::vector<Class> sorted;
  for (const auto& [key, members] : classes) sorted.push_back(members);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Class& a, const Class& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size()
                                            : a.ranks[0] < b.ranks[0];
  });
  return sorted;
}

std::string side_line(const Side& side) {
  const std::string site = side.site.empty() ? "" : " at " + side.site;
  return fmt::format("{} {} {}{}", ranks_text(side.ranks),
                     side.ranks.size() == 1 ? "calls" : "call", side.call, site);
}

void describe_order(Finding& finding, const std::vector<Class>& classes, std::int64_t sequence) {
  finding.kind = FindingKind::order;
  finding.title = fmt::format("{} and #{} of group '{}' are called in the opposite order on {}",
                              call_name(*classes[0].first, classes[0].ranks[0]), sequence + 1,
                              finding.group_label, ranks_text(finding.culprits));
  finding.advice = "make the two calls in the same order on all ranks of the group";
}

void describe_mismatch(Finding& finding, const std::vector<Class>& classes) {
  finding.title =
      fmt::format("the ranks of group '{}' call different collectives as #{}: {} differs",
                  finding.group_label, finding.sequence, ranks_text(finding.culprits));
  const bool look_alike = std::all_of(classes.begin(), classes.end(), [&](const Class& members) {
    return call_words(*members.first) == call_words(*classes[0].first);
  });
  if (look_alike)
    finding.details.emplace_back(
        "their signatures differ, in something that the dumps do not tell");
  finding.advice =
      "compare these calls: operation, number of elements, type, reduction and root "
      "have to be the same on all ranks";
}

Finding finding_at(const Case& all, const Group& group, std::int64_t sequence) {
  Finding finding;
  finding.kind = FindingKind::mismatch;
  finding.group_uid = group.uid;
  finding.group_label = group.label;
  finding.sequence = sequence;
  const std::vector<Class> classes = by_size(classes_at(group, sequence));
  finding.op = classes[0].first->op;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    finding.sides.push_back(
        {classes[i].ranks, call_words(*classes[i].first), site_text(classes[i].first->site)});
    if (i > 0)
      finding.culprits.insert(finding.culprits.end(), classes[i].ranks.begin(),
                              classes[i].ranks.end());
  }
  std::sort(finding.culprits.begin(), finding.culprits.end());
  for (const Side& side : finding.sides) {
    if (finding.details.size() == 8) {
      finding.details.push_back(fmt::format("… and {} more", finding.sides.size() - 8));
      break;
    }
    finding.details.push_back(side_line(side));
  }
  if (classes.size() == 2 && is_swapped(group, classes[0], classes[1], sequence))
    describe_order(finding, classes, sequence);
  else
    describe_mismatch(finding, classes);
  for (const Wait& wait : all.waits)
    if (wait.group == &group && !wait.is_p2p && wait.sequence >= sequence) {
      finding.waiting = wait.ranks();
      finding.waited_seconds = wait.longest;
      finding.details.push_back(waiting_text(wait));
      break;
    }
  return finding;
}

}  // namespace

std::vector<Finding> find_mismatches(const Case& all) {
  std::vector<Finding> findings;
  for (const Group& group : all.job.groups()) {
    // What comes after the first difference follows from it.
    for (const std::int64_t sequence : shared_places(group)) {
      if (!differs(group, sequence)) continue;
      findings.push_back(finding_at(all, group, sequence));
      break;
    }
  }
  return findings;
}

}  // namespace hymn::trace
