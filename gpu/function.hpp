// Functions of libraries that are loaded at run time, in tables that tests can fill.
//
// A table is a struct of nothing but `Function`s. What it declares is written here by hand, so that
// building needs no header of NVIDIA's and running no driver; tests/unit/gpu_abi_test.cpp holds the
// tables against cuda.h, nvml.h and nccl.h where these are installed. The libraries give what
// changes a new name, such as "_v2", so that a name means the same in every version.
#pragma once

#include <dlfcn.h>

#include <string>

namespace hymn {

/// A function of a library that is loaded at run time.
template <typename Signature>
struct Function {
  const char* name;
  Signature* pointer = nullptr;  ///< null: this version of the library does not have it
};

/// Loads the library and looks up `functions`, which are all that `Table` has. Returns why the
/// library could not be loaded; empty: it was. It stays loaded: those of GPUs do not expect to be
/// unloaded.
template <typename Table, typename... Functions>
std::string load_table(const char* library, Functions&... functions) {
  static_assert(sizeof(Table) == sizeof...(Functions) * sizeof(Function<void()>),
                "a function of the table is missing in this call");
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return why != nullptr ? why : library;
  }
  const auto find = [handle](auto& function) {
    using Pointer = decltype(function.pointer);
    function.pointer = reinterpret_cast<Pointer>(dlsym(handle, function.name));
  };
  (find(functions), ...);
  return "";
}

}  // namespace hymn
