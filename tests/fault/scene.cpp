#include "tests/fault/scene.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace hymn::test {
namespace {

std::vector<std::string> split(std::string_view word) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t colon = word.find(':');
    parts.emplace_back(word.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    word.remove_prefix(colon + 1);
  }
}

bool is_one_of(const std::vector<std::string>& all, const std::string& word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace

const std::vector<std::string>& all_deaths() {
  static const std::vector<std::string> all = {"exit0", "goodbye", "exit1", "abort",
                                               "kill",  "term",    "stop",  "never"};
  return all;
}

const std::vector<std::string>& all_states() {
  static const std::vector<std::string> all = {"blocked", "asynchronous", "messages", "idle"};
  return all;
}

Scene Scene::parse(std::string_view word) {
  const std::vector<std::string> parts = split(word);
  Scene scene;
  bool valid = parts.size() == 4 || (parts.size() == 5 && parts[4] == "outside");
  if (valid) {
    scene = {parts[0], parts[1], parts[2], -1, parts.size() == 4};
    std::from_chars(parts[3].data(), parts[3].data() + parts[3].size(), scene.victim);
    valid = is_one_of(all_deaths(), scene.death) && is_one_of(all_states(), scene.state) &&
            scene.victim >= 0;
  }
  if (!valid) throw std::runtime_error(fmt::format("'{}' is no scene", word));
  return scene;
}

std::string Scene::word() const {
  return fmt::format("{}:{}:{}:{}{}", death, state, path, victim, member ? "" : ":outside");
}

}  // namespace hymn::test
