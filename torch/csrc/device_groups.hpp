// Which group of hymn's carries the tensors of a process group that are on a GPU.
#pragma once

#include <hymn/hymn.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace hymn_torch {

/// A group of hymn's works on one GPU of each rank: the one that hymn has chosen for it, or one
/// that is named. torch's tensors are where the program has put them. As torch's own backend for
/// NCCL makes a communicator for each GPU at its first use, other groups of the same ranks are made
/// here, by all of them together. Thread-safe.
class DeviceGroups {
 public:
  /// Makes a group of all members, that is on this GPU on this rank.
  using Make = std::function<hymnGroup_t(int gpu)>;
  /// `of` works on the GPUs that hymn has chosen; `own`: this rank's, -1: none.
  DeviceGroups(hymnGroup_t of, int own, Make make) : of_(of), own_(own), make_(std::move(make)) {}
  DeviceGroups(const DeviceGroups&) = delete;
  DeviceGroups& operator=(const DeviceGroups&) = delete;

  /// For a collective on that GPU, as torch numbers it. All members call it at the same point when
  /// they come to a GPU for the first time: it is `of` where all of them are on the GPUs that hymn
  /// has chosen, and a new group otherwise. Throws as hymn's functions fail.
  hymnGroup_t for_collective(int gpu);
  /// For a message, which two members make alone: as a collective has settled it before. Throws
  /// ValueError where none has, and the GPU is not the one that hymn has chosen.
  hymnGroup_t for_message(int gpu);
  /// All that were made.
  void for_each(const std::function<void(hymnGroup_t)>& act) const;
  /// Gives them up, and what is made later. `of` goes first: in it for_collective() may wait.
  void abort(const std::string& reason) noexcept;
  /// Ends them.
  void free() noexcept;

 private:
  bool is_anyone_elsewhere(bool am_elsewhere) const;
  /// Null: it is not settled yet.
  hymnGroup_t find(int gpu) const;

  const hymnGroup_t of_;
  const int own_;
  const Make make_;
  std::mutex settling_;                // held while ranks meet
  mutable std::mutex mutex_;           // guards what follows; never held while they do
  std::string given_up_;               ///< why; empty: they are not
  std::map<int, hymnGroup_t> by_gpu_;  ///< `of_` among them
};

}  // namespace hymn_torch
