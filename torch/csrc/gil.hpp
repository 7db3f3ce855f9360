// The interpreter's lock: nobody holds it who waits for other ranks.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>

namespace hymn_torch {

/// Whether Python is there, and not about to end.
inline bool is_python_alive() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/// Lets go of the lock for its scope, where this thread has it.
class WithoutGil {
 public:
  WithoutGil() {
    if (is_python_alive() && PyGILState_Check()) release_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> release_;
};

/// Runs the handlers of signals that have come (on the main thread alone, as Python does). Throws
/// what they raise: KeyboardInterrupt.
inline void raise_signals() {
  if (!is_python_alive()) return;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace hymn_torch
