// Loads topologies through hwloc: of this host, from XML, and from hwloc's synthetic descriptions.
#include <fmt/format.h>
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/keep_for_ever.hpp"
#include "hymn/error.hpp"
#include "topology/apart.hpp"
#include "topology/hwloc_view.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

constexpr std::size_t most_xml = std::size_t{64} << 20;
constexpr std::uint64_t most_objects = std::uint64_t{1} << 20;

[[noreturn]] void refuse(const std::string& source, const std::string& problem,
                         std::string remedy) {
  ErrorContext context;
  context.remedy = std::move(remedy);
  throw ConfigError(fmt::format("{}: {}", source, problem), context);
}

/// While it lives, hwloc starts without its plugins: they read XML and ask GPUs and displays, bring
/// libxml2, OpenCL and X11, and take twice as long to load as this host to be read. hwloc can be
/// told so by its environment alone. Another environment takes the place of the process's: threads
/// that read it see the one or the other, whole (who sets variables beside them is lost anyway).
/// Whoever sets any of hwloc's variables gets what hwloc makes of them.
class WithoutPlugins {
 public:
  WithoutPlugins() : before_(environ) {
    static char no_folder[] = "HWLOC_PLUGINS_PATH=/dev/null";
    std::vector<char*> entries = {no_folder};
    for (char** entry = before_; entry != nullptr && *entry != nullptr; ++entry) {
      if (std::string_view(*entry).starts_with("HWLOC_")) return;
      entries.push_back(*entry);
    }
    entries.push_back(nullptr);
    // Who has begun to read it may go on for any time.
    own_ = entries.data();
    keep_for_ever(std::move(entries));
    std::atomic_ref(environ).store(own_);
  }
  ~WithoutPlugins() {
    if (own_ != nullptr) std::atomic_ref(environ).compare_exchange_strong(own_, before_);
  }
  WithoutPlugins(const WithoutPlugins&) = delete;
  WithoutPlugins& operator=(const WithoutPlugins&) = delete;

 private:
  char** before_;
  char** own_ = nullptr;
};

/// An hwloc topology that is destroyed when it goes.
class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&handle_) != 0) {
      throw BackendError("hwloc_topology_init failed", "hwloc", errno);
    }
    // Disallowed CPUs are wanted, too: the host is described, and what is granted is told apart.
    hwloc_topology_set_flags(handle_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                                          HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                          HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  }
  ~Topology() { hwloc_topology_destroy(handle_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  hwloc_topology_t get() const { return handle_; }

 private:
  hwloc_topology_t handle_ = nullptr;
};

/// A machine of which all is known that hwloc has been told.
Machine described(const Topology& topology, const std::string& source) {
  HwlocView view = view_of(topology.get(), source);
  Machine& machine = view.machine;
  if (machine.name.empty()) machine.name = source;
  add_nvlinks(machine, view.nvlinks);
  add_pcie_links(machine, view.sites);
  for (const NumaNode& node : machine.numa_nodes) machine.memory.total_bytes += node.memory_bytes;
  return std::move(machine);
}

/// Loads a topology that `set` has given its source, and throws what `remedy` helps against. hwloc
/// trusts its input: damaged descriptions crash it, or make it print. So a child process reads
/// them, and what it found travels as JSON, whose reader checks it.
template <typename Set>
Machine load_apart(const Topology& topology, const std::string& source, const std::string& remedy,
                   Set set) {
  const auto reply = run_apart([&]() -> std::string {
    if (!set(topology.get()) || hwloc_topology_load(topology.get()) != 0) return "";
    try {
      return to_json(described(topology, source));
    } catch (const Error& error) {
      return "!" + error.problem();
    }
  });
  if (!reply) refuse(source, "hwloc fails on it: it is damaged, or far too large", remedy);
  if (reply->empty()) refuse(source, "hwloc refuses it: it is damaged or incomplete", remedy);
  if (reply->front() == '!') refuse(source, reply->substr(1), remedy);
  return machine_from_json(*reply, source);
}

constexpr std::string_view export_remedy =
    "export the machine with lstopo of hwloc 2, or of hwloc 3 with --export-xml-flags v2";

/// The version that the XML's topology element carries, "" when there is none.
std::string_view version_of(std::string_view xml) {
  const std::size_t begin = xml.find("<topology");
  if (begin == std::string_view::npos) return "";
  std::string_view tag = xml.substr(begin, xml.substr(begin).find('>'));
  constexpr std::string_view attribute = "version=\"";
  const std::size_t version = tag.find(attribute);
  if (version == std::string_view::npos) return "";
  tag.remove_prefix(version + attribute.size());
  return tag.substr(0, tag.find('"'));
}

/// Tells what can be told without hwloc better than hwloc does, which says only yes or no.
void screen(std::string_view xml, const std::string& source) {
  const std::string remedy(export_remedy);
  if (xml.size() > most_xml) {
    refuse(source, fmt::format("it has {} bytes, more than {}", xml.size(), most_xml), remedy);
  }
  const std::string_view version = version_of(xml);
  if (version.empty() || xml.find('\0') != std::string_view::npos) {
    refuse(source, "it is not an XML description of a machine by hwloc 2", remedy);
  }
  if (!version.starts_with("2.")) {
    refuse(source, fmt::format("its format is {}, where hymn reads 2.x", version), remedy);
  }
}

/// How many objects a synthetic description asks for: the product of its counts. hwloc would try
/// to make any number.
std::uint64_t objects_of(std::string_view text) {
  std::uint64_t product = 1;
  for (std::size_t colon; (colon = text.find(':')) != std::string_view::npos;) {
    text.remove_prefix(colon + 1);
    std::uint64_t count = 1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error == std::errc::result_out_of_range || count > most_objects) return UINT64_MAX;
    product *= std::max<std::uint64_t>(count, 1);
    if (product > most_objects) return product;
  }
  return product;
}

}  // namespace

HwlocView view_of_this_host(bool with_devices) {
  const Topology topology = [] {
    const WithoutPlugins scope;
    return Topology();
  }();
  // These open displays, load drivers or make contexts on GPUs, which hymn asks itself; and "pci"
  // loads a library for what the kernel's files tell as well.
  for (const char* component : {"cuda", "gl", "levelzero", "nvml", "opencl", "pci", "rsmi"}) {
    hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                  component);
  }
  if (with_devices)
    hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // What nobody asks for need not be read: hwloc opens eight files for each cache of each CPU.
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2ICACHE, HWLOC_OBJ_L3ICACHE,
        HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE, HWLOC_OBJ_DIE, HWLOC_OBJ_GROUP})
    hwloc_topology_set_type_filter(topology.get(), type, HWLOC_TYPE_FILTER_KEEP_NONE);
  // By default hwloc visits all CPUs with the calling thread, to ask each what it is.
  hwloc_topology_set_flags(topology.get(), hwloc_topology_get_flags(topology.get()) |
                                               HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (hwloc_topology_load(topology.get()) != 0) {
    throw BackendError(fmt::format("hwloc cannot read this host: {}", std::strerror(errno)),
                       "hwloc", errno);
  }
  HwlocView view = view_of(topology.get(), "this host");
  if (hwloc_topology_is_thissystem(topology.get()) == 0) {
    view.machine.remarks.emplace_back(
        "HWLOC_* environment variables make hwloc show a machine other than this host");
  }
  return view;
}

Machine read_xml(std::string_view xml, const std::string& source) {
  screen(xml, source);
  const std::string text(xml);  // hwloc wants the zero behind it
  return load_apart(Topology(), "xml " + source, std::string(export_remedy),
                    [&](hwloc_topology_t topology) {
                      hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
                      const int size = static_cast<int>(text.size() + 1);
                      return hwloc_topology_set_xmlbuffer(topology, text.c_str(), size) == 0;
                    });
}

Machine read_synthetic(const std::string& description) {
  const std::string source = "synthetic " + description;
  const std::string remedy = "write counts from outside to inside, \"pack:2 core:8 pu:2\"";
  if (objects_of(description) > most_objects) {
    refuse(source, fmt::format("it asks for more than {} objects", most_objects), remedy);
  }
  return load_apart(Topology(), source, remedy, [&](hwloc_topology_t topology) {
    return hwloc_topology_set_synthetic(topology, description.c_str()) == 0;
  });
}

}  // namespace hymn
