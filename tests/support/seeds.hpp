// Where campaigns over seeds begin, and what else they are told by the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace hymn::test {

inline std::string word_from(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

/// TEST_SEED, TEST_FIRST or 1; of "clock" another one each second, with room for as many as run.
inline std::uint64_t first_seed() {
  const std::string word = word_from("TEST_SEED", word_from("TEST_FIRST", "1"));
  if (word != "clock") return std::stoull(word);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count()) *
         100;
}

}  // namespace hymn::test
