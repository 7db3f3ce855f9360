// Tells others what this rank meets them for, as long as it is at it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "recorder/recorder_memory.hpp"

namespace hymn {

/// Given up, unless it is said to be made. Members and tag have to be there whenever it begins.
class MakingNote {
 public:
  MakingNote(RecorderMemory& recorder, std::uint64_t uid, std::span<const int> members,
             MakingKind kind = MakingKind::new_group, std::string_view tag = {})
      : recorder_(recorder), uid_(uid), members_(members), kind_(kind), tag_(tag) {
    begin();
  }
  MakingNote(const MakingNote&) = delete;
  MakingNote& operator=(const MakingNote&) = delete;
  ~MakingNote() { recorder_.end_making(uid_, is_made_); }

  /// Once more, after something else was told.
  void begin() { recorder_.begin_making(uid_, members_, kind_, tag_); }
  void set_made() { is_made_ = true; }

 private:
  RecorderMemory& recorder_;
  std::uint64_t uid_;
  std::span<const int> members_;
  MakingKind kind_;
  std::string_view tag_;
  bool is_made_ = false;
};

}  // namespace hymn
