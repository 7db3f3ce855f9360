#include "control/rendezvous.hpp"

#include <fmt/format.h>

#include <asio/ip/address.hpp>
#include <charconv>
#include <cstdlib>
#include <mutex>

#include "hymn/store.hpp"

namespace hymn::control {
namespace {

constexpr int most_ports = 65535;

[[noreturn]] void throw_missing(const char* name) {
  throw ConfigError(fmt::format("no launcher has set {}", name),
                    {.remedy = "start the program by hymn run, torchrun or srun, or set RANK, "
                               "WORLD_SIZE, MASTER_ADDR and MASTER_PORT"});
}

[[noreturn]] void throw_malformed(std::string_view name, std::string_view value,
                                  std::string_view expected) {
  throw ConfigError(fmt::format("{}='{}' is not valid", name, value),
                    {.remedy = fmt::format("give {}", expected)});
}

int parse(std::string_view name, std::string_view text, int least, int most) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most)
    throw_malformed(name, text, fmt::format("a number from {} to {}", least, most));
  return number;
}

/// The first of two variables that is set.
struct Found {
  const char* name;
  std::string value;
};
Found find(const Variable& variable, const char* name, const char* of_slurm) {
  if (auto value = variable(name)) return {name, std::move(*value)};
  if (auto value = variable(of_slurm)) return {of_slurm, std::move(*value)};
  throw_missing(name);
}

int number_of(const Found& found, int least, int most) {
  return parse(found.name, found.value, least, most);
}

/// "host:port", or "[address]:port" of IPv6.
void read_store(std::string_view text, Rendezvous& where) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    throw_malformed("HYMN_STORE", text, "a host and a port, as in localhost:4711");
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  where.host = host;
  where.port = parse("HYMN_STORE", text.substr(colon + 1), 1, most_ports);
}

/// One that all tasks of a step choose alike, and those of another step hardly. Below those that
/// the system gives to clients.
int port_of_step(const Variable& variable) {
  constexpr unsigned first = 20'000;
  constexpr unsigned ports = 12'000;
  const auto id = [&](const char* name) {
    return static_cast<unsigned>(std::atoi(variable(name).value_or("0").c_str()));
  };
  return static_cast<int>(first + (id("SLURM_JOB_ID") * 31 + id("SLURM_STEP_ID")) % ports);
}

bool has_step(const Variable& variable) { return variable("SLURM_STEP_NODELIST").has_value(); }

std::string master_of(const Variable& variable) {
  if (auto address = variable("MASTER_ADDR")) return *address;
  if (const auto hosts = variable("SLURM_STEP_NODELIST")) return first_host(*hosts);
  throw_missing("MASTER_ADDR");
}

int master_port_of(const Variable& variable) {
  const auto port = variable("MASTER_PORT");
  if (!port && has_step(variable)) return port_of_step(variable);
  if (!port) throw_missing("MASTER_PORT");
  // There is torchrun's own store, which speaks another language: the next one is ours.
  const bool is_taken = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return parse("MASTER_PORT", *port, 1, most_ports - 1) + (is_taken ? 1 : 0);
}

}  // namespace

bool Rendezvous::is_on_one_host() const {
  asio::error_code error;
  const auto address = asio::ip::make_address(host, error);
  return host == "localhost" || (!error && address.is_loopback());
}

std::string key_of_end(int rank) { return fmt::format("ended/{}", rank); }

std::string first_host(std::string_view list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket > comma || bracket == std::string_view::npos)
    return std::string(list.substr(0, comma));
  const std::string_view numbers = list.substr(bracket + 1);
  return std::string(list.substr(0, bracket)) +
         std::string(numbers.substr(0, numbers.find_first_of(",-]")));
}

Rendezvous read_rendezvous(const Config& config, const Variable& variable) {
  constexpr int most_ranks = 1 << 24;
  Rendezvous where;
  where.size = number_of(find(variable, "WORLD_SIZE", "SLURM_STEP_NUM_TASKS"), 1, most_ranks);
  where.rank = number_of(find(variable, "RANK", "SLURM_PROCID"), 0, where.size - 1);
  if (where.size == 1) return where;
  if (!config.store.empty()) {
    read_store(config.store, where);
    return where;
  }
  where.host = master_of(variable);
  where.port = master_port_of(variable);
  where.serves = where.rank == 0;
  return where;
}

namespace {

std::shared_ptr<Store> open_store(const Rendezvous& where, const Config& config, Timeout timeout) {
  if (where.host.empty()) return std::make_shared<HashStore>();
  TcpStoreOptions options{
      .host = where.host, .port = where.port, .is_server = where.serves, .token = config.token};
  options.timeout = timeout.or_else(options.timeout);
  try {
    return std::make_shared<TcpStore>(options);
  } catch (const UsageError& error) {
    throw ConfigError(error.problem(),
                      {.rank = where.rank,
                       .remedy = "set HYMN_TOKEN to the same 64 hexadecimal digits on all ranks "
                                 "(openssl rand -hex 32 makes some)"});
  }
}

}  // namespace

std::shared_ptr<Store> store_of_process(const Rendezvous& where, const Config& config,
                                        Timeout timeout) {
  static std::mutex mutex;
  static auto& opened = *new std::shared_ptr<Store>();  // never ended
  const std::lock_guard lock(mutex);
  if (!opened) opened = open_store(where, config, timeout);
  return opened;
}

}  // namespace hymn::control
