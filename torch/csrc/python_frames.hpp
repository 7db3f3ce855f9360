// The Python functions that this thread is in, read without the interpreter's lock.
//
// Calls of torch's are made without that lock, and to wait for it at each of them, while other
// threads compute in Python, would cost milliseconds. A thread's own frames do not change while it
// is not in Python. How they are laid out is private to each version of CPython: of those that are
// not known here no frames are seen.
#pragma once

#include <Python.h>

namespace hymn_torch {

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030e0000
#define HYMN_TORCH_SEES_FRAMES 1

/// The first members of CPython's _PyInterpreterFrame.
struct PythonFrame {
#if PY_VERSION_HEX < 0x030c0000
  void* function;
  void* globals;
  void* builtins;
  void* locals;
  PyObject* code;
  void* frame_object;
  PythonFrame* previous;
  const char* instruction;
  int stack_top;
  bool is_entry;
  char owner;
#else
  PyObject* code;
  PythonFrame* previous;
  void* function;
  void* globals;
  void* builtins;
  void* locals;
  void* frame_object;
  const char* instruction;
  int stack_top;
  unsigned short return_offset;
  char owner;
#endif
};

/// The innermost one; null: this thread is in none.
inline PythonFrame* innermost_frame() {
  const PyThreadState* const thread = PyGILState_GetThisThreadState();
  if (thread == nullptr) return nullptr;
#if PY_VERSION_HEX < 0x030d0000
  return thread->cframe == nullptr ? nullptr
                                   : reinterpret_cast<PythonFrame*>(thread->cframe->current_frame);
#else
  return reinterpret_cast<PythonFrame*>(thread->current_frame);
#endif
}

/// Whether it is one of CPython's own, between calls of C and of Python.
inline bool is_of_interpreter(const PythonFrame& frame) {
  constexpr char owned_by_c_stack = 3;
  return frame.owner == owned_by_c_stack;
}

/// The line that it is at. Needs the lock.
inline int line_of(const PythonFrame& frame) {
  auto* const code = reinterpret_cast<PyCodeObject*>(frame.code);
  return PyCode_Addr2Line(code, static_cast<int>(frame.instruction - code->co_code_adaptive));
}

#else
#define HYMN_TORCH_SEES_FRAMES 0
#endif

}  // namespace hymn_torch
