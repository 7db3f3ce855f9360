// Where in the Python program a call is made.
#include "python_site.hpp"

#include <hymn/hymn.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "gil.hpp"
#include "python_frames.hpp"

namespace hymn_torch {
namespace {

std::vector<std::string>& own_code() {
  static auto* const paths = new std::vector<std::string>;
  return *paths;
}

#if HYMN_TORCH_SEES_FRAMES

bool is_own(const std::string& file) {
  for (const std::string& path : own_code())
    if (file.compare(0, path.size(), path) == 0) return true;
  return false;
}

struct Known {
  bool is_own;  ///< or nobody's: look at the caller
  hymnSite_t site;
};

// A program that makes code as it runs must not fill the memory.
constexpr std::size_t most_known = 10'000;

/// The first time that this thread comes there. The code is kept for ever, so that no other can
/// come to lie where it lies.
Known learn(const PythonFrame& frame) {
  const pybind11::gil_scoped_acquire gil;
  Py_INCREF(frame.code);
  const char* const file =
      PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(frame.code)->co_filename);
  if (file == nullptr) {
    PyErr_Clear();
    return {true, 0};
  }
  if (is_own(file)) return {true, 0};
  const int line = line_of(frame);
  if (line <= 0) return {true, 0};  // between a class and its constructor, in CPython 3.13
  Known known{false, 0};
  hymnSiteCreate(file, line, &known.site);
  return known;
}

/// Of the innermost function that is not torch's own. An instruction is known by its address.
hymnSite_t site_of_python() {
  if (!is_python_alive()) return 0;  // threads' frames go when it ends
  thread_local std::unordered_map<const char*, Known> places;
  for (const PythonFrame* frame = innermost_frame(); frame != nullptr; frame = frame->previous) {
    if (is_of_interpreter(*frame)) continue;
    auto found = places.find(frame->instruction);
    if (found == places.end()) {
      if (places.size() >= most_known) return 0;
      found = places.emplace(frame->instruction, learn(*frame)).first;
    }
    if (!found->second.is_own) return found->second.site;
  }
  return 0;
}

#else

hymnSite_t site_of_python() { return 0; }

#endif

}  // namespace

PythonSite::PythonSite() { hymnThreadSetSite(site_of_python()); }

PythonSite::~PythonSite() { hymnThreadSetSite(0); }

void set_own_code_of_torch() {
  const pybind11::object path = pybind11::module_::import("os").attr("path");
  const auto file = pybind11::module_::import("torch").attr("__file__");
  const auto folder = path.attr("dirname")(file).cast<std::string>();
  // Context managers of torch's are left through contextlib.
  const auto managers = pybind11::module_::import("contextlib").attr("__file__");
  own_code() = {folder + "/", managers.cast<std::string>()};
}

}  // namespace hymn_torch
