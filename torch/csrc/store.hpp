// A store of torch's as one of hymn's.
#pragma once

#include <hymn/hymn_store.h>

#include <exception>
#include <memory>
#include <mutex>

#include "torch_version.hpp"

namespace hymn_torch {

/// What went wrong in the functions of a store, beyond the code that they can return.
class StoreTrouble {
 public:
  /// The exception that is being handled.
  void note();
  /// Rethrows an exception of Python's (an interrupt); otherwise gives the text of the last one.
  std::string tell();

 private:
  std::mutex mutex_;
  std::exception_ptr last_;
};

/// The handle is the caller's to free; torch's store lives as long as hymn uses it. While a thread
/// of Python's looks for keys, signals are answered.
hymnStore_t make_store(c10::intrusive_ptr<c10d::Store> store,
                       std::shared_ptr<StoreTrouble> trouble);

}  // namespace hymn_torch
