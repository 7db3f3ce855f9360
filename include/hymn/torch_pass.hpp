// Backward passes that are not libtorch's own, such as those over several workers
// (hymn/torch_rpc.hpp): what a reducer has to know of them.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <functional>

namespace hymn::torch::detail {

/// Where the gradients of the pass go that this thread is in; they go into the parameters where
/// there is none.
class GradientPlace {
 public:
  GradientPlace() = default;
  GradientPlace(const GradientPlace&) = delete;
  GradientPlace& operator=(const GradientPlace&) = delete;
  virtual ~GradientPlace() = default;

  /// The gradient of that parameter: undefined, until there is one.
  virtual at::Tensor& gradient(const at::Tensor& variable) = 0;
  /// When all is computed that can be for now.
  virtual void at_end(std::function<void()> callback) = 0;

  static GradientPlace* current() { return slot(); }

  class Scope {
   public:
    explicit Scope(GradientPlace& place) : before_(slot()) { slot() = &place; }
    ~Scope() { slot() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GradientPlace* before_;
  };

 private:
  static GradientPlace*& slot() {
    static thread_local GradientPlace* place = nullptr;
    return place;
  }
};

inline at::Tensor& gradient_of(const at::Tensor& variable) {
  GradientPlace* const place = GradientPlace::current();
  return place != nullptr ? place->gradient(variable) : variable.mutable_grad();
}

}  // namespace hymn::torch::detail
