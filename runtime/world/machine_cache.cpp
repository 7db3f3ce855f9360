#include "runtime/world/machine_cache.hpp"

#include <map>
#include <mutex>

#include "topology/read_machine.hpp"

namespace hymn {
namespace {

// Values by text, made at the first use. There are few: but who makes worlds for ever over machines
// that change must not fill the memory.
template <class Value>
class Cache {
 public:
  template <class Make>
  Value get(const std::string& key, Make make) {
    std::lock_guard lock(mutex_);
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    Value made = make();
    if (values_.size() >= most) values_.clear();
    return values_.emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t most = 64;
  std::mutex mutex_;
  std::map<std::string, Value> values_;
};

}  // namespace

std::shared_ptr<const KnownMachine> KnownMachine::of(std::shared_ptr<const Machine> machine) {
  auto known = std::make_shared<KnownMachine>();
  known->json = to_json(*machine);
  // As the others will read it: what JSON cannot hold (a name that is no UTF-8) must not make ranks
  // of one machine see two. Only that costs a copy.
  Machine read = machine_from_json(known->json, machine->source);
  known->machine =
      read == *machine ? std::move(machine) : std::make_shared<const Machine>(std::move(read));
  known->fingerprint = hymn::fingerprint(*known->machine);
  return known;
}

std::shared_ptr<const KnownMachine> known_machine(const std::string& topology_file) {
  // Never destroyed: a world may be made or end while the process does.
  static auto* cache = new Cache<std::shared_ptr<const KnownMachine>>();
  return cache->get(topology_file, [&] {
    return KnownMachine::of(std::make_shared<const Machine>(
        topology_file.empty() ? read_this_machine() : read_machine_file(topology_file)));
  });
}

std::shared_ptr<const Machine> machine_from_peer(const std::string& json) {
  static auto* cache = new Cache<std::shared_ptr<const Machine>>();
  return cache->get(json, [&] {
    return std::make_shared<const Machine>(machine_from_json(json, "the machine of another rank"));
  });
}

}  // namespace hymn
