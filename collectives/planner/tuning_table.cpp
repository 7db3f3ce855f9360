// Reads, writes and looks up measured costs. What is read may be anybody's text: every value is
// checked before it is used.
#include "collectives/planner/tuning_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "hymn/error.hpp"

namespace hymn {
namespace {

using Json = nlohmann::ordered_json;

// A table of everything that `hymn tune` can measure is far smaller.
constexpr std::size_t largest_text = std::size_t{1} << 20;
constexpr std::size_t most_rows = 4096;
constexpr std::size_t most_points = 128;
constexpr std::size_t longest_text = 200;
constexpr std::size_t largest_size = std::size_t{1} << 44;
constexpr std::size_t most_ranks = std::size_t{1} << 24;
constexpr double longest_time = 1e5;

/// A value of the text, and where it stands there.
class Field {
 public:
  Field(const Json& json, const std::string& source, std::string place)
      : json_(json), source_(source), place_(std::move(place)) {}

  [[noreturn]] void refuse(std::string_view expected) const {
    throw ConfigError(fmt::format("tuning table {}: {}: expected {}", source_,
                                  place_.empty() ? "the whole" : place_, expected),
                      {.remedy = "run `hymn tune` again, or set HYMN_TUNING=off"});
  }

  Field operator[](std::string_view name) const {
    if (!json_.is_object()) refuse("an object");
    const auto found = json_.find(name);
    if (found == json_.end()) refuse(fmt::format("a field \"{}\"", name));
    return Field(*found, source_,
                 place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name));
  }
  bool has(std::string_view name) const { return json_.is_object() && json_.contains(name); }
  Field at(std::size_t index) const {
    return Field(json_[index], source_, fmt::format("{}[{}]", place_, index));
  }
  std::size_t elements(std::size_t least, std::size_t most) const {
    if (!json_.is_array() || json_.size() < least || json_.size() > most)
      refuse(fmt::format("a list of {} to {} elements", least, most));
    return json_.size();
  }
  std::string text() const {
    if (!json_.is_string() || json_.get_ref<const std::string&>().size() > longest_text)
      refuse(fmt::format("a text of at most {} bytes", longest_text));
    return json_.get<std::string>();
  }
  std::size_t number(std::size_t least, std::size_t most) const {
    const std::size_t value = json_.is_number_unsigned() ? json_.get<std::size_t>() : 0;
    if (!json_.is_number_unsigned() || value < least || value > most)
      refuse(fmt::format("a whole number from {} to {}", least, most));
    return value;
  }
  double time() const {
    const double value = json_.is_number() ? json_.get<double>() : 0;
    if (!(value > 0 && value <= longest_time))
      refuse(fmt::format("seconds above 0 and up to {}", longest_time));
    return value;
  }
  MemoryKind memory() const {
    for (const MemoryKind kind : {MemoryKind::host, MemoryKind::device})
      if (text() == to_string(kind)) return kind;
    refuse("host or device");
  }
  /// The enumerator of that name among the first `count`.
  /// The one of these values that has this name.
  template <class Enum, std::size_t count, class Takes>
  Enum one_of(const std::array<Enum, count>& all, Takes takes) const {
    const std::string name = text();
    for (const Enum each : all)
      if (takes(each) && to_string(each) == name) return each;
    refuse("a name that hymn knows");
  }

 private:
  const Json& json_;
  const std::string& source_;
  std::string place_;
};

bool is_known(DataType dtype) { return size_of(dtype) != 0; }

TuningRow read_row(const Field& field) {
  TuningRow row;
  row.path = field["path"].text();
  row.type = field["collective"].one_of(all_op_types, is_collective);
  row.algorithm = field["algorithm"].text();
  if (!row.algorithm.starts_with(fmt::format("{}_", to_string(row.type))))
    field["algorithm"].refuse(fmt::format("an algorithm for {}", to_string(row.type)));
  row.dtype = field["dtype"].one_of(all_data_types, is_known);
  row.ranks = static_cast<int>(field["ranks"].number(1, most_ranks));
  row.hosts = static_cast<int>(field["hosts"].number(1, static_cast<std::size_t>(row.ranks)));
  if (field.has("memory")) row.memory = field["memory"].memory();
  const Field points = field["points"];
  for (std::size_t i = 0; i < points.elements(1, most_points); ++i) {
    const Field point = points.at(i);
    point.elements(2, 2);
    const std::size_t bytes = point.at(0).number(0, largest_size);
    if (!row.points.empty() && bytes <= row.points.back().bytes)
      point.at(0).refuse("sizes in ascending order, each once");
    row.points.push_back({bytes, point.at(1).time()});
  }
  return row;
}

Json write_row(const TuningRow& row) {
  Json points = Json::array();
  for (const TuningRow::Point& point : row.points)
    points.push_back(Json::array({point.bytes, point.seconds}));
  Json json{{"path", row.path},
            {"algorithm", row.algorithm},
            {"collective", to_string(row.type)},
            {"dtype", to_string(row.dtype)},
            {"ranks", row.ranks},
            {"hosts", row.hosts}};
  if (row.memory != MemoryKind::host) json["memory"] = to_string(row.memory);
  json["points"] = std::move(points);
  return json;
}

auto identity(const TuningRow& row) {
  return std::tuple(row.path, row.algorithm, row.type, row.dtype, row.ranks, row.hosts, row.memory);
}

double interpolate(const std::vector<TuningRow::Point>& points, std::size_t bytes) {
  const auto above =
      std::lower_bound(points.begin(), points.end(), bytes,
                       [](const TuningRow::Point& p, std::size_t size) { return p.bytes < size; });
  // Small operations take their latency, not less: a slope would lead to zero.
  if (above == points.begin()) return points.front().seconds;
  if (points.size() == 1) return points.front().seconds;
  const auto right = above == points.end() ? std::prev(above) : above;
  const auto left = std::prev(right);
  const double slope =
      (right->seconds - left->seconds) / static_cast<double>(right->bytes - left->bytes);
  const double beyond = static_cast<double>(bytes - left->bytes);
  if (above != points.end()) return left->seconds + slope * beyond;
  // Beyond the largest size noise must not make longer messages faster.
  return right->seconds + std::max(slope, 0.0) * static_cast<double>(bytes - right->bytes);
}

}  // namespace

TuningTable TuningTable::parse(std::string_view json, const std::string& source) {
  const std::string remedy = "run `hymn tune` again, or set HYMN_TUNING=off";
  if (json.size() > largest_text)
    throw ConfigError(fmt::format("tuning table {}: longer than {} bytes", source, largest_text),
                      {.remedy = remedy});
  Json parsed;
  try {
    parsed = Json::parse(json);
  } catch (const Json::exception& error) {
    throw ConfigError(fmt::format("tuning table {}: not JSON: {}", source, error.what()),
                      {.remedy = remedy});
  }
  const Field whole(parsed, source, "");
  whole["hymn_tuning"].number(version, version);
  TuningTable table;
  table.machine = whole["machine"].text();
  table.measured = whole["measured"].text();
  table.library = whole["library"].text();
  const Field rows = whole["rows"];
  std::set<decltype(identity(TuningRow()))> seen;
  for (std::size_t i = 0; i < rows.elements(0, most_rows); ++i) {
    table.rows.push_back(read_row(rows.at(i)));
    if (!seen.insert(identity(table.rows.back())).second) rows.at(i).refuse("each algorithm once");
  }
  return table;
}

// One row a line: people read this, and compare two of them.
std::string TuningTable::to_json() const {
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string json = fmt::format(
      "{{\n\"hymn_tuning\": {},\n\"machine\": {},\n\"measured\": {},\n\"library\": {},\n\"rows\": "
      "[",
      version, text(machine), text(measured), text(library));
  for (const TuningRow& row : rows)
    json += fmt::format("{}\n {}", &row == rows.data() ? "" : ",", text(write_row(row)));
  return json + "\n]\n}\n";
}

std::optional<double> TuningTable::seconds(std::string_view path, std::string_view algorithm,
                                           OpType type, DataType dtype, int ranks, int hosts,
                                           std::size_t bytes, MemoryKind memory) const {
  for (const TuningRow& row : rows) {
    // What only moves data takes the same time for every type.
    const bool same_data = row.dtype == dtype || !reduces(type);
    if (row.type == type && row.ranks == ranks && row.hosts == hosts && same_data &&
        row.path == path && row.algorithm == algorithm && row.memory == memory)
      return interpolate(row.points, bytes);
  }
  return std::nullopt;
}

bool TuningTable::knows(std::string_view path) const {
  return std::any_of(rows.begin(), rows.end(),
                     [path](const TuningRow& row) { return row.path == path; });
}

bool TuningTable::knows(std::string_view path, int ranks, bool one_host) const {
  return std::any_of(rows.begin(), rows.end(), [&](const TuningRow& row) {
    return row.path == path && row.ranks == ranks && (row.hosts == 1) == one_host;
  });
}

TuningChoice choose_tuning(const std::optional<std::string>& text, const std::string& source,
                           const std::vector<std::string>& machines, const std::string& library) {
  if (!text) return {};
  try {
    TuningTable table = TuningTable::parse(*text, source);
    for (const std::string& machine : machines)
      if (machine != table.machine)
        return {nullptr, fmt::format("tuning table {} was measured on another kind of machine ({}, "
                                     "here {})",
                                     source, table.machine, machine)};
    if (table.library != library)
      return {nullptr, fmt::format("tuning table {} is stale: it was measured with {}, and this is "
                                   "{}",
                                   source, table.library, library)};
    return {std::make_shared<const TuningTable>(std::move(table)), ""};
  } catch (const ConfigError& error) {
    return {nullptr, error.problem()};
  }
}

}  // namespace hymn
