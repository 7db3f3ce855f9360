#include "tools/trace/perfetto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string_view state_name(EntryState state) {
  switch (state) {
    case EntryState::scheduled:
      return "scheduled";
    case EntryState::started:
      return "started";
    case EntryState::completed:
      return "completed";
    case EntryState::failed:
      return "failed";
  }
  return "";
}

std::int64_t first_time(const Job& job) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Dump& dump : job.dumps())
    for (const Entry& entry : dump.entries)
      if (entry.created_ns && *entry.created_ns > 0) first = std::min(first, *entry.created_ns);
  return first;
}

OrderedJson arguments_of(const Entry& entry) {
  OrderedJson json{{"sequence", entry.is_p2p ? entry.p2p_seq : entry.collective_seq},
                   {"op_id", entry.op_id},
                   {"state", state_name(entry.state)},
                   {"input_sizes", entry.input.sizes},
                   {"input_dtype", entry.input.dtype},
                   {"output_sizes", entry.output.sizes},
                   {"output_dtype", entry.output.dtype}};
  const auto add = [&json](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  add("signature", entry.signature);
  add("reduce_op", entry.reduce_op);
  add("path", entry.path);
  add("algorithm", entry.algorithm);
  add("site", site_text(entry.site));
  if (entry.shadowed) json["shadowed"] = true;
  if (entry.root) json["root"] = *entry.root;
  if (entry.peer) json["peer"] = *entry.peer;
  return json;
}

double microseconds(std::int64_t from, std::int64_t to) { return seconds_between(from, to) * 1e6; }

// Without recorded times an operation that has completed is a moment.
double duration_of(const Entry& entry, std::int64_t start) {
  if (entry.duration_ms) return std::max(*entry.duration_ms * 1e3, 0.0);
  return entry.completed_ns ? std::max(microseconds(start, *entry.completed_ns), 0.0) : 0.0;
}

class Writer {
 public:
  explicit Writer(const Job& job) : job_(job), start_(first_time(job)) {}

  std::string write() {
    for (const Dump& dump : job_.dumps()) add(dump);
    const OrderedJson json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}};
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  }

 private:
  void add(const Dump& dump) {
    name(dump.rank, 0, "process_name",
         fmt::format("rank {}{}", dump.rank, dump.host.empty() ? "" : " on " + dump.host));
    events_.push_back({{"name", "process_sort_index"},
                       {"ph", "M"},
                       {"pid", dump.rank},
                       {"tid", 0},
                       {"args", {{"sort_index", dump.rank}}}});
    std::set<std::size_t> named;
    for (const Entry& entry : dump.entries) {
      if (!entry.created_ns) continue;
      const auto group = static_cast<std::size_t>(job_.group(entry.group) - job_.groups().data());
      if (named.insert(group).second)
        name(dump.rank, group + 1, "thread_name", job_.groups()[group].label);
      add(dump, entry, *entry.created_ns, group + 1);
    }
  }

  void name(int rank, std::size_t thread, const char* what, const std::string& name) {
    events_.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}});
  }

  void add(const Dump& dump, const Entry& entry, std::int64_t created, std::size_t thread) {
    const bool is_open = entry.state != EntryState::completed && !entry.retired;
    OrderedJson event{{"name", call_name(entry, dump.rank)},
                      {"cat", entry.is_p2p ? "p2p" : "collective"},
                      {"ph", is_open ? "B" : "X"},
                      {"pid", dump.rank},
                      {"tid", thread},
                      {"ts", microseconds(start_, created)}};
    if (!is_open) event["dur"] = duration_of(entry, created);
    event["args"] = arguments_of(entry);
    events_.push_back(std::move(event));
  }

  const Job& job_;
  std::int64_t start_;
  OrderedJson events_ = OrderedJson::array();
};

}  // namespace

std::string perfetto_json(const Job& job) { return Writer(job).write(); }

}  // namespace hymn::trace
