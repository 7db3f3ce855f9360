#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>

#include "base/kernel_file.hpp"
#include "base/kernel_namespace.hpp"
#include "p2p/shm/handover.hpp"

namespace hymn {
namespace {

/// Whether /proc numbers processes as this process's own PID namespace does.
bool has_own_proc() {
  std::array<char, 32> text{};
  const ssize_t length = readlink("/proc/self", text.data(), text.size());
  return length > 0 && std::string_view(text.data(), static_cast<std::size_t>(length)) ==
                           std::to_string(getpid());
}

// The kernel lets a process look into another that is the same user's, has no capability that it
// lacks, may be dumped, and which no security module keeps apart from it (ptrace(2)).
std::string rights_of_this_process() {
  if (!has_own_proc() || prctl(PR_GET_DUMPABLE) != 1) return "";
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> capabilities{};
  if (syscall(SYS_capget, &header, capabilities.data()) != 0) return "";
  const std::string text = kernel_file("/proc/self/attr/current").value_or("");
  std::string_view left = text;
  const std::string_view label = next_part(left, '\0');
  return fmt::format("{} {} {} {} {}", geteuid(), getegid(), capabilities[0].permitted,
                     capabilities[1].permitted, label);
}

}  // namespace

Standing Standing::of_this_process() {
  return {.pid_namespace = own_namespace("pid"),
          .network_namespace = own_namespace("net"),
          .user_namespace = own_namespace("user"),
          .user = geteuid(),
          .rights = rights_of_this_process()};
}

void Standing::pack(Packer& packer) const {
  packer.number(pid_namespace).number(network_namespace).number(user_namespace).number(user);
  packer.text(rights);
}

Standing Standing::unpack(Unpacker& unpacker) {
  Standing standing;
  for (std::uint64_t* field : {&standing.pid_namespace, &standing.network_namespace,
                               &standing.user_namespace, &standing.user})
    *field = unpacker.number();
  standing.rights = unpacker.text();
  return standing;
}

WayToMemory way_between(const Standing& maker, const Standing& member) {
  const bool alike = maker.pid_namespace == member.pid_namespace && maker.pid_namespace != 0 &&
                     maker.user_namespace == member.user_namespace &&
                     maker.rights == member.rights && !maker.rights.empty();
  if (alike) return WayToMemory::proc;
  // Users of different user namespaces cannot be compared by number; the socket does that.
  const bool others = maker.user_namespace == member.user_namespace && maker.user != member.user;
  if (maker.network_namespace != member.network_namespace || others) return WayToMemory::none;
  return WayToMemory::handover;
}

}  // namespace hymn
