#include "hymn/rendezvous.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "base/config.hpp"
#include "control/rendezvous.hpp"
#include "p2p/tcp/tcp_exchange.hpp"

namespace hymn {
namespace {

std::optional<std::string> value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

auto asks(const std::shared_ptr<Store>& launchers) {
  return [launchers](int rank) -> std::optional<std::string> {
    const std::string key = control::key_of_end(rank);
    if (!launchers->check({key})) return std::nullopt;
    return launchers->get_text(key);
  };
}

}  // namespace

std::shared_ptr<Exchange> exchange_from_environment(Timeout timeout) {
  static std::atomic<unsigned> calls{0};
  const Config config = Config::from_environment();
  const control::Rendezvous where = control::read_rendezvous(config, value_of);
  const auto launchers = control::store_of_process(where, config, timeout);
  auto store = std::make_shared<PrefixStore>(fmt::format("world {}", calls++), launchers);
  if (where.size == 1) return exchange_over(std::move(store), where.rank, where.size);
  return make_tcp_exchange(std::move(store), {.rank = where.rank,
                                              .size = where.size,
                                              .interface = config.interface,
                                              .one_host = where.is_on_one_host(),
                                              .logger = Logger(config.log_level, where.rank),
                                              .how_ended = asks(launchers)});
}

}  // namespace hymn
