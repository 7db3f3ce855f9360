// Whose gradients are ready in an iteration, and whose have to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hymn::training::detail {

class ReadyMarks {
 public:
  /// `is_static`: a first iteration shows how often each parameter is ready in all of them.
  ReadyMarks(std::size_t parameters, bool is_static)
      : is_static_(is_static),
        expected_(parameters),
        times_(parameters),
        has_gradient_(parameters) {}

  /// Only those of `used` take part; unset: all, or those of the first iteration.
  void begin(std::optional<std::span<const std::size_t>> used);

  enum class Ready {
    partly,    ///< it will be so again
    wholly,    ///< its gradient is there
    too_often  ///< or it takes no part; nothing is noted
  };
  Ready note(std::size_t parameter);
  /// Static: what this iteration was is what all are.
  void learn();
  /// Whether nobody knows yet how often parameters are ready.
  bool is_learning() const { return is_static_ && !has_learned_; }

  /// Whether all that take part are wholly ready; no, while nobody knows.
  bool is_complete() const { return !is_learning() && outstanding_ == 0; }

  bool takes_part(std::size_t parameter) const { return expected_[parameter] != 0; }
  /// Those that take part, and are not wholly ready.
  std::vector<std::size_t> missing() const;
  /// Whether it has been ready since forget_gradients().
  bool has_gradient(std::size_t parameter) const { return has_gradient_[parameter] != 0; }
  std::span<const std::uint8_t> gradients() const { return has_gradient_; }
  void forget_gradients();
  /// In which order parameters were ready first in this iteration.
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  bool is_static_;
  bool has_learned_ = false;
  std::vector<unsigned> expected_;
  std::vector<unsigned> times_;
  std::size_t outstanding_ = 0;  ///< how often some parameter will be ready yet
  std::vector<unsigned> learned_;
  std::vector<std::uint8_t> has_gradient_;
  std::vector<std::size_t> order_;
};

}  // namespace hymn::training::detail
