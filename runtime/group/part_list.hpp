// The parts of a work, in their order.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/group/work_part.hpp"

namespace hymn::detail {

/// Most works have one: that lies in the work itself.
class PartList {
 public:
  /// Over pointers to them, which stay where they are.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = WorkPart*;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = WorkPart*;

    Iterator() = default;
    explicit Iterator(WorkPart* part) : part_(part) {}
    WorkPart* operator*() const { return part_; }
    Iterator& operator++() {
      part_ = part_->next;
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, Iterator(part_->next)); }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    WorkPart* part_ = nullptr;
  };

  template <class... Arguments>
  WorkPart& emplace(Arguments&&... arguments) {
    WorkPart& part =
        first_
            ? *more_.emplace_back(std::make_unique<WorkPart>(std::forward<Arguments>(arguments)...))
            : first_.emplace(std::forward<Arguments>(arguments)...);
    (last_ == nullptr ? head_ : last_->next) = &part;
    last_ = &part;
    return part;
  }

  bool empty() const { return !first_; }
  std::size_t size() const { return first_ ? 1 + more_.size() : 0; }
  WorkPart* front() const { return head_; }
  Iterator begin() const { return Iterator(head_); }
  Iterator end() const { return {}; }

 private:
  std::optional<WorkPart> first_;
  std::vector<std::unique_ptr<WorkPart>> more_;
  WorkPart* head_ = nullptr;
  WorkPart* last_ = nullptr;
};

}  // namespace hymn::detail
