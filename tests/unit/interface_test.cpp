// Which network interface ranks use.
#include "control/interface.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

InterfaceAddress at(std::string name, const std::string& address, int bits, bool up = true) {
  const auto parsed = asio::ip::make_address(address);
  return {.name = std::move(name),
          .address = parsed,
          .prefix_length = bits,
          .is_loopback = parsed.is_loopback(),
          .is_up = up};
}

const std::vector<InterfaceAddress> host = {
    at("lo", "127.0.0.1", 8),          at("docker0", "172.17.0.1", 16),
    at("eth9", "10.9.0.1", 16, false), at("ib0", "fd00::7", 64),
    at("eth0", "10.1.2.3", 16),        at("eth1", "192.168.7.5", 24),
    at("eth1", "fe80::5", 64),         at("lo", "::1", 128),
};

std::string chosen(std::string_view wanted, bool one_host,
                   const std::vector<InterfaceAddress>& all = host) {
  try {
    return choose_interface(all, wanted, one_host, "HYMN_X").address.to_string();
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Interfaces, OneHostUsesItsLoopback) { EXPECT_EQ(chosen("", true), "127.0.0.1"); }

TEST(Interfaces, SeveralHostsUseTheFirstThatOthersCanReach) {
  EXPECT_EQ(chosen("", false), "10.1.2.3");
}

TEST(Interfaces, NamesAndNetworksDecide) {
  for (const bool one_host : {true, false}) {
    EXPECT_EQ(chosen("eth1", one_host), "192.168.7.5");
    EXPECT_EQ(chosen("ib0", one_host), "fd00::7");
    EXPECT_EQ(chosen("192.168.0.0/16", one_host), "192.168.7.5");
    EXPECT_EQ(chosen("192.168.6.0/23", one_host), "192.168.7.5");
    EXPECT_EQ(chosen("fd00::/8", one_host), "fd00::7");
    EXPECT_EQ(chosen("0.0.0.0/0", one_host), "127.0.0.1");
    EXPECT_EQ(chosen("nothing,eth1,eth0", one_host), "192.168.7.5");
    EXPECT_EQ(chosen("docker0", one_host), "172.17.0.1") << "what is named is used";
  }
}

TEST(Interfaces, WithACaretTheyAreLeftOut) {
  EXPECT_EQ(chosen("^eth0", false), "192.168.7.5");
  EXPECT_EQ(chosen("^10.0.0.0/8,192.168.0.0/16", false), "fd00::7");
  EXPECT_EQ(chosen("^lo", true), "10.1.2.3");
  EXPECT_EQ(chosen("^127.0.0.0/8", true), "::1");
}

TEST(Interfaces, WhatCannotBeChosenIsSaidWithWhatThereIs) {
  for (const std::string wanted :
       {"eth2", "eth9", "10.9.0.0/16", "192.168.8.0/24", "^eth0,eth1,ib0"})
    EXPECT_THAT(chosen(wanted, false),
                AllOf(HasSubstr("HYMN_X='" + wanted + "'"), HasSubstr("eth0 10.1.2.3/16"),
                      HasSubstr("eth9 10.9.0.1/16 (down)")));
  EXPECT_THAT(chosen("", false, {}), HasSubstr("there are: none"));
}

TEST(Interfaces, MalformedListsAreRefused) {
  EXPECT_THAT(chosen("eth0,,eth1", false), HasSubstr("'eth0,,eth1' has an empty entry"));
  EXPECT_THAT(chosen("eth0,", false), HasSubstr("empty entry"));
  EXPECT_THAT(chosen("^", false), HasSubstr("empty entry"));
  for (const std::string network : {"10.0.0/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "/8",
                                    "10.0.0.0/8x", "fd00::/129", "eth0/8"})
    EXPECT_THAT(chosen("eth0," + network, false), HasSubstr("'" + network + "' is not a network"));
}

TEST(Interfaces, ALinkLocalAddressIsNotTakenUnasked) {
  const std::vector<InterfaceAddress> only = {at("eth1", "fe80::5", 64)};
  EXPECT_THAT(chosen("", false, only), HasSubstr("leaves no network interface"));
  EXPECT_EQ(chosen("eth1", false, only), "fe80::5");
}

TEST(Interfaces, ThisHostHasALoopback) {
  const auto all = interface_addresses();
  const auto loopback = std::find_if(all.begin(), all.end(), [](const InterfaceAddress& one) {
    return one.address == asio::ip::address_v4::loopback();
  });
  ASSERT_NE(loopback, all.end());
  EXPECT_TRUE(loopback->is_loopback);
  EXPECT_TRUE(loopback->is_up);
  EXPECT_EQ(loopback->prefix_length, 8);
}

}  // namespace
}  // namespace hymn::test
