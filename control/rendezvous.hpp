// Where the ranks of a job meet, by what their launcher has put into their environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/config.hpp"
#include "base/private.hpp"
#include "hymn/store.hpp"
#include "hymn/timeout.hpp"

namespace hymn::control {

struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string host{};   ///< of the store
  int port = 0;         ///< of the store
  bool serves = false;  ///< this rank keeps it

  /// The store is at the loopback, where nobody comes from elsewhere.
  bool is_on_one_host() const;
};

using Variable = std::function<std::optional<std::string>(const char* name)>;

/// Of this process; throws ConfigError for what is missing or malformed. A rank alone needs no
/// store: then there is no host.
Rendezvous read_rendezvous(const Config& config, const Variable& variable);

/// Opened by the first call, for all worlds of the process: what rank 0 keeps is there as long as
/// that lives. Throws NetworkError where there is no such store in time, ConfigError for a token
/// that is none.
std::shared_ptr<Store> store_of_process(const Rendezvous& where, const Config& config,
                                        Timeout timeout);

/// The key under which a launcher that keeps the store tells how a rank has ended.
HYMN_PRIVATE std::string key_of_end(int rank);

/// "node[08-11,20],b" -> "node08": the first of a list of hosts, as Slurm writes it.
std::string first_host(std::string_view list);

}  // namespace hymn::control
