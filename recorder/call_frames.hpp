// What stands at an address of the user's code: function, file and line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/recorder_layout.hpp"

namespace hymn {

/// One function at a call site; several at one address where calls were inlined.
struct CallFrame {
  std::uint64_t address = 0;
  std::string name;  ///< demangled; empty: unknown
  std::string file;  ///< empty: unknown, for the code was built without debug information
  int line = 0;
  std::string module;        ///< the file that holds the code; empty: none is known
  std::uint64_t offset = 0;  ///< of the address in it
};

/// Whose call sites they are: this process's, or those of another that ran this executable.
struct FrameSource {
  std::string executable{};  ///< empty: this process
  std::uint64_t base = 0;    ///< what the executable's addresses were moved by
  /// The other process, as this one sees it, while it lives: then addresses in its libraries are
  /// known, too. 0: it has ended.
  int pid = 0;
  /// The places that it has named, for the time of the call; null: those of this process.
  const NamedSiteTable* named = nullptr;
  friend auto operator<=>(const FrameSource&, const FrameSource&) = default;
};

/// The functions at a *return* address, the innermost first, without hymn's own inlined ones. There
/// is always one, which may know no more than the address. Looks into files, so it may take tens of
/// milliseconds for the first address of a program; remembers what it has found. A place that the
/// program has named is one frame. Thread-safe; never throws.
std::vector<CallFrame> frames_at(std::uint64_t return_address,
                                 const FrameSource& source = {}) noexcept;

/// The place of a call in few letters: "solver.cpp:88", without the folder; "libuser.so+0x1234";
/// "0x7f00"; empty for no address.
std::string site_text(std::uint64_t return_address, const FrameSource& source = {});

}  // namespace hymn
