// Dumps of the flight recorder, made in code as a rank would write them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace hymn::test {

/// One call, with what is usual.
struct MadeCall {
  std::string op = "all_reduce";
  std::string state = "completed";
  std::int64_t elements = 1024;
  std::string dtype = "float32";
  std::string reduce_op = "sum";   ///< left out where the op does not reduce
  int root = -1;                   ///< -1: none
  int peer = -2;                   ///< -2: none; -1: any
  int tag = -1;                    ///< -1: not told
  double age = 31.0;               ///< seconds from the call to the dump
  double duration_ms = -1;         ///< negative: not recorded
  std::string signature = "made";  ///< "made": from the call; "": none
  bool shadowed = false;
  bool waited_for = true;
  bool undriven = false;
  std::string file = "/home/x/solver.cpp";
  int line = 88;
};

/// One rank's dump. A call takes the next number of its group, as in a run.
class DumpMaker {
 public:
  DumpMaker(int rank, int world_size);

  DumpMaker& with(const std::string& key, nlohmann::json value);
  DumpMaker& without(const std::string& key);
  /// Group 0 of all ranks is there from the beginning.
  DumpMaker& group(const std::string& uid, const std::string& description,
                   const std::vector<int>& ranks);
  DumpMaker& without_members(const std::string& uid);
  DumpMaker& call(const std::string& uid, const MadeCall& call);
  /// The same `count` times.
  DumpMaker& calls(int count, const std::string& uid, const MadeCall& call);
  DumpMaker& peer(int rank, const std::string& state, const std::string& detail = "");
  DumpMaker& in_call(const std::string& name, double seconds);
  /// It has been at that for so many seconds; `given_up`: so many before the dump; negative: not.
  DumpMaker& making(const std::string& kind, std::uint64_t uid, const std::vector<int>& ranks,
                    double seconds, double given_up = -1);
  DumpMaker& made_with_tag(const std::string& tag);
  /// It has run out of input, and follows the others from now on.
  DumpMaker& shadows(const std::string& uid);
  DumpMaker& aborted(const std::string& uid, const std::string& reason);
  /// Forgets all but the last operations, as a ring does.
  DumpMaker& keep_last(std::size_t count);

  std::string text() const { return json_.dump(); }
  const nlohmann::json& json() const { return json_; }
  /// As the reader gives it.
  trace::Dump dump() const;

  static constexpr std::int64_t time_ns = 1790000000000000000;

 private:
  std::int64_t ago(double seconds) const;
  nlohmann::json json_;
  std::map<std::string, std::int64_t> op_ids_;
};

/// Dumps of a world of that many ranks, each with its rank.
std::vector<DumpMaker> make_dumps(int world_size);
trace::Job job_of(const std::vector<DumpMaker>& makers);

/// In flight since 30 seconds before the dump.
MadeCall open_call(const std::string& op = "all_reduce", int line = 91);
MadeCall send_to(int peer, const std::string& state = "completed");
MadeCall recv_from(int peer, const std::string& state = "completed");

}  // namespace hymn::test
