// Writes beside the file, then renames.
#include "tools/write_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "hymn/error.hpp"

namespace hymn {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, int code) {
  ErrorContext context;
  context.remedy = "Give a file in a folder that exists, may be written to, and has room.";
  throw ResourceError(fmt::format("cannot write {}: {}", path, std::strerror(code)), context);
}

void write_all(int file, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A new file beside the wanted one, removed again unless it was renamed.
class FileBeside {
 public:
  explicit FileBeside(const std::string& target) : target_(target), name_(target + ".XXXXXX") {
    file_ = ::mkstemp(name_.data());
    if (file_ < 0) fail(target_, errno);
  }
  ~FileBeside() {
    if (file_ >= 0) ::close(file_);
    if (!done_) ::unlink(name_.c_str());
  }
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;

  void finish(std::string_view content) {
    write_all(file_, content, target_);
    // mkstemp lets only the owner read; a new file is to have the usual permissions.
    struct stat old{};
    const mode_t mask = ::umask(0);
    ::umask(mask);
    const bool is_old = ::stat(target_.c_str(), &old) == 0;
    const mode_t mode = is_old ? old.st_mode & 0777 : 0666 & ~mask;
    if (::fchmod(file_, mode) != 0) fail(target_, errno);
    const int closed = ::close(std::exchange(file_, -1));
    if (closed != 0 || ::rename(name_.c_str(), target_.c_str()) != 0) fail(target_, errno);
    done_ = true;
  }

 private:
  std::string target_;
  std::string name_;
  int file_ = -1;
  bool done_ = false;
};

}  // namespace

void write_file(const std::string& path, std::string_view content) {
  if (path == "-") {
    const bool whole = std::fwrite(content.data(), 1, content.size(), stdout) == content.size();
    if (!whole || std::fflush(stdout) != 0) fail("the standard output", errno);
    return;
  }
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) fail(path, EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) fail(path, errno);
    const bool whole = std::fwrite(content.data(), 1, content.size(), file) == content.size();
    if (std::fclose(file) != 0 || !whole) fail(path, errno);
    return;
  }
  // A link to a file stays a link.
  const fs::path real = fs::canonical(path, ignored);
  FileBeside(real.empty() ? path : real.string()).finish(content);
}

}  // namespace hymn
