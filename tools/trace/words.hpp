// How ranks, operations, places and times are told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace hymn::trace {

/// "0-2, 5"; each once, whatever their order.
std::string rank_list(std::vector<int> ranks);
/// "rank 3", "ranks 0-2, 5", "nobody"
std::string ranks_text(const std::vector<int>& ranks);
/// As its dump tells, or else what was heard of its end; "": nothing is known.
std::string host_of(const Job& job, int rank);
/// "rank 3 (nodeB, pid 4711)"; of several, "ranks 4-7 (nodeB)" where one host has them all.
std::string who(const Job& job, const std::vector<int>& ranks);
/// "all_reduce #412", "send 3->1 (#7)", "recv 0<-any (#2)"
std::string call_name(const Entry& entry, int rank);
/// "all_reduce of 1024 float32 with sum", "broadcast of 8 int32 from root 0",
/// "send of 8 int32 with tag 3"
std::string call_words(const Entry& entry);
/// " at solver.cpp:88", " in step(Solver&)", "" where it is not known.
std::string at_site(const CallSite& site);
/// "solver.cpp:88"; "" where it is not known.
std::string site_text(const CallSite& site);
/// "30.0 s"
std::string seconds_text(double seconds);
/// "30.0 s", "12 ms", "7 us": never nothing.
std::string span_text(double seconds);
/// "all_reduce #412 of group 'dp#1'"
std::string of_group(const std::string& call, const std::string& label);
/// "2026-09-21 14:13:20 UTC"; "?" of an absurd time.
std::string clock_text(std::int64_t time_ns);

/// Seconds between two times of one clock, whatever they are.
double seconds_between(std::int64_t from_ns, std::int64_t to_ns);

/// What a rank did when its dump was made.
struct Whereabouts {
  enum class Kind : std::uint8_t { no_dump, in_operation, in_call, outside };
  Kind kind = Kind::no_dump;
  std::string
      text;  ///< "it has been in send 3->1 (#7) of group 'dp#1' for 30.0 s at solver.cpp:88"
};
Whereabouts whereabouts(const Job& job, int rank);

}  // namespace hymn::trace
