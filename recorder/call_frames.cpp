#include "recorder/call_frames.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "recorder/named_sites.hpp"

namespace hymn {
namespace {

struct End {
  void operator()(Dwfl* session) const { dwfl_end(session); }
};
using Session = std::unique_ptr<Dwfl, End>;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Debug information is looked for in the file itself and, by its build id, below /usr/lib/debug:
// never on a server, which might keep a dump waiting.
Dwfl_Callbacks callbacks(bool own) {
  Dwfl_Callbacks made{};
  made.find_elf = own ? dwfl_linux_proc_find_elf : dwfl_build_id_find_elf;
  made.find_debuginfo = dwfl_build_id_find_debuginfo;
  return made;
}

template <class Report>
Session open_session(const Dwfl_Callbacks& callbacks, Report report) {
  Session session(dwfl_begin(&callbacks));
  if (!session) return nullptr;
  dwfl_report_begin(session.get());
  if (!report(session.get())) return nullptr;
  dwfl_report_end(session.get(), nullptr, nullptr);
  return session;
}

Session open_session(const FrameSource& source) {
  static const Dwfl_Callbacks living = callbacks(true);
  static const Dwfl_Callbacks other = callbacks(false);
  const bool is_own = source.executable.empty();
  if (is_own || source.pid != 0) {
    auto session = open_session(living, [&](Dwfl* made) {
      return dwfl_linux_proc_report(made, is_own ? getpid() : source.pid) == 0;
    });
    if (session || is_own) return session;
  }
  return open_session(other, [&](Dwfl* made) {
    return dwfl_report_elf(made, source.executable.c_str(), source.executable.c_str(), -1,
                           source.base, true) != nullptr;
  });
}

std::string demangled(const char* name) {
  if (name == nullptr) return "";
  // What is no symbol of C++ may still read as the code of a type.
  if (!std::string_view(name).starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, Free> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status));
  return status == 0 && plain ? plain.get() : name;
}

std::string name_of(Dwarf_Die& function) {
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(&function, kind, &attribute) == nullptr) continue;
    const char* name = dwarf_formstring(&attribute);
    if (name != nullptr) return demangled(name);
  }
  return "";
}

/// A path as the compiler was given it, from the folder that it ran in.
std::string absolute(const char* path, const char* folder) {
  if (path == nullptr) return "";
  if (path[0] == '/' || folder == nullptr) return path;
  return std::filesystem::path(folder).append(path).lexically_normal().string();
}

const char* folder_of(Dwarf_Die& unit) {
  Dwarf_Attribute attribute;
  return dwarf_formstring(dwarf_attr(&unit, DW_AT_comp_dir, &attribute));
}

/// Where an inlined function was called from.
void go_to_call(Dwarf_Die& unit, Dwarf_Die& inlined, CallFrame& frame) {
  Dwarf_Attribute attribute;
  Dwarf_Word line = 0;
  Dwarf_Word file = 0;
  frame.file.clear();
  frame.line = 0;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &line) == 0)
    frame.line = static_cast<int>(line);
  Dwarf_Files* files = nullptr;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file) == 0 &&
      dwarf_getsrcfiles(&unit, &files, nullptr) == 0) {
    frame.file = absolute(dwarf_filesrc(files, file, nullptr, nullptr), folder_of(unit));
  }
}

/// What may hold the code of a function that is not its own: the code of a lambda, or of a method
/// of a local class, stands in the function around it.
bool may_hold_functions(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
         tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block;
}

/// The same, by looking into all of these oneself: libdw passes over namespaces, where clang puts
/// what is defined in them, and over functions that do not hold the address themselves.
bool find_inside(Dwarf_Die& scope, Dwarf_Addr address, Dwarf_Die& function) {
  Dwarf_Die child;
  if (dwarf_child(&scope, &child) != 0) return false;
  do {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram && dwarf_haspc(&child, address) > 0) {
      function = child;
      return true;
    }
    if (may_hold_functions(tag) && find_inside(child, address, function)) return true;
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

/// The function whose code it is; false: none is known.
bool find_function(Dwarf_Die& unit, Dwarf_Addr address, Dwarf_Die& function) {
  Dwarf_Die* found = nullptr;
  const int count = dwarf_getscopes(&unit, address, &found);
  const std::unique_ptr<Dwarf_Die, Free> kept(found);
  // The scopes around the code of the innermost one, not around the source of an inlined function.
  Dwarf_Die* around = nullptr;
  const int depth = count > 0 ? dwarf_getscopes_die(&found[0], &around) : 0;
  const std::unique_ptr<Dwarf_Die, Free> kept_too(around);
  for (int i = 0; i < depth; ++i) {
    if (dwarf_tag(&around[i]) != DW_TAG_subprogram) continue;
    function = around[i];
    return true;
  }
  return find_inside(unit, address, function);
}

/// Adds the functions inlined at the address, from the outermost in. Blocks are looked into even
/// where they do not seem to hold the address: compilers leave gaps in what they say of them.
void add_inlined(Dwarf_Die& scope, Dwarf_Addr address, std::vector<Dwarf_Die>& functions) {
  Dwarf_Die child;
  if (dwarf_child(&scope, &child) != 0) return;
  do {
    const int tag = dwarf_tag(&child);
    const bool inlined = tag == DW_TAG_inlined_subroutine && dwarf_haspc(&child, address) > 0;
    if (!inlined && tag != DW_TAG_lexical_block) continue;
    const std::size_t before = functions.size();
    if (inlined) functions.push_back(child);
    add_inlined(child, address, functions);
    if (functions.size() > before) return;
  } while (dwarf_siblingof(&child, &child) == 0);
}

/// The functions around an address, from the innermost out.
std::vector<Dwarf_Die> functions_at(Dwarf_Die& unit, Dwarf_Addr address) {
  Dwarf_Die function;
  if (!find_function(unit, address, function)) return {};
  std::vector<Dwarf_Die> functions = {function};
  add_inlined(function, address, functions);
  std::reverse(functions.begin(), functions.end());
  return functions;
}

/// A call site in hymn's own headers is not what anybody looks for.
void drop_own_wrappers(std::vector<CallFrame>& frames) {
  constexpr std::array own{"hymn/process_group.hpp", "hymn/objects.hpp", "hymn/coalesce.hpp",
                           "hymn/join.hpp"};
  const auto users = std::find_if(frames.begin(), frames.end(), [&own](const CallFrame& frame) {
    return std::none_of(own.begin(), own.end(),
                        [&](const char* header) { return frame.file.ends_with(header); });
  });
  if (users != frames.end()) frames.erase(frames.begin(), users);
}

/// The compilation unit of an address; null: there is no debug information.
Dwarf_Die* unit_of(Dwfl_Module* module, Dwarf_Addr address, Dwarf_Addr& bias) {
  if (Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias)) return unit;
  // Not every compiler writes a table of addresses (clang does not): all units are asked.
  Dwarf_Die* unit = nullptr;
  while ((unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr)
    if (dwarf_haspc(unit, address - bias) > 0) return unit;
  return nullptr;
}

std::vector<CallFrame> look_up(Dwfl* session, std::uint64_t return_address) {
  CallFrame frame;
  frame.address = return_address;
  // The call itself is before the address that it returns to.
  const Dwarf_Addr address = return_address - 1;
  Dwfl_Module* module = session == nullptr ? nullptr : dwfl_addrmodule(session, address);
  if (module == nullptr) return {frame};
  Dwarf_Addr begin = 0;
  const char* file = nullptr;
  const char* module_name =
      dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, &file, nullptr);
  if (file == nullptr) file = module_name;
  frame.module = file == nullptr ? "" : file;
  frame.offset = return_address - begin;

  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = unit_of(module, address, bias);
  if (unit != nullptr) {
    if (Dwarf_Line* line = dwarf_getsrc_die(unit, address - bias)) {
      frame.file = absolute(dwarf_linesrc(line, nullptr, nullptr), folder_of(*unit));
      dwarf_lineno(line, &frame.line);
    }
  }
  std::vector<CallFrame> frames;
  if (unit != nullptr) {
    for (Dwarf_Die& function : functions_at(*unit, address - bias)) {
      frame.name = name_of(function);
      frames.push_back(frame);
      go_to_call(*unit, function, frame);
    }
  }
  if (frames.empty()) {
    frame.name = demangled(dwfl_module_addrname(module, address));
    frames.push_back(frame);
  }
  drop_own_wrappers(frames);
  return frames;
}

/// What has been found. One session serves all addresses of a source; a new one is opened when an
/// address belongs to none of its files, for a library may have been loaded since.
class Finder {
 public:
  std::vector<CallFrame> find(std::uint64_t address, const FrameSource& source) {
    std::lock_guard lock(mutex_);
    const auto key = std::pair(source, address);
    const auto known = found_.find(key);
    if (known != found_.end()) return known->second;
    if (sessions_.size() >= most_sessions && !sessions_.contains(source)) sessions_.clear();
    Session& session = sessions_[source];
    if (!session || dwfl_addrmodule(session.get(), address - 1) == nullptr)
      session = open_session(source);
    std::vector<CallFrame> frames = look_up(session.get(), address);
    if (found_.size() < most_kept) found_.emplace(key, frames);
    return frames;
  }

 private:
  static constexpr std::size_t most_kept = 20000;
  static constexpr std::size_t most_sessions = 16;
  std::mutex mutex_;  // of dumps and errors alone: no call takes it
  std::map<FrameSource, Session> sessions_;
  std::map<std::pair<FrameSource, std::uint64_t>, std::vector<CallFrame>> found_;
};

}  // namespace

std::vector<CallFrame> frames_at(std::uint64_t return_address, const FrameSource& source) noexcept {
  try {
    const NamedSiteTable& named =
        source.named == nullptr ? NamedSites::of_process().table() : *source.named;
    if (const auto place = named_site(named, return_address)) {
      CallFrame frame;
      frame.address = return_address;
      (place->line == 0 ? frame.name : frame.file) = place->file;
      frame.line = place->line;
      return {frame};
    }
    // Never destroyed: a thread may still write a dump when the process ends.
    static auto* const finder = new Finder;
    FrameSource addresses = source;
    addresses.named = nullptr;  // which may be gone when another one is asked for
    return finder->find(return_address, addresses);
  } catch (...) {
    return {
        {.address = return_address, .name = {}, .file = {}, .line = 0, .module = {}, .offset = 0}};
  }
}

std::string site_text(std::uint64_t return_address, const FrameSource& source) {
  if (return_address == 0) return "";
  const CallFrame frame = frames_at(return_address, source).front();
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename(); };
  if (!frame.file.empty()) return fmt::format("{}:{}", name(frame.file).string(), frame.line);
  if (is_named_site(return_address) && !frame.name.empty()) return frame.name;
  if (!frame.module.empty())
    return fmt::format("{}+{:#x}", name(frame.module).string(), frame.offset);
  return fmt::format("{:#x}", frame.address);
}

}  // namespace hymn
