#include "hymn/rendezvous.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "base/config.hpp"
#include "control/rendezvous.hpp"
#include "p2p/tcp/tcp_exchange.hpp"

namespace hymn {
namespace {

std::optional<std::string> environment_value(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

/// By the store of a launcher that tells it there.
std::optional<std::string> how_ended(Store& store, int rank) {
  try {
    const std::string key = control::key_of_end(rank);
    if (store.check({key})) return store.get_text(key);
  } catch (const Error&) {  // nobody needs it for anything else
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<Exchange> exchange_from_environment(Timeout timeout) {
  static std::atomic<unsigned> calls{0};
  const Config config = Config::from_environment();
  const control::Rendezvous where = control::read_rendezvous(config, environment_value);
  const auto all = control::store_of_process(where, config, timeout);
  auto store = std::make_shared<PrefixStore>(fmt::format("world {}", calls++), all);
  if (where.size == 1) return exchange_over(std::move(store), where.rank, where.size);
  TcpExchangeSite site{.rank = where.rank,
                       .size = where.size,
                       .interface = config.interface,
                       .one_host = where.is_on_one_host(),
                       .logger = Logger(config.log_level, where.rank)};
  if (!config.store.empty()) site.how_ended = [all](int rank) { return how_ended(*all, rank); };
  return make_tcp_exchange(std::move(store), site);
}

}  // namespace hymn
