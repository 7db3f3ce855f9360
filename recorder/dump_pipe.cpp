#include "recorder/dump_pipe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "hymn/error.hpp"
#include "recorder/dump_file.hpp"

namespace hymn {
namespace {

[[noreturn]] void fail_to_make(const std::string& path, const std::string& why) {
  throw ResourceError(fmt::format("the pipe {} cannot be made: {}", path, why),
                      {.remedy = "let HYMN_DUMP name a path in a folder that exists and is "
                                 "writable, where no other job has its files"});
}

void remove_stale(const std::string& path) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) return;
  if (!S_ISFIFO(found.st_mode)) fail_to_make(path, "this name exists, and is not a pipe");
  if (found.st_uid != geteuid()) fail_to_make(path, "this name is a pipe of another user");
  unlink(path.c_str());
}

}  // namespace

DumpPipe::DumpPipe(std::string_view base, int rank) : path_(dump_path(base, rank) + ".pipe") {
  if (mkfifo(path_.c_str(), 0600) != 0) {
    if (errno != EEXIST) fail_to_make(path_, std::strerror(errno));
    remove_stale(path_);
    if (mkfifo(path_.c_str(), 0600) != 0) fail_to_make(path_, std::strerror(errno));
  }
  // Open for writing, too: then whoever writes never waits for a reader, and reading never sees an
  // end.
  pipe_ = Descriptor(open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  const int error = errno;
  if (pipe_) return;
  unlink(path_.c_str());
  fail_to_make(path_, std::strerror(error));
}

DumpPipe::~DumpPipe() {
  struct stat own{};
  struct stat named{};
  if (fstat(pipe_.number(), &own) == 0 && lstat(path_.c_str(), &named) == 0 &&
      own.st_ino == named.st_ino && own.st_dev == named.st_dev)
    unlink(path_.c_str());
}

void remove_pipe_of(std::string_view base, int rank) noexcept {
  try {
    remove_stale(dump_path(base, rank) + ".pipe");
  } catch (const std::exception&) {
    // Somebody else's: it is theirs to remove.
  }
}

bool DumpPipe::asked() {
  std::array<char, 512> text{};
  bool any = false;
  while (true) {
    const ssize_t got = read(pipe_.number(), text.data(), text.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return any;
    any = true;
  }
}

}  // namespace hymn
