// Memory, limits and network of this host.
#include "tools/doctor/probes.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/descriptor.hpp"

namespace hymn {
namespace {

std::string code_text(int code) { return std::generic_category().message(code); }

std::string fill(const Descriptor& file, std::uint64_t bytes) {
  int code = EINTR;
  while (code == EINTR) code = posix_fallocate(file.number(), 0, static_cast<off_t>(bytes));
  return code == 0 ? "" : code_text(code);
}

std::uint64_t soft_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::uint64_t>::max();
  return limit.rlim_cur;
}

// Empty for what is neither IPv4 nor IPv6.
std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  else if (address->sa_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (bytes == nullptr || inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr)
    return "";
  return text.data();
}

}  // namespace

std::string try_segment(std::uint64_t bytes) {
  const Descriptor file(memfd_create("hymn-doctor", MFD_CLOEXEC));
  if (file.number() < 0) return code_text(errno);
  return fill(file, bytes);
}

std::string try_file(const std::string& folder, std::uint64_t bytes) {
  std::string name = folder + "/hymn-doctor-XXXXXX";
  const Descriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (file.number() < 0) return code_text(errno);
  unlink(name.c_str());
  return fill(file, bytes);
}

ResourceLimits read_limits() {
  return {.open_files = soft_limit(RLIMIT_NOFILE),
          .processes = soft_limit(RLIMIT_NPROC),
          .locked_memory = soft_limit(RLIMIT_MEMLOCK),
          .core_file = soft_limit(RLIMIT_CORE)};
}

std::vector<NetworkInterface> read_interfaces() {
  std::vector<NetworkInterface> interfaces;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const auto& one) { return one.name == entry->ifa_name; });
    if (known == interfaces.end())
      known = interfaces.insert(
          known, {.name = entry->ifa_name,
                  .up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0,
                  .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                  .addresses = {}});
    if (auto text = address_text(entry->ifa_addr); !text.empty()) known->addresses.push_back(text);
  }
  freeifaddrs(first);
  return interfaces;
}

std::vector<std::string> read_name_addresses() {
  std::array<char, 256> name{};
  addrinfo* first = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  std::vector<std::string> addresses;
  if (gethostname(name.data(), name.size() - 1) != 0 ||
      getaddrinfo(name.data(), nullptr, &hints, &first) != 0)
    return addresses;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next)
    if (auto text = address_text(entry->ai_addr); !text.empty()) addresses.push_back(text);
  freeaddrinfo(first);
  return addresses;
}

std::vector<std::string> read_rdma_devices() {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries("/sys/class/infiniband", error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    names.push_back(entries->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace hymn
