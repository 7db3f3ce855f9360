// The network interfaces of this host, and which of them the ranks of a job use.
#pragma once

#include <asio/ip/address.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hymn {

/// One address of an interface; an interface may have several.
struct InterfaceAddress {
  std::string name;  ///< "eth0"
  asio::ip::address address;
  int prefix_length = 0;  ///< bits of the address that name the network
  bool is_loopback = false;
  bool is_up = false;
};

/// All of this host, in the system's order. Throws ResourceError when the system does not tell.
std::vector<InterfaceAddress> interface_addresses();

/// The address at which ranks can reach each other.
///
/// `wanted` is a list with commas of names ("eth0") and networks ("10.0.0.0/8"): the first entry
/// that fits an address that is up decides. With "^" before it, all that fit an entry are left
/// out. Empty: the loopback for `one_host`; otherwise the first address that is up, no loopback and
/// no bridge of virtual machines or containers (docker*, virbr*, br-*), one of IPv4
/// before one of IPv6. A link-local IPv6 address is never taken on its own account.
///
/// Throws ConfigError, which quotes `wanted` and lists what there is. Where it came from (the name
/// of a variable) is `source`.
InterfaceAddress choose_interface(std::span<const InterfaceAddress> all, std::string_view wanted,
                                  bool one_host, std::string_view source = "the interface");

}  // namespace hymn
