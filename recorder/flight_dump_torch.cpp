#include "recorder/flight_dump_torch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace hymn {
namespace {

constexpr const char* format_version = "2.10";
// Calls that follow each other with one number are taken for coalesced ones there, be it of a
// collective or of a message: so messages have numbers that no collective has.
constexpr std::uint64_t first_message = std::uint64_t{1} << 32;

/// Global ranks, by the name of the group.
using Members = std::map<std::string, std::vector<int>>;

/// A collective that c10d has, too, and by the same name.
struct Collective {
  std::string_view name;
  std::string_view coalesced = "";  ///< "": c10d does not coalesce it
};
constexpr std::array<Collective, 9> collectives = {{
    {"all_reduce", "allreduce_coalesced"},
    {"broadcast"},
    {"reduce"},
    {"gather"},
    {"scatter"},
    {"all_gather", "all_gather_into_tensor_coalesced"},
    {"reduce_scatter", "reduce_scatter_tensor_coalesced"},
    {"all_to_all"},
    {"barrier"},
}};

/// "": c10d has none.
std::string collective_name(std::string_view op, bool is_coalesced) {
  const auto found = std::ranges::find(collectives, op, &Collective::name);
  if (found == collectives.end()) return "";
  return std::string(is_coalesced ? found->coalesced : found->name);
}

std::optional<std::size_t> place_of(int rank, const std::vector<int>& members) {
  const auto found = std::ranges::find(members, rank);
  if (found == members.end()) return std::nullopt;
  return static_cast<std::size_t>(found - members.begin());
}

/// Of ranks of the group, where hymn tells those of the world.
std::string message_name(const DumpJson& entry, int rank, const std::vector<int>& members) {
  const auto own = place_of(rank, members);
  const int peer = entry.at("peer").get<int>();
  const auto other = place_of(peer, members);
  if (!own || (!other && peer >= 0)) return "";
  if (entry.at("op") == "recv")
    return fmt::format("recv {}<-{}", *own, other ? std::to_string(*other) : "?");
  return entry.at("op") == "send" && other ? fmt::format("send {}->{}", *own, *other) : "";
}

std::string name_of(const DumpJson& entry, int rank, const std::vector<int>& members) {
  if (entry.at("is_p2p").get<bool>()) return message_name(entry, rank, members);
  return collective_name(entry.at("op").get_ref<const std::string&>(),
                         entry.value("coalesced", false));
}

DumpJson frame_of(const DumpJson& frame) {
  const bool in_source = frame.contains("filename");
  return {{"name", frame.value("name", frame.value("address", "?"))},
          {"filename", in_source ? frame.at("filename") : DumpJson(frame.value("module", "?"))},
          {"line", in_source ? frame.at("line") : DumpJson(0)}};
}

// c10d works in one buffer there, and tells it on both sides, on all ranks.
void tell_both_sides(DumpJson& entry) {
  const auto copy = [&entry](const std::string& from, const std::string& to) {
    if (!entry.at(to + "_sizes").empty()) return;
    entry[to + "_sizes"] = entry.at(from + "_sizes");
    entry[to + "_dtypes"] = entry.at(from + "_dtypes");
  };
  copy("input", "output");
  copy("output", "input");
}

DumpJson entry_of(const DumpJson& given, const std::string& name) {
  DumpJson entry = given;
  entry["profiling_name"] = "hymn:" + name;
  if (given.at("state") == "failed")
    entry["state"] = given.at("time_discovered_started_ns").is_null() ? "scheduled" : "started";
  if (given.at("is_p2p").get<bool>())
    entry["p2p_seq_id"] = first_message + given.at("p2p_seq_id").get<std::uint64_t>();
  if (name == "broadcast" || name == "reduce" || name == "all_reduce") tell_both_sides(entry);
  entry["frames"] = DumpJson::array();
  for (const DumpJson& frame : given.at("frames")) entry["frames"].push_back(frame_of(frame));
  return entry;
}

}  // namespace

DumpJson torch_dump(const DumpJson& dump) {
  DumpJson told = {{"version", format_version},
                   {"pg_config", DumpJson::object()},
                   {"entries", DumpJson::array()}};
  Members members;
  for (const auto& [name, group] : dump.at("pg_config").items()) {
    if (group.at("ranks").is_null()) continue;
    members[name] = group.at("ranks").get<std::vector<int>>();
    told["pg_config"][name] = {
        {"name", name}, {"desc", group.at("desc")}, {"ranks", group.at("ranks").dump()}};
  }
  if (!dump.contains("entries")) return told;
  for (const DumpJson& entry : dump.at("entries")) {
    const auto group = members.find(entry.at("process_group").at(0).get<std::string>());
    if (group == members.end()) continue;
    const std::string name = name_of(entry, dump.at("rank").get<int>(), group->second);
    if (!name.empty()) told["entries"].push_back(entry_of(entry, name));
  }
  return told;
}

}  // namespace hymn
