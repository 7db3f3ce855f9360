// What the tests that simulate have in common.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "hymn/simulation.hpp"

namespace hymn::test {

inline std::uint64_t number_in(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

/// "0,0,1": the host of each rank.
inline SimulationOptions on_hosts(const std::string& layout) {
  SimulationOptions options;
  std::istringstream words(layout);
  for (std::string host; std::getline(words, host, ',');) options.hosts.push_back(std::stoi(host));
  options.ranks = static_cast<int>(options.hosts.size());
  options.story = std::getenv("TEST_STORY") != nullptr;
  return options;
}

}  // namespace hymn::test
