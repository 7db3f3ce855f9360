// docs/tuning.md says what the planner's tables say.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "collectives/costs/cost_table.hpp"
#include "collectives/planner/planner.hpp"

namespace hymn::test {
namespace {

using Cells = std::vector<std::string>;

Cells cells_of(const std::string& line) {
  Cells cells;
  for (std::size_t from = 1; from < line.size();) {
    const std::size_t to = line.find('|', from);
    const std::size_t first = std::min(line.find_first_not_of(' ', from), to);
    const std::size_t last = line.find_last_not_of(' ', to - 1);
    cells.push_back(first == to ? "" : line.substr(first, last - first + 1));
    from = to + 1;
  }
  return cells;
}

/// The rows of the first table of docs/tuning.md whose head begins with this.
std::vector<Cells> table_of_page(const std::string& head) {
  std::ifstream page(HYMN_TUNING_PAGE);
  std::vector<Cells> rows;
  std::string line;
  while (std::getline(page, line) && !line.starts_with(head)) continue;
  std::getline(page, line);  // below the head
  while (std::getline(page, line) && line.starts_with('|')) rows.push_back(cells_of(line));
  return rows;
}

std::string_view name_of(CostSetting setting) {
  if (setting == CostSetting::one_host) return "one host";
  return setting == CostSetting::oversubscribed ? "oversubscribed" : "several hosts";
}

Cells expected_cells(const CostRow& row) {
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  const std::string method(row.method);
  const bool has_figures =
      row.start + row.per_round + row.per_byte_moved + row.per_byte_reduced > 0;
  if (!has_figures) return {std::string(row.path), method, "–", "–", "–", "–", "–", "–"};
  return {std::string(row.path),
          method,
          std::string(name_of(row.setting)),
          number(row.start * 1e6),
          number(row.per_round * 1e6),
          number(row.per_byte_moved * 1e12),
          number(row.per_byte_reduced * 1e12),
          row.link_share > 0 ? number(row.link_share) : ""};
}

TEST(TuningPage, HasTheCostTable) {
  const std::vector<Cells> page = table_of_page("| path | method | setting |");
  ASSERT_EQ(page.size(), cost_table.size());
  std::map<std::string_view, std::string> letters;
  std::set<std::string> used;
  for (std::size_t i = 0; i < page.size(); ++i) {
    const CostRow& row = cost_table[i];
    Cells expected = expected_cells(row);
    // What a row stands on has one letter, and no other has it.
    const auto [letter, is_new] = letters.emplace(row.stands_on, page[i].back());
    EXPECT_EQ(used.insert(letter->second).second, is_new) << letter->second;
    expected.push_back(letter->second);
    EXPECT_EQ(page[i], expected);
  }
}

TEST(TuningPage, HasEveryMethod) {
  std::map<std::string, std::set<std::string>> built;
  for (const AlgorithmModel* model : algorithm_models())
    built[fmt::format("`{}`", model->method)].emplace(model->path);
  std::map<std::string, std::set<std::string>> page;
  for (const Cells& row : table_of_page("| method | paths |")) {
    std::string paths = row.at(1);
    std::set<std::string>& all = page[row.at(0)];
    for (std::size_t comma; (comma = paths.find(", ")) != std::string::npos;
         paths.erase(0, comma + 2))
      all.insert(paths.substr(0, comma));
    all.insert(paths);
  }
  EXPECT_EQ(page, built);
}

}  // namespace
}  // namespace hymn::test
