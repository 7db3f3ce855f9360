// One job of the fault campaign, from its seed: which ranks fail, how and when, and what all of
// them are at then. The test that starts the job and the job itself both make it of the seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hymn::test {

/// What the ranks are at.
enum class Phase : std::uint8_t {
  world,     ///< making the world, and then collectives on it
  groups,    ///< making groups in both ways, using and ending them
  calls,     ///< collectives and messages of all kinds, on several groups
  messages,  ///< messages alone
  join,      ///< a join in which rank 0 has run out of input
  shadow,    ///< the same where others shadow it
  shrink,    ///< making the group anew, again and again
  end,       ///< ending the world
  finalize,  ///< the end of MPI, after that of the world
};
inline constexpr std::size_t phase_count = 9;
std::string_view to_string(Phase phase);

enum class Death : std::uint8_t {
  kill,   ///< SIGKILL
  segv,   ///< SIGSEGV
  abort,  ///< std::abort()
  exit,   ///< std::exit(1), between two calls
  leave,  ///< _exit(0), in the midst of one
  stop,   ///< SIGSTOP
  never,  ///< makes no call any more
};
inline constexpr std::size_t death_count = 7;
std::string_view to_string(Death death);

struct Victim {
  int rank = 0;
  Death death = Death::kill;
  int delay_us = 0;  ///< from the beginning of the phase

  /// Its process does not end by itself.
  bool stays() const { return death == Death::stop || death == Death::never; }
};

struct Blow {
  std::uint64_t seed = 0;
  int ranks = 2;
  std::vector<int> hosts{};  ///< ranks on each
  Phase phase = Phase::calls;
  std::vector<Victim> victims{};  ///< one or two
  std::string path{};             ///< as HYMN_PATH
  int streams = 1;                ///< as HYMN_TCP_STREAMS
  /// Each rank cuts one of its connections of the path tcp so often, which nobody is to see.
  int cut_every_ms = 0;  ///< 0: never

  static Blow draw(std::uint64_t seed);
  /// By connections of hymn's own, on one host or two.
  static Blow draw_over_tcp(std::uint64_t seed);
  std::string describe() const;
  const Victim* victim(int rank) const;
  bool anyone_stays() const;
  std::vector<int> survivors() const;
  /// The others can go on with a group of those who are left.
  bool is_recovered() const;
  /// A thread may be left behind in MPI, which then makes no communicators any more.
  bool may_lose_its_paths() const;
};

}  // namespace hymn::test
