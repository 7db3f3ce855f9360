// What happens to a job: one scene after the other, in each of which one rank, the victim, fails.
// The test that starts a job and the job itself both read scenes as words on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hymn::test {

/// "DEATH:STATE:PATH:VICTIM", and ":outside" where the victim is no member of the group used.
struct Scene {
  /// How the victim fails:
  ///   exit0, exit1   exit() with that status, its world alive
  ///   goodbye        ends its world and returns from main()
  ///   abort          abort()
  ///   kill, term     by that signal
  ///   stop           is stopped by SIGSTOP
  ///   never          lives, but makes no call any more
  std::string death;
  /// What the others do then:
  ///   blocked        are in a blocking collective
  ///   asynchronous   have started one, and test it or wait for it
  ///   messages       have a send to the victim and a receive from it in flight
  ///   idle           compute, and call later
  std::string state;
  std::string path;  ///< that the group used must take
  int victim = 0;
  bool member = true;

  /// Throws std::runtime_error for anything else.
  static Scene parse(std::string_view word);
  std::string word() const;
  /// Its process does not end by itself.
  bool stays() const { return death == "stop" || death == "never"; }
};

const std::vector<std::string>& all_deaths();
const std::vector<std::string>& all_states();

}  // namespace hymn::test
