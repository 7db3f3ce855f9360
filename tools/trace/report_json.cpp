// The verdict as JSON. docs/trace.md describes it.
#include <nlohmann/json.hpp>

#include "tools/trace/report.hpp"
#include "tools/words.hpp"

namespace hymn::trace {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson finding_json(const Finding& finding) {
  OrderedJson sides = OrderedJson::array();
  for (const Side& side : finding.sides)
    sides.push_back({{"ranks", side.ranks}, {"call", side.call}, {"site", side.site}});
  OrderedJson json{{"kind", to_string(finding.kind)}, {"fault", finding.is_fault},
                   {"title", finding.title},          {"details", finding.details},
                   {"advice", finding.advice},        {"ranks", finding.culprits},
                   {"waiting", finding.waiting},      {"waited_s", finding.waited_seconds}};
  json["group"] = finding.group_uid.empty() ? OrderedJson(nullptr) : OrderedJson(finding.group_uid);
  json["group_label"] =
      finding.group_uid.empty() ? OrderedJson(nullptr) : OrderedJson(finding.group_label);
  json["op"] = finding.op.empty() ? OrderedJson(nullptr) : OrderedJson(finding.op);
  json["sequence"] = finding.sequence == 0 ? OrderedJson(nullptr) : OrderedJson(finding.sequence);
  json["p2p"] = finding.is_p2p;
  json["sides"] = std::move(sides);
  return json;
}

OrderedJson dump_json(const Dump& dump) {
  return {{"rank", dump.rank},
          {"file", printable(dump.file, 4096)},
          {"host", dump.host},
          {"pid", dump.pid},
          {"time_ns", dump.time_ns},
          {"trigger", dump.trigger},
          {"reason", dump.reason},
          {"written_by", dump.written_by},
          {"operations", dump.entries.size()},
          {"cut", dump.truncated}};
}

}  // namespace

std::string report_json(const Job& job, const std::vector<Finding>& findings,
                        const std::vector<FileNote>& notes) {
  OrderedJson dumps = OrderedJson::array();
  for (const Dump& dump : job.dumps()) dumps.push_back(dump_json(dump));
  OrderedJson without = OrderedJson::array();
  for (int rank = 0; rank < job.world_size(); ++rank)
    if (job.dump(rank) == nullptr) without.push_back(rank);
  OrderedJson found = OrderedJson::array();
  for (const Finding& finding : findings) found.push_back(finding_json(finding));
  OrderedJson said = OrderedJson::array();
  for (const FileNote& note : notes)
    said.push_back(
        {{"file", printable(note.file, 4096)}, {"text", note.text}, {"used", !note.is_lost}});
  const Dump& first = job.dumps().front();
  const OrderedJson json{{"hymn_trace", 1},
                         {"verdict", has_fault(findings) ? "fault" : "no_fault"},
                         {"job", first.job},
                         {"program", first.program},
                         {"world_size", job.world_size()},
                         {"findings", std::move(found)},
                         {"dumps", std::move(dumps)},
                         {"without_dump", std::move(without)},
                         {"notes", std::move(said)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hymn::trace
