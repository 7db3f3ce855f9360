#include "recorder/dump_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "hymn/error.hpp"
#include "recorder/flight_dump_pickle.hpp"
#include "recorder/flight_dump_torch.hpp"

namespace hymn {
namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw ResourceError(fmt::format("the dump {} cannot be written: {}", path, std::strerror(error)),
                      {.remedy = "let HYMN_DUMP name a path in a folder that exists and is "
                                 "writable, with room for some megabytes"});
}

/// 0, or errno.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

void write_file(const std::string& path, std::string_view text) {
  if (const int error = replace_file(path, text); error != 0) fail_to_write(path, error);
}

// In a folder of their own: that analyser reads all that it finds, and so does `hymn trace`.
void write_for_torch(const std::string& base, int rank, const std::string& json) {
  const std::filesystem::path path(base);
  const std::filesystem::path folder = path.parent_path() / "torch";
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) fail_to_write(folder.string(), error.value());
  write_file(dump_path((folder / path.filename()).string(), rank),
             pickle(torch_dump(DumpJson::parse(json))));
}

}  // namespace

std::string dump_path(std::string_view base, int rank) { return fmt::format("{}{}", base, rank); }

int replace_file(const std::string& path, std::string_view text) {
  // In the same folder: a file can only be renamed within a file system. Made with mode 0600.
  std::string temporary = path + ".XXXXXX";
  Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return errno;
  int error = write_all(file.number(), text);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

void write_dump(const DumpPlace& place, int rank, const std::string& json) {
  write_file(dump_path(place.base, rank), json);
  switch (place.format) {
    case DumpFormat::json:
      return;
    case DumpFormat::torch:
      return write_for_torch(place.base, rank, json);
  }
}

}  // namespace hymn
