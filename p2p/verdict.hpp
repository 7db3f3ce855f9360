// Whether something can be carried out, and if not, why.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "hymn/request.hpp"

namespace hymn {

/// Whether a candidate can run a request, and if not, why.
struct Verdict {
  bool ok = true;
  std::string reason;

  static Verdict yes() { return {}; }
  static Verdict no(std::string reason) { return {false, std::move(reason)}; }
};

/// What must all be so; else the first reason why not.
inline Verdict first_no(std::initializer_list<Verdict> verdicts) {
  for (const Verdict& verdict : verdicts)
    if (!verdict.ok) return verdict;
  return Verdict::yes();
}

/// Whether the elements of both sides are of a type whose layout is known, so that their bytes can
/// be moved.
inline Verdict can_move_bytes(const Request& request) {
  const bool opaque =
      request.inputs.dtype() == DataType::opaque || request.outputs.dtype() == DataType::opaque;
  return opaque ? Verdict::no("unknown MPI type: its layout is known to MPI alone")
                : Verdict::yes();
}

}  // namespace hymn
