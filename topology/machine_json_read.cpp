// A Machine from JSON: machine_from_json. docs/topology.md tells the format.
//
// The text may come from anywhere: every fault in it ends as a ConfigError that tells the place.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hymn/error.hpp"
#include "topology/machine_fields.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

using namespace machine_fields;
using Json = nlohmann::json;

constexpr std::size_t max_text = std::size_t{16} << 20;
constexpr std::size_t max_items = CpuSet::max_cpu + 1;
constexpr int max_depth = 8;

/// A value in the text, and the way to it: what errors need.
struct JsonNode {
  const Json& value;
  std::string pointer;
  const std::string& source;

  JsonNode at(const std::string& key) const { return {value.at(key), pointer + '/' + key, source}; }
  JsonNode at(std::size_t index) const {
    return {value.at(index), fmt::format("{}/{}", pointer, index), source};
  }
  std::string found() const {
    if (value.is_structured()) return value.is_array() ? "a list" : "an object";
    const std::string text = value.dump(-1, ' ', true);
    return text.size() <= 40 ? text : text.substr(0, 40) + "…";
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw ConfigError(fmt::format("{}: at {}: expected {}, found {}", source,
                                  pointer.empty() ? "the top" : pointer, expected, found()));
  }
};

class ObjectReader {
 public:
  explicit ObjectReader(const JsonNode& json_node) : json_node_(json_node) {
    if (!json_node.value.is_object()) json_node.fail("an object");
  }

  template <typename T>
  void field(const char* key, T& value, const T& /*unknown*/ = {}, std::size_t limit = max_items) {
    known_.insert(key);
    if (json_node_.value.contains(key)) read(json_node_.at(key), value, limit);
  }
  /// Call it when all fields were named: a mistyped one must not pass for an unknown value.
  void no_others() const {
    for (const auto& [key, value] : json_node_.value.items()) {
      if (!known_.contains(key)) {
        json_node_.fail(
            fmt::format("only the keys {}, not {}", fmt::join(known_, ", "), quoted(key)));
      }
    }
  }

 private:
  static const std::string& string(const JsonNode& json_node, const char* expected) {
    if (!json_node.value.is_string()) json_node.fail(expected);
    return json_node.value.get_ref<const std::string&>();
  }
  static auto parsed(const JsonNode& json_node, const char* expected, auto parse) {
    const auto value = parse(string(json_node, expected));
    if (!value) json_node.fail(expected);
    return *value;
  }

  static std::string quoted(const std::string& text) {
    return Json(text.substr(0, 40)).dump(-1, ' ', true, Json::error_handler_t::replace);
  }

  template <std::integral T>
  static void read(const JsonNode& json_node, T& value, std::size_t /*limit*/) {
    // -1 stands for unknown indices, so it is no mistake where they may be.
    constexpr std::int64_t low = std::is_signed_v<T> ? -1 : 0;
    constexpr auto high = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    const Json& json = json_node.value;
    const bool fits = json.is_number_unsigned()
                          ? json.get<std::uint64_t>() <= high
                          : json.is_number_integer() && json.get<std::int64_t>() >= low;
    if (!fits) json_node.fail(fmt::format("a whole number from {} to {}", low, high));
    value = json.get<T>();
  }
  static void read(const JsonNode& json_node, bool& value, std::size_t /*limit*/) {
    if (!json_node.value.is_boolean()) json_node.fail("true or false");
    value = json_node.value.get<bool>();
  }
  static void read(const JsonNode& json_node, double& value, std::size_t /*limit*/) {
    if (json_node.value.is_number()) value = json_node.value.get<double>();
    if (!json_node.value.is_number() || !std::isfinite(value) || value < 0) {
      json_node.fail("a number that is not negative");
    }
  }
  static void read(const JsonNode& json_node, std::string& value, std::size_t /*limit*/) {
    value = string(json_node, "a string");
  }
  static void read(const JsonNode& json_node, CpuSet& value, std::size_t /*limit*/) {
    value = parsed(json_node, "a list of CPUs such as \"0-3,8\"", CpuSet::parse);
  }
  static void read(const JsonNode& json_node, PciAddress& value, std::size_t /*limit*/) {
    value = parsed(json_node, "a PCI address such as \"0000:18:00.0\"", PciAddress::parse);
  }
  static void read(const JsonNode& json_node, GpuLinkKind& value, std::size_t /*limit*/) {
    static constexpr auto expected =
        "one of self, nvswitch, nvlink, pcie_switch, host_bridge, system, unknown";
    value = parsed(json_node, expected, parse_gpu_link_kind);
  }
  template <typename T>
  static void read(const JsonNode& json_node, std::optional<T>& value, std::size_t limit) {
    read(json_node, value.emplace(), limit);
  }
  template <typename T>
  static void read(const JsonNode& json_node, std::vector<T>& values, std::size_t limit) {
    if (!json_node.value.is_array() || json_node.value.size() > limit) {
      json_node.fail(fmt::format("a list of at most {}", limit));
    }
    values.resize(json_node.value.size());
    for (std::size_t i = 0; i < values.size(); ++i) read(json_node.at(i), values[i], limit);
  }
  template <typename T>
    requires std::is_class_v<T>
  static void read(const JsonNode& json_node, T& object, std::size_t /*limit*/) {
    ObjectReader reader(json_node);
    fields(reader, object);
    reader.no_others();
  }

  const JsonNode& json_node_;
  std::set<std::string, std::less<>> known_;
};

void place_links(const JsonNode& top, const std::vector<NamedLink>& named, Machine& machine) {
  const std::size_t count = machine.gpus.size();
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      machine.gpu_links.push_back(default_link(from, to));
    }
  }
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto& [from, to, link] = named[i];
    const auto limit = static_cast<int>(count);
    if (from < 0 || to < 0 || from >= limit || to >= limit) {
      top.at("gpu_links")
          .at(i)
          .fail(fmt::format("\"from\" and \"to\" to name two of the {} GPUs", count));
    }
    if (!seen.emplace(from, to).second) {
      top.at("gpu_links").at(i).fail(fmt::format("one link from {} to {}", from, to));
    }
    machine.link(static_cast<std::size_t>(from), static_cast<std::size_t>(to)) = link;
  }
}

Json parse(std::string_view text, const std::string& source) {
  if (text.size() > max_text) {
    throw ConfigError(fmt::format("{}: {} bytes are too many for a machine (at most {})", source,
                                  text.size(), max_text));
  }
  // Memory for a level is many times its one character, so depth is bounded while reading.
  const auto bounded = [&](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    if (depth > max_depth) {
      throw ConfigError(fmt::format("{}: nested more than {} levels deep", source, max_depth));
    }
    return true;
  };
  try {
    return Json::parse(text, bounded);
  } catch (const Json::exception& error) {
    throw ConfigError(fmt::format("{}: not JSON: {}", source, error.what()));
  }
}

}  // namespace

Machine machine_from_json(std::string_view json, const std::string& source) {
  const Json value = parse(json, source);
  const JsonNode top{value, "", source};
  ObjectReader reader(top);
  int version = 0;
  reader.field("hymn_machine", version);
  if (version != format_version) {
    throw ConfigError(fmt::format(
        "{}: at /hymn_machine: expected {}, the version of the format that this hymn reads, "
        "found {}",
        source, format_version,
        value.contains("hymn_machine") ? std::to_string(version) : "nothing"));
  }
  Machine machine;
  std::vector<NamedLink> links;
  fields(reader, machine);
  reader.field("gpu_links", links, {}, max_gpus * max_gpus);
  reader.no_others();
  place_links(top, links, machine);
  try {
    check_machine(machine);
  } catch (const UsageError& error) {
    throw ConfigError(fmt::format("{}: {}", source, error.problem()));
  }
  return machine;
}

}  // namespace hymn
