#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "base/kernel_file.hpp"
#include "base/kernel_namespace.hpp"
#include "p2p/shm/descriptor_passing.hpp"

namespace hymn {
namespace {

/// Whether /proc numbers processes as this process's own PID namespace does.
bool has_own_proc() {
  std::array<char, 32> text{};
  const ssize_t length = readlink("/proc/self", text.data(), text.size());
  return length > 0 && std::string_view(text.data(), static_cast<std::size_t>(length)) ==
                           std::to_string(getpid());
}

/// What a process is born with, which takes a dozen system calls to find out. Nobody who shares
/// memory moves to other namespaces, or to another security label, later on.
struct Birthright {
  pid_t pid = 0;                       ///< whose: a child made by fork() asks anew
  const Birthright* before = nullptr;  ///< the parent's, which another thread may be reading
  bool has_own_proc = false;
  std::string label;
  std::uint64_t pid_namespace = 0;
  std::uint64_t network_namespace = 0;
  std::uint64_t user_namespace = 0;
};

Birthright find_birthright() {
  const std::string text = kernel_file("/proc/self/attr/current").value_or("");
  std::string_view left = text;
  return {.pid = getpid(),
          .has_own_proc = has_own_proc(),
          .label = std::string(next_part(left, '\0')),
          .pid_namespace = own_namespace("pid"),
          .network_namespace = own_namespace("net"),
          .user_namespace = own_namespace("user")};
}

const Birthright& birthright_of_this_process() {
  static std::atomic<const Birthright*> known = nullptr;
  const Birthright* born = known.load();
  while (born == nullptr || born->pid != getpid()) {
    auto found = std::make_unique<Birthright>(find_birthright());
    found->before = born;
    if (known.compare_exchange_strong(born, found.get())) return *found.release();
  }
  return *born;
}

// The kernel lets a process look into another that is the same user's, has no capability that it
// lacks, may be dumped, and which no security module keeps apart from it (ptrace(2)).
std::string rights_of_this_process(const Birthright& born) {
  if (!born.has_own_proc || prctl(PR_GET_DUMPABLE) != 1) return "";
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> capabilities{};
  if (syscall(SYS_capget, &header, capabilities.data()) != 0) return "";
  return fmt::format("{} {} {} {} {}", geteuid(), getegid(), capabilities[0].permitted,
                     capabilities[1].permitted, born.label);
}

}  // namespace

Credentials Credentials::of_this_process() {
  const Birthright& born = birthright_of_this_process();
  return {.pid_namespace = born.pid_namespace,
          .network_namespace = born.network_namespace,
          .user_namespace = born.user_namespace,
          .user = geteuid(),
          .rights = rights_of_this_process(born)};
}

void Credentials::pack(Packer& packer) const {
  packer.number(pid_namespace).number(network_namespace).number(user_namespace).number(user);
  packer.text(rights);
}

Credentials Credentials::unpack(Unpacker& unpacker) {
  Credentials credentials;
  for (std::uint64_t* field : {&credentials.pid_namespace, &credentials.network_namespace,
                               &credentials.user_namespace, &credentials.user})
    *field = unpacker.number();
  credentials.rights = unpacker.text();
  return credentials;
}

WayToMemory way_between(const Credentials& maker, const Credentials& member) {
  const bool alike = maker.pid_namespace == member.pid_namespace && maker.pid_namespace != 0 &&
                     maker.user_namespace == member.user_namespace &&
                     maker.rights == member.rights && !maker.rights.empty();
  if (alike) return WayToMemory::proc;
  // Users of different user namespaces cannot be compared by number; the socket does that.
  const bool others = maker.user_namespace == member.user_namespace && maker.user != member.user;
  if (maker.network_namespace != member.network_namespace || others) return WayToMemory::none;
  return WayToMemory::descriptor_passing;
}

}  // namespace hymn
