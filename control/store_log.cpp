#include "control/store_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "hymn/store.hpp"

namespace hymn {

struct StoreLog::Header {
  std::array<char, 8> magic;
  std::uint64_t end;   ///< bytes of the file that count
  std::uint64_t left;  ///< users that have left
};

namespace {

constexpr std::array<char, 8> log_magic = {'h', 'y', 'm', 'n', 'k', 'v', '1', '\n'};
constexpr std::uint32_t erased = 0xffffffff;
constexpr long first_nap_ns = 20'000;
constexpr long longest_nap_ns = 2'000'000;

struct RecordHead {
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;  ///< or `erased`
};

}  // namespace

StoreLog::StoreLog(std::string path) : path_(std::move(path)) { open(); }

void StoreLog::fail(const std::string& what, std::string remedy) const {
  throw StoreError(fmt::format("the file store '{}': {}", path_, what),
                   {.remedy = std::move(remedy)});
}

void StoreLog::fail_with_errno(const std::string& what) const {
  fail(fmt::format("{}: {}", what, std::generic_category().message(errno)),
       "give a path that this user can read and write, on a file system with locks");
}

void StoreLog::open() {
  file_ = Descriptor(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file_) fail_with_errno("cannot be opened");
  struct stat status{};
  if (::fstat(file_.number(), &status) != 0) fail_with_errno("cannot be inspected");
  if (!S_ISREG(status.st_mode)) fail("is not a regular file", "give the path of a file of its own");
  // In a folder that everybody may write, somebody else may have put it there.
  if (status.st_uid != ::geteuid())
    fail(fmt::format("belongs to user {}", status.st_uid), "give a path in a folder of your own");
  process_ = ::getpid();
}

// Asked for again and again: a process that was stopped while it held the lock must not make this
// one wait for ever.
void StoreLog::lock(int kind, Deadline deadline) {
  struct flock wanted{};
  wanted.l_type = static_cast<short>(kind);
  wanted.l_whence = SEEK_SET;
  long nap_ns = first_nap_ns;
  while (::fcntl(file_.number(), F_OFD_SETLK, &wanted) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) fail_with_errno("cannot be locked");
    if (deadline.expired(std::chrono::steady_clock::now()))
      fail("another process keeps it locked",
           "check that no process that uses it has been stopped, or give a longer timeout");
    const timespec nap{0, nap_ns};
    ::nanosleep(&nap, nullptr);
    nap_ns = std::min(2 * nap_ns, longest_nap_ns);
  }
}

StoreLog::Lock::Lock(StoreLog& log, Access access, Deadline deadline) : log_(log) {
  if (log.process_ != ::getpid()) log.open();
  while (true) {
    log.lock(access == Access::write ? F_WRLCK : F_RDLCK, deadline);
    struct stat status{};
    if (::fstat(log.file_.number(), &status) != 0) log.fail_with_errno("cannot be inspected");
    // Its last user has removed it between our opening it and locking it. Whoever has already read
    // it keeps to it.
    if (status.st_nlink > 0 || log.position_ > 0) break;
    log.open();
  }
  try {
    log.catch_up(access == Access::write);
  } catch (...) {
    struct flock none{};
    none.l_type = F_UNLCK;
    ::fcntl(log.file_.number(), F_OFD_SETLK, &none);
    throw;
  }
}

StoreLog::Lock::~Lock() {
  struct flock none{};
  none.l_type = F_UNLCK;
  none.l_whence = SEEK_SET;
  ::fcntl(log_.file_.number(), F_OFD_SETLK, &none);
}

void StoreLog::read_at(void* to, std::size_t count, std::uint64_t offset) {
  auto* at = static_cast<std::byte*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(file_.number(), at, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno("cannot be read");
    if (got == 0)
      fail("is shorter than its header says", "remove the file and start the job again");
    at += got;
    count -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

void StoreLog::write_at(const void* from, std::size_t count, std::uint64_t offset) {
  const auto* at = static_cast<const std::byte*>(from);
  while (count > 0) {
    const ssize_t put = ::pwrite(file_.number(), at, count, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_with_errno("cannot be written");
    at += put;
    count -= static_cast<std::size_t>(put);
    offset += static_cast<std::uint64_t>(put);
  }
}

StoreLog::Header StoreLog::read_header() {
  Header header{};
  read_at(&header, sizeof header, 0);
  if (header.magic != log_magic || header.end < sizeof header)
    fail("holds something other than a store", "give the path of a file of its own");
  return header;
}

void StoreLog::catch_up(bool may_write) {
  struct stat status{};
  if (::fstat(file_.number(), &status) != 0) fail_with_errno("cannot be inspected");
  if (status.st_size < static_cast<off_t>(sizeof(Header))) {
    // New, or its maker was killed before it had written the header. Nothing is in it.
    if (position_ > 0) fail("was cut off", "let nothing else write to it");
    if (!may_write) return;
    const Header fresh{.magic = log_magic, .end = sizeof(Header), .left = 0};
    write_at(&fresh, sizeof fresh, 0);
  }
  const Header header = read_header();
  std::uint64_t at = std::max<std::uint64_t>(position_, sizeof header);
  while (at < header.end) {
    RecordHead head{};
    read_at(&head, sizeof head, at);
    const std::size_t value_bytes = head.value_bytes == erased ? 0 : head.value_bytes;
    if (head.key_bytes > Store::most_key_bytes || value_bytes > Store::most_value_bytes)
      fail("is damaged", "remove the file and start the job again");
    std::string key(head.key_bytes, '\0');
    Bytes value(value_bytes);
    read_at(key.data(), key.size(), at + sizeof head);
    read_at(value.data(), value.size(), at + sizeof head + key.size());
    if (head.value_bytes == erased)
      map_.erase(key);
    else
      map_.set(key, std::move(value));
    at += sizeof head + key.size() + value_bytes;
    position_ = at;
  }
  position_ = at;
}

void StoreLog::append(const std::string& key, std::uint32_t value_bytes,
                      std::span<const std::byte> value) {
  const RecordHead head{.key_bytes = static_cast<std::uint32_t>(key.size()),
                        .value_bytes = value_bytes};
  Bytes record(sizeof head + key.size() + value.size());
  std::memcpy(record.data(), &head, sizeof head);
  std::memcpy(record.data() + sizeof head, key.data(), key.size());
  std::copy(value.begin(), value.end(),
            record.begin() + static_cast<std::ptrdiff_t>(sizeof head + key.size()));
  write_at(record.data(), record.size(), position_);
  const std::uint64_t end = position_ + record.size();
  write_at(&end, sizeof end, offsetof(Header, end));
  position_ = end;
}

void StoreLog::set(const std::string& key, const Bytes& value) {
  append(key, static_cast<std::uint32_t>(value.size()), value);
  map_.set(key, value);
}

void StoreLog::erase(const std::string& key) {
  append(key, erased, {});
  map_.erase(key);
}

void StoreLog::leave(int users) {
  const std::uint64_t left = read_header().left + 1;
  write_at(&left, sizeof left, offsetof(Header, left));
  if (left >= static_cast<std::uint64_t>(users)) ::unlink(path_.c_str());
}

}  // namespace hymn
