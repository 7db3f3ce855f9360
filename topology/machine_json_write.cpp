// A Machine as JSON: to_json. docs/topology.md tells the format.
#include <fmt/format.h>

#include <concepts>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "topology/machine_fields.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

using namespace machine_fields;
using OrderedJson = nlohmann::ordered_json;  // keeps the order of `fields`

class Writer {
 public:
  template <typename T>
  void field(const char* key, const T& value, const T& unknown = {}, std::size_t /*limit*/ = 0) {
    if (value == unknown) return;
    out_[key] = convert(value);
  }
  OrderedJson take() { return std::move(out_); }

  static OrderedJson convert(std::integral auto value) { return value; }
  static OrderedJson convert(double value) { return value; }
  static OrderedJson convert(const std::string& value) { return value; }
  static OrderedJson convert(const CpuSet& value) { return value.to_string(); }
  static OrderedJson convert(const PciAddress& value) { return value.to_string(); }
  static OrderedJson convert(GpuLinkKind value) { return to_string(value); }
  template <typename T>
  static OrderedJson convert(const std::optional<T>& value) {
    return convert(*value);
  }
  template <typename T>
  static OrderedJson convert(const std::vector<T>& values) {
    OrderedJson list = OrderedJson::array();
    for (const T& value : values) list.push_back(convert(value));
    return list;
  }
  template <typename T>
    requires std::is_class_v<T>
  static OrderedJson convert(const T& object) {
    Writer writer;
    fields(writer, object);
    return writer.take();
  }

 private:
  OrderedJson out_ = OrderedJson::object();
};

std::vector<NamedLink> links_to_write(const Machine& machine) {
  std::vector<NamedLink> named;
  for (std::size_t from = 0; from < machine.gpus.size(); ++from) {
    for (std::size_t to = 0; to < machine.gpus.size(); ++to) {
      const GpuLink& link = machine.link(from, to);
      if (link != default_link(from, to)) {
        named.push_back({static_cast<int>(from), static_cast<int>(to), link});
      }
    }
  }
  return named;
}

}  // namespace

std::string to_json(const Machine& machine) {
  check_machine(machine);  // JSON has no word for infinite bandwidths, to begin with
  OrderedJson top = OrderedJson::object();
  top["hymn_machine"] = format_version;
  top.update(Writer::convert(machine));
  if (const auto links = links_to_write(machine); !links.empty()) {
    top["gpu_links"] = Writer::convert(links);
  }
  // One line for each object, so that people can read it and diff it.
  const auto line = [](const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  std::string text = "{";
  const char* before_key = "\n";
  for (const auto& [key, value] : top.items()) {
    fmt::format_to(std::back_inserter(text), "{}  {}: ", before_key, line(key));
    before_key = ",\n";
    if (!value.is_array()) {
      text += line(value);
      continue;
    }
    const char* before_item = "[\n";
    for (const auto& item : value) {
      fmt::format_to(std::back_inserter(text), "{}    {}", before_item, line(item));
      before_item = ",\n";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace hymn
