#include "tools/loaded.hpp"

#include <dlfcn.h>

#include <string>

#include "hymn/error.hpp"

namespace hymn {

void* loaded_name(const char* library, const char* name, const LoadFailure& failure) {
  void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const found = loaded == nullptr ? nullptr : ::dlsym(loaded, name);
  if (found != nullptr) return found;
  throw UnsupportedError(std::string(failure.lack) + ": " + ::dlerror(),
                         {.remedy = failure.remedy});
}

}  // namespace hymn
