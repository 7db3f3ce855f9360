// Calls into a driver's library. A function that fails or is missing is told by a remark, once.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_functions.hpp"

namespace hymn {

class GpuCalls {
 public:
  /// `explain` turns a result into text; `normal` are results other than 0 that mean "this GPU has
  /// no such thing", which is nothing to remark on.
  GpuCalls(std::string library, std::vector<std::string>& remarks,
           std::function<std::string(int)> explain, std::vector<int> normal = {})
      : library_(std::move(library)),
        remarks_(&remarks),
        explain_(std::move(explain)),
        normal_(std::move(normal)) {}

  /// Whether the call succeeded.
  template <typename... Parameters, typename... Arguments>
  bool operator()(const Function<int(Parameters...)>& function, Arguments... arguments) {
    if (function.pointer == nullptr) {
      remark(function.name, fmt::format("{} has no {}", library_, function.name));
      return false;
    }
    const int result = function.pointer(arguments...);
    if (result == 0) return true;
    if (std::find(normal_.begin(), normal_.end(), result) == normal_.end()) {
      remark(function.name, fmt::format("{} failed: {}", function.name, explain_(result)));
    }
    return false;
  }

 private:
  void remark(const char* function, std::string text) {
    if (told_.insert(function).second) remarks_->push_back(std::move(text));
  }

  std::string library_;
  std::vector<std::string>* remarks_;
  std::function<std::string(int)> explain_;
  std::vector<int> normal_;
  std::set<std::string> told_;
};

}  // namespace hymn
