// Where tuning tables lie, and how they get there whole.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20;

std::string absolute_or_empty(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  throw ResourceError(fmt::format("the tuning table cannot be written to {}: {}", path, why),
                      {.remedy = "give another file with --output, or set XDG_CACHE_HOME"});
}

[[noreturn]] void cannot_write(const std::string& path, int error) {
  cannot_write(path, std::strerror(error));
}

[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  throw ConfigError(fmt::format("tuning table {} cannot be read: {}", path, why),
                    {.remedy = "run `hymn tune` again, or set HYMN_TUNING=off"});
}

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// The folder is made where it is missing.
void make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) cannot_write(path, error.value());
}

// A name of its own beside the file.
std::string temporary_for(const std::string& path) {
  return fmt::format("{}.{}.new", path, ::getpid());
}

int open_beside(const std::string& temporary, const std::string& path) {
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                          S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (file < 0) cannot_write(path, errno);
  return file;
}

// The new file, complete and on the disk. Nothing is left when it fails.
void write_beside(const std::string& text, const std::string& temporary, const std::string& path) {
  const Descriptor file(open_beside(temporary, path));
  try {
    write_all(file.number(), text, path);
    if (::fsync(file.number()) != 0) cannot_write(path, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) cannot_write(path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace

std::string tuning_file_for(const std::string& fingerprint) {
  std::string cache = absolute_or_empty("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::string home = absolute_or_empty("HOME");
    if (home.empty()) return "";
    cache = home + "/.cache";
  }
  return fmt::format("{}/hymn/tuning-{}.json", cache, fingerprint);
}

void check_tuning_file(const std::string& path) {
  make_folder_of(path);
  std::error_code ignored;
  const auto found = std::filesystem::status(path, ignored);
  // To be renamed over, a device would be lost.
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found))
    cannot_write(path, "it is not a file");
  const std::string temporary = temporary_for(path);
  const Descriptor file(open_beside(temporary, path));
  ::unlink(temporary.c_str());
}

void write_tuning_file(const TuningTable& table, const std::string& path) {
  make_folder_of(path);
  write_beside(table.to_json(), temporary_for(path), path);
}

std::optional<std::string> read_tuning_text(const std::string& path) {
  // A pipe or a device in its place must not hold the job up.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    cannot_read(path, std::strerror(errno));
  }
  struct stat found{};
  if (::fstat(file.number(), &found) != 0) cannot_read(path, std::strerror(errno));
  if (!S_ISREG(found.st_mode)) cannot_read(path, "it is not a file");
  std::string text;
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t got = ::read(file.number(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path, std::strerror(errno));
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > largest_file)
      cannot_read(path, fmt::format("it is longer than {} bytes", largest_file));
  }
}

}  // namespace hymn
