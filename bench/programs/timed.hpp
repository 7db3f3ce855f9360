// A communicator whose calls are timed: how much of a program's time they take.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "bench/programs/faces.hpp"
#include "bench/turns.hpp"

namespace hymn::bench {

/// Adds to `spent` what is spent in calls. Two looks at the clock a call, some 50 ns: so what is
/// told as a program's time is measured without it.
template <class Comm>
class Timed {
 public:
  static constexpr std::string_view name = Comm::name;

  Timed(Comm comm, Clock::duration& spent) : comm_(std::move(comm)), spent_(&spent) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  Timed split(int color, int key) { return Timed(comm_.split(color, key), *spent_); }

  void exchange(int previous, int next, const Faces& faces) {
    const Watch watch(*spent_);
    comm_.exchange(previous, next, faces);
  }
  double sum(double part) {
    const Watch watch(*spent_);
    return comm_.sum(part);
  }
  void sum(std::span<const double> in, std::span<double> out) {
    const Watch watch(*spent_);
    comm_.sum(in, out);
  }
  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    const Watch watch(*spent_);
    comm_.all_gather(in, out);
  }
  template <class T>
  void all_to_all(std::span<const T> in, std::span<T> out) {
    const Watch watch(*spent_);
    comm_.all_to_all(in, out);
  }
  template <class T>
  void all_to_all(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                  std::span<const std::size_t> out_counts) {
    const Watch watch(*spent_);
    comm_.all_to_all(in, in_counts, out, out_counts);
  }

 private:
  class Watch {
   public:
    explicit Watch(Clock::duration& spent) : spent_(spent) {}
    ~Watch() { spent_ += Clock::now() - began_; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Clock::duration& spent_;
    Clock::time_point began_ = Clock::now();
  };

  Comm comm_;
  Clock::duration* spent_;
};

}  // namespace hymn::bench
