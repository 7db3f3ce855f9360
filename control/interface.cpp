#include "control/interface.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/interface_list.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

template <class Struct>
Struct read_as(const sockaddr* from) {
  Struct to{};
  std::memcpy(&to, from, sizeof to);
  return to;
}

template <class Bytes>
int count_ones(const Bytes& bytes) {
  int ones = 0;
  for (const unsigned char byte : bytes) ones += std::popcount(byte);
  return ones;
}

std::optional<InterfaceAddress> read_entry(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return std::nullopt;
  InterfaceAddress found;
  if (entry.ifa_addr->sa_family == AF_INET) {
    found.address =
        asio::ip::address_v4(ntohl(read_as<sockaddr_in>(entry.ifa_addr).sin_addr.s_addr));
    if (entry.ifa_netmask != nullptr)
      found.prefix_length = std::popcount(read_as<sockaddr_in>(entry.ifa_netmask).sin_addr.s_addr);
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto read = read_as<sockaddr_in6>(entry.ifa_addr);
    asio::ip::address_v6::bytes_type bytes{};
    std::memcpy(bytes.data(), &read.sin6_addr, bytes.size());
    found.address = asio::ip::address_v6(bytes, read.sin6_scope_id);
    if (entry.ifa_netmask != nullptr)
      found.prefix_length = count_ones(read_as<sockaddr_in6>(entry.ifa_netmask).sin6_addr.s6_addr);
  } else {
    return std::nullopt;
  }
  found.name = entry.ifa_name;
  found.is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  found.is_up = (entry.ifa_flags & IFF_UP) != 0;
  return found;
}

template <class Bytes>
bool begins_alike(const std::array<unsigned char, 16>& wanted, const Bytes& address, int bits) {
  for (std::size_t i = 0; i < address.size() && bits > 0; ++i, bits -= 8) {
    const unsigned mask = bits >= 8 ? 0xffu : 0xffu << (8 - bits) & 0xffu;
    if (((wanted[i] ^ address[i]) & mask) != 0) return false;
  }
  return true;
}

bool fits(const InterfaceEntry& entry, const InterfaceAddress& one) {
  if (!entry.name.empty()) return one.name == entry.name;
  if (entry.is_v4 != one.address.is_v4()) return false;
  return entry.is_v4 ? begins_alike(entry.address, one.address.to_v4().to_bytes(), entry.bits)
                     : begins_alike(entry.address, one.address.to_v6().to_bytes(), entry.bits);
}

std::string describe(std::span<const InterfaceAddress> all) {
  std::string text;
  for (const InterfaceAddress& one : all)
    text += fmt::format("{}{} {}/{}{}", text.empty() ? "" : ", ", one.name, one.address.to_string(),
                        one.prefix_length, one.is_up ? "" : " (down)");
  return text.empty() ? "none" : text;
}

using Fits = std::function<bool(const InterfaceAddress&)>;

bool is_link_local(const InterfaceAddress& one) {
  return one.address.is_v6() && one.address.to_v6().is_link_local();
}

bool is_virtual_bridge(const InterfaceAddress& one) {
  constexpr std::array<std::string_view, 3> prefixes = {"docker", "virbr", "br-"};
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return one.name.starts_with(prefix); });
}

/// The first that fits: of IPv4 if there is one, otherwise of IPv6.
const InterfaceAddress* first_of(std::span<const InterfaceAddress> all, const Fits& fits) {
  for (const bool v4 : {true, false})
    for (const InterfaceAddress& one : all)
      if (one.is_up && one.address.is_v4() == v4 && fits(one)) return &one;
  return nullptr;
}

const InterfaceAddress* choose(std::span<const InterfaceAddress> all, const InterfaceList& wanted,
                               bool one_host) {
  if (!wanted.excludes)
    for (const InterfaceEntry& entry : wanted.entries)
      if (const auto* found = first_of(all, [&](const auto& one) { return fits(entry, one); }))
        return found;
  if (!wanted.excludes && !wanted.entries.empty()) return nullptr;
  const auto is_left = [&](const InterfaceAddress& one) {
    return !is_link_local(one) &&
           std::ranges::none_of(wanted.entries,
                                [&](const InterfaceEntry& entry) { return fits(entry, one); });
  };
  if (one_host)
    if (const auto* found =
            first_of(all, [&](const auto& one) { return one.is_loopback && is_left(one); }))
      return found;
  return first_of(all, [&](const auto& one) {
    return !one.is_loopback && !is_virtual_bridge(one) && is_left(one);
  });
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw ResourceError(fmt::format("the network interfaces cannot be listed: {}",
                                    std::generic_category().message(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> held(list, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (auto found = read_entry(*entry)) all.push_back(*std::move(found));
  return all;
}

InterfaceAddress choose_interface(std::span<const InterfaceAddress> all, std::string_view wanted,
                                  bool one_host, std::string_view source) {
  const InterfaceList list = parse_interface_list(wanted, source);
  if (const auto* found = choose(all, list, one_host)) return *found;
  throw ConfigError(
      fmt::format("{}='{}' leaves no network interface for {}; there are: {}", source, wanted,
                  one_host ? "the ranks of this host" : "ranks on several hosts", describe(all)),
      {.remedy = "name an interface or a network that is up on every host"});
}

}  // namespace hymn
