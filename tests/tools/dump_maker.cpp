#include "tests/tools/dump_maker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "tools/trace/dump_reader.hpp"

namespace hymn::test {

namespace {

using Json = nlohmann::json;

bool is_message(const MadeCall& call) {
  return call.op == "send" || call.op == "recv" || call.op == "probe";
}

bool reduces(const std::string& op) {
  return op == "all_reduce" || op == "reduce" || op == "reduce_scatter";
}

// Hexadecimal, and different for different calls: FNV-1a.
std::string signature_of(const MadeCall& call) {
  if (call.signature != "made") return call.signature;
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : call.op + "/" + std::to_string(call.elements) + "/" + call.dtype + "/" +
                          (reduces(call.op) ? call.reduce_op : "") + "/" +
                          std::to_string(call.root))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::ostringstream text;
  text << std::hex << hash;
  return text.str();
}

std::string name_of(const MadeCall& call, int rank) {
  const std::string peer = call.peer < 0 ? "any" : std::to_string(call.peer);
  if (!is_message(call)) return "hymn:" + call.op;
  return "hymn:" + call.op + " " + std::to_string(rank) + (call.op == "send" ? "->" : "<-") + peer;
}

}  // namespace

DumpMaker::DumpMaker(int rank, int world_size) {
  json_ = {{"version", "1.0"},
           {"hymn_version", "0.1.0"},
           {"job", "9f3c"},
           {"rank", rank},
           {"world_size", world_size},
           {"host", "node" + std::string(1, static_cast<char>('A' + rank / 2 % 26))},
           {"pid", 4711 + rank},
           {"program", "solver"},
           {"written_by", rank},
           {"trigger", "timeout"},
           {"reason", "all_reduce #412 has not completed after 30.000 s"},
           {"time_ns", time_ns},
           {"timing", false},
           {"capacity", 512},
           {"recorded", 0},
           {"pg_config", Json::object()},
           {"peers", Json::array()},
           {"entries", Json::array()}};
  std::vector<int> all(static_cast<std::size_t>(world_size));
  std::iota(all.begin(), all.end(), 0);
  group("0", "default_pg", all);
}

DumpMaker& DumpMaker::with(const std::string& key, Json value) {
  json_[key] = std::move(value);
  return *this;
}

DumpMaker& DumpMaker::without(const std::string& key) {
  json_.erase(key);
  return *this;
}

DumpMaker& DumpMaker::group(const std::string& uid, const std::string& description,
                            const std::vector<int>& ranks) {
  json_["pg_config"][uid] = {{"name", uid},
                             {"desc", description},
                             {"label", uid == "0" ? description : description + "#" + uid},
                             {"ranks", ranks},
                             {"parent", 0},
                             {"epoch", 0},
                             {"tag", ""},
                             {"collective_seq", 0},
                             {"completed_seq", 0},
                             {"p2p_seq", 0},
                             {"timeout_ms", 600000}};
  return *this;
}

DumpMaker& DumpMaker::shadows(const std::string& uid) {
  Json& config = json_["pg_config"][uid];
  config["shadows_since"] = config["collective_seq"];
  return *this;
}

DumpMaker& DumpMaker::without_members(const std::string& uid) {
  json_["pg_config"][uid]["ranks"] = nullptr;
  return *this;
}

std::int64_t DumpMaker::ago(double seconds) const {
  return json_.at("time_ns").get<std::int64_t>() - static_cast<std::int64_t>(seconds * 1e9);
}

DumpMaker& DumpMaker::call(const std::string& uid, const MadeCall& call) {
  Json& config = json_["pg_config"][uid];
  const bool message = is_message(call);
  Json& count = config[message ? "p2p_seq" : "collective_seq"];
  const std::int64_t sequence = count.get<std::int64_t>() + 1;
  count = sequence;
  const bool completed = call.state == "completed";
  if (!message && completed && config["completed_seq"] == sequence - 1)
    config["completed_seq"] = sequence;
  const std::int64_t id = json_["recorded"].get<std::int64_t>();
  json_["recorded"] = id + 1;
  const Json sizes = call.op == "barrier" ? Json::array() : Json{{call.elements}};
  const Json dtypes = call.op == "barrier" ? Json::array() : Json{call.dtype};
  const bool gives = call.op != "recv";
  const bool takes = call.op != "send";
  Json entry{{"record_id", id},
             {"pg_id", std::stoll(uid)},
             {"process_group", {uid, config["desc"]}},
             {"profiling_name", name_of(call, json_["rank"].get<int>())},
             {"op", call.op},
             {"is_p2p", message},
             {"collective_seq_id", message ? 0 : sequence},
             {"p2p_seq_id", message ? sequence : 0},
             {"op_id", ++op_ids_[uid]},
             {"input_sizes", gives ? sizes : Json::array()},
             {"input_dtypes", gives ? dtypes : Json::array()},
             {"output_sizes", takes ? sizes : Json::array()},
             {"output_dtypes", takes ? dtypes : Json::array()},
             {"state", call.state},
             {"time_created_ns", ago(call.age)},
             {"time_discovered_started_ns", nullptr},
             {"time_discovered_completed_ns", nullptr},
             {"timeout_ms", 600000},
             {"retired", completed || call.state == "failed"},
             {"path", "shm"},
             {"algorithm", call.op + "_one_shot"}};
  if (entry["retired"] == true) entry["time_discovered_completed_ns"] = ago(call.age) + 12000;
  if (!call.waited_for) entry["waited_for"] = false;
  if (call.undriven) entry["undriven"] = true;
  if (call.shadowed) entry["shadowed"] = true;
  if (reduces(call.op)) entry["reduce_op"] = call.reduce_op;
  if (call.root >= 0) entry["root"] = call.root;
  if (call.peer >= -1) entry["peer"] = call.peer;
  if (call.tag >= 0) entry["tag"] = call.tag;
  if (const std::string signature = signature_of(call); !message && !signature.empty())
    entry["signature"] = signature;
  if (call.duration_ms >= 0) entry["duration_ms"] = call.duration_ms;
  Json frames = Json::array();
  if (!call.file.empty())
    frames.push_back({{"address", "0x55d0c0de"},
                      {"name", "step(Solver&)"},
                      {"filename", call.file},
                      {"line", call.line}});
  entry["frames"] = std::move(frames);
  json_["entries"].push_back(std::move(entry));
  return *this;
}

DumpMaker& DumpMaker::calls(int count, const std::string& uid, const MadeCall& made) {
  for (int i = 0; i < count; ++i) call(uid, made);
  return *this;
}

DumpMaker& DumpMaker::peer(int rank, const std::string& state, const std::string& detail) {
  json_["peers"].push_back({{"rank", rank},
                            {"state", state},
                            {"host", "node" + std::string(1, static_cast<char>('A' + rank / 2))},
                            {"pid", 4711 + rank},
                            {"detail", detail}});
  return *this;
}

DumpMaker& DumpMaker::in_call(const std::string& name, double seconds) {
  json_["in_call"] = {{"name", name}, {"since_ns", ago(seconds)}};
  return *this;
}

DumpMaker& DumpMaker::making(const std::string& kind, std::uint64_t uid,
                             const std::vector<int>& ranks, double seconds, double given_up) {
  json_["making"] = {{"kind", kind},
                     {"uid", uid},
                     {"ranks", ranks},
                     {"since_ns", ago(seconds)},
                     {"given_up_ns", given_up < 0 ? Json(nullptr) : Json(ago(given_up))}};
  return *this;
}

DumpMaker& DumpMaker::made_with_tag(const std::string& tag) {
  json_["making"]["tag"] = tag;
  return *this;
}

DumpMaker& DumpMaker::aborted(const std::string& uid, const std::string& reason) {
  json_["pg_config"][uid]["aborted"] = reason;
  return *this;
}

DumpMaker& DumpMaker::keep_last(std::size_t count) {
  Json& entries = json_["entries"];
  const std::size_t drop = entries.size() - std::min(count, entries.size());
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(drop));
  return *this;
}

trace::Dump DumpMaker::dump() const {
  trace::ReadDump read = trace::read_dump(text(), "dump" + json_["rank"].dump());
  EXPECT_EQ(read.problem, "");
  return read.dump.value_or(trace::Dump());
}

std::vector<DumpMaker> make_dumps(int world_size) {
  std::vector<DumpMaker> makers;
  for (int rank = 0; rank < world_size; ++rank) makers.emplace_back(rank, world_size);
  return makers;
}

trace::Job job_of(const std::vector<DumpMaker>& makers) {
  std::vector<trace::Dump> dumps;
  for (const DumpMaker& maker : makers) dumps.push_back(maker.dump());
  return trace::Job(std::move(dumps));
}

MadeCall open_call(const std::string& op, int line) {
  MadeCall call;
  call.op = op;
  call.state = "scheduled";
  call.age = 30;
  call.line = line;
  return call;
}

MadeCall send_to(int peer, const std::string& state) {
  MadeCall call = open_call("send", 88);
  call.state = state;
  call.age = state == "completed" ? 31 : 30;
  call.peer = peer;
  return call;
}

MadeCall recv_from(int peer, const std::string& state) {
  MadeCall call = send_to(peer, state);
  call.op = "recv";
  return call;
}

}  // namespace hymn::test
