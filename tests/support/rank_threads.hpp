// What the programs share whose ranks are threads: threads_main.cpp and hosts_main.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hymn/hymn.hpp"

namespace hymn::test {

/// The words of an environment variable; of `usual` where it is not set.
std::vector<std::string> words_of(const char* variable, const char* usual);

using RankMain = std::function<void(World&)>;

/// Gives `run` the body to run on every rank. Failures are told with where the ranks are, "of 3
/// threads". True if the test goes on: what has failed there would tell nothing new elsewhere.
bool run_told(const std::string& where, const RankMain& body,
              const std::function<void(const RankMain&)>& run);

/// main() of such a program.
int run_rank_tests(int argc, char** argv, const std::string& who);

}  // namespace hymn::test
