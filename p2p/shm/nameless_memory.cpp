#include "p2p/shm/nameless_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::string_view memfd_link = "/memfd:";

std::string remedy_for(int error) {
  if (error == EMFILE) return "raise the limit on open files of a process (ulimit -n)";
  if (error == ENFILE) return "raise the limit on open files of this host (fs.file-max)";
  if (error == ENOMEM)
    return "free memory on this host, or raise the limit on address space (ulimit -v)";
  if (error == EACCES || error == EPERM)
    return "run the ranks of a host as one user, in containers with the same rights";
  return "";
}

[[noreturn]] void fail(const std::string& what, int error) {
  throw ResourceError(fmt::format("{}: {}", what, std::strerror(error)),
                      {.remedy = remedy_for(error)});
}

std::string link_of(int descriptor) {
  std::array<char, 256> text{};
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  const ssize_t length = readlink(path.c_str(), text.data(), text.size());
  return length < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(length));
}

/// This process's number as /proc has it: that may be another PID namespace's than the process's.
std::uint64_t own_pid_in_proc() {
  std::array<char, 32> text{};
  const ssize_t length = readlink("/proc/self", text.data(), text.size());
  std::uint64_t pid = 0;
  if (length > 0) std::from_chars(text.data(), text.data() + length, pid);
  return pid;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    fail("no random number can be had", errno);
  return number;
}

// Where the system call is forbidden: a file of /dev/shm that never gets a name.
Descriptor make_unnamed_file(int memfd_error) {
  Descriptor file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file)
    throw ResourceError(fmt::format("shared memory is not available: memfd_create fails with '{}', "
                                    "and an unnamed file in /dev/shm with '{}'",
                                    std::strerror(memfd_error), std::strerror(errno)),
                        {.remedy = "permit memfd_create, or mount a tmpfs at /dev/shm"});
  return file;
}

// Beyond this limit the kernel would kill the process (SIGXFSZ).
void check_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (limit.rlim_cur < bytes)
    throw ResourceError(fmt::format("{} bytes of shared memory exceed the {} that this process's "
                                    "limit on the size of files allows",
                                    bytes, limit.rlim_cur),
                        {.remedy = "raise the limit on the size of files (ulimit -f)"});
}

}  // namespace

void MemoryKey::pack(Packer& packer) const {
  packer.number(pid).number(descriptor).number(device).number(inode).number(bytes).text(link);
}

MemoryKey MemoryKey::unpack(Unpacker& unpacker) {
  MemoryKey key;
  for (std::uint64_t* field : {&key.pid, &key.descriptor, &key.device, &key.inode, &key.bytes})
    *field = unpacker.number();
  key.link = unpacker.text();
  return key;
}

Descriptor make_nameless_memory(std::size_t bytes, const std::string& purpose) {
  check_size_limit(bytes);
  const std::string name = fmt::format("hymn-{}-{:016x}", purpose, random_number());
  Descriptor memory(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool sealable = static_cast<bool>(memory);
  if (!sealable) {
    if (errno != ENOSYS && errno != EPERM)
      fail(fmt::format("{} bytes of shared memory cannot be created", bytes), errno);
    memory = make_unnamed_file(errno);
  }
  if (ftruncate(memory.number(), static_cast<off_t>(bytes)) != 0)
    fail(fmt::format("shared memory cannot be resized to {} bytes", bytes), errno);
  // Whoever could shrink it could kill everybody who looks at it.
  if (sealable && fcntl(memory.number(), F_ADD_SEALS, fixed_size) != 0)
    fail("the size of shared memory cannot be sealed", errno);
  return memory;
}

MemoryKey key_of(const Descriptor& memory) {
  struct stat status{};
  if (fstat(memory.number(), &status) != 0) fail("shared memory cannot be inspected", errno);
  return {.pid = own_pid_in_proc(),
          .descriptor = static_cast<std::uint64_t>(memory.number()),
          .device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .link = link_of(memory.number())};
}

void check_nameless_memory(const Descriptor& memory, const MemoryKey& key) {
  struct stat status{};
  const bool same = fstat(memory.number(), &status) == 0 && status.st_dev == key.device &&
                    status.st_ino == key.inode && S_ISREG(status.st_mode) &&
                    static_cast<std::uint64_t>(status.st_size) == key.bytes;
  // Other mounts may call an unnamed file otherwise; a memfd is called the same everywhere.
  const bool named = !key.link.starts_with(memfd_link) || link_of(memory.number()) == key.link;
  if (!same || !named)
    throw ResourceError(
        fmt::format("descriptor {} of process {} is not the shared memory that it announced",
                    key.descriptor, key.pid),
        {.remedy = "make sure that the rank that made it is still alive"});
}

Descriptor open_nameless_memory(const MemoryKey& key) {
  const std::string path = fmt::format("/proc/{}/fd/{}", key.pid, key.descriptor);
  // Only to be looked at: the number may belong to another process by now, and opening what that
  // one holds may have effects.
  const Descriptor seen(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!seen) {
    if (errno == ENOENT)
      throw ResourceError(
          fmt::format("process {}, which made the shared memory, no longer exists, or is in "
                      "another PID namespace",
                      key.pid),
          {.remedy =
               "run the ranks of a host in one PID namespace, and find out why that rank ended"});
    fail(fmt::format("the shared memory of process {} cannot be found ({})", key.pid, path), errno);
  }
  check_nameless_memory(seen, key);
  const std::string own = fmt::format("/proc/self/fd/{}", seen.number());
  Descriptor memory(open(own.c_str(), O_RDWR | O_CLOEXEC));
  if (!memory)
    fail(fmt::format("the shared memory of process {} cannot be opened", key.pid), errno);
  return memory;
}

void check_fixed_size(const Descriptor& memory, const MemoryKey& key) {
  if (key.link.starts_with(memfd_link) &&
      (fcntl(memory.number(), F_GET_SEALS) & fixed_size) != fixed_size)
    throw ResourceError(
        fmt::format("the size of the shared memory of process {} is not sealed", key.pid));
}

SharedMapping::SharedMapping(const Descriptor& memory, std::size_t bytes, Access access)
    : bytes_(bytes) {
  const int rights = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* mapped = mmap(nullptr, bytes, rights, MAP_SHARED, memory.number(), 0);
  if (mapped == MAP_FAILED)
    fail(fmt::format("{} bytes of shared memory cannot be mapped", bytes), errno);
  base_ = static_cast<std::byte*>(mapped);
}

SharedMapping::~SharedMapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

void SharedMapping::copy(const Descriptor& memory) const noexcept {
  mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, memory.number(), 0);
}

void SharedMapping::keep_from_children() const { madvise(base_, bytes_, MADV_DONTFORK); }

}  // namespace hymn
